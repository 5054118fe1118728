//go:build !linux

package cpu

func currentCore() int32 { return -1 }

func leaveCore(int32) {}
