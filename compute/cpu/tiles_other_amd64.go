//go:build amd64 && !linux

package cpu

// askForTiles reports that the matrix unit may not be used: how to ask for it is known for Linux only.
func askForTiles() bool { return false }
