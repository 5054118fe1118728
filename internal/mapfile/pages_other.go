//go:build unix && !linux

package mapfile

func keepPagesSmall([]byte) {}
