// Package drill rehearses failures: it starts its own workers and gateway, causes a failure
// under load, and checks that the protection holds.
package drill
