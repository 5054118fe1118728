//go:build unix && !linux

package weights

func keepPagesSmall([]byte) {}
