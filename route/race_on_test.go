//go:build race

package route

const underRace = true
