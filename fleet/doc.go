// Package fleet is the live set of workers. To the gateway it is one
// [parley.Worker]. It tracks which workers are healthy, picks one for each
// request by cache and load ([parley/route]), and when one is lost mid-answer has
// another worker resume the answer.
//
// # Members and pools
//
// A [Member] is a worker with its state. It belongs to a [Pool], which says
// which requests it serves. A request goes to the first pool that admits it and has
// a worker up, and to no other.
//
// # One request
//
//	send.go      pick, send, and retry after a failure: a dispatch
//	hedge.go     two workers at once, if enabled
//	partial.go   a partial answer, and how it is resumed elsewhere
//	fetch.go     where the worker fetches blocks from that it lacks
//	prefill.go   a prompt that another worker computes first
//	reuse.go     what workers learn from each other about evicting blocks
//	judge.go     what a failure means: retry elsewhere, or fail the request
//	poison.go    whether a request kills workers, or was there by chance
//	withdraw.go  withdraws requests that workers have not begun ([parley/fleet/withdraw])
//	budget.go    the budget of recomputation after failures
//	health.go    probes; which workers are up, warming up, draining or lost
//	warm.go      what a worker that joins fetches from the others
//	handover.go  what the others fetch from a worker that stops
//	sleep.go     sleeping workers, and waking them for requests
//	member.go    one worker: its breaker, its streams, its events
//	replicas.go  the models of a worker, which may change
//	status.go    the state of workers for operators
//
// # Guarantees
//
// The client's stream continues after a worker is lost without a token lost,
// repeated or altered. It is replayed as prompt and tokens so far
// ([parley.Request.Resume]), so seeds, penalties, stop strings, log-probabilities
// and grammars continue as if nothing had happened. That takes workers that return
// token ids and can resume; with others an answer that has begun cannot be
// moved, and its client gets an error.
//
// Failures cannot multiply the load. Recomputed tokens are paid from a budget
// that useful work fills; when it is spent, failovers wait for it instead of
// failing. A worker that refuses connections gets no requests after the first
// refusal, so it does not use up the attempts of a request; one that answers with
// errors gets none when its breaker opens, which takes fewer failures than a
// request has attempts.
package fleet
