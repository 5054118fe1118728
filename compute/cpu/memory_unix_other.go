//go:build unix && !linux

package cpu

func adviseHugePages([]byte) {}
