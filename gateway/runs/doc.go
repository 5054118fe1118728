// Package runs keeps track of the answers that this process writes into the
// conversation store, with or without a client: the turns of conversations and the
// stored responses.
//
// A run is claimed before its row is made, so that two requests of one process never
// write the same answer. Other processes see that it is taken by this process's lease
// in the store, which heartbeats extend while anything runs:
//
//	registry.go    which runs there are, who waits for news of them, what ends them
//	lease.go       heartbeats: the store takes this process for alive
//	pending.go     outcomes that could not be stored yet
//	checkpoint.go  the answer of a turn, stored while it grows
//	events.go      the events of a response, stored while it is computed
//	periodic.go    both on timers, a few at a time
//	runs.go        all of it together, and work without a client
package runs
