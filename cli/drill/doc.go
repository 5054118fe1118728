// Package drill rehearses failures: it starts workers and a gateway of its own, breaks
// something under load, and checks that the protection holds.
package drill
