//go:build !race

package route

// underRace is set when the race detector is on. The long traces are left out
// then: they take minutes, and one goroutine has nobody to race with.
const underRace = false
