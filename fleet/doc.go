// Package fleet is the live set of workers. Towards the gateway it is one
// [parley.Worker]; behind that it knows who is there and healthy, picks one for
// each request by what it holds and has to do ([parley/route]), and when one is
// lost in the middle of an answer has another go on where it stopped.
//
// # Members and pools
//
// A [Member] is a worker and what is known of it. It stands in a [Pool], which
// says for whom and for what it works. A request goes to the first pool that
// admits it and has somebody at work; to none else.
//
// # One request
//
//	send.go      pick, send, and send again when that failed: a trip
//	hedge.go     two workers at once, for those who want that
//	said.go      what a trip's answer has said, and how it goes on elsewhere
//	judge.go     what a failure means: try elsewhere, or tell the client
//	ordeal.go    whether a request kills workers, or is unlucky
//	budget.go    how much may be computed again because of failures
//	health.go    probes; who is up, warming up, draining or lost
//	sleep.go     who is asleep, and is woken for whom
//	member.go    one worker: its breaker, its streams, its events
//	seats.go     for which models the router knows it, also when they change
//	status.go    what operators are shown
//
// # What is promised
//
// The client's stream goes on after a worker is lost without a token lost,
// repeated or altered. It is replayed as prompt and tokens so far
// ([parley.Request.Resume]), so seeds, penalties, stop strings, log-probabilities
// and grammars go on as if nothing had happened. That takes workers that return
// token ids and can resume; of others an answer that has begun cannot be
// moved, and its client is told.
//
// Failures cannot multiply the load. What is computed again is paid from a
// budget that useful work fills; when it is spent, moves wait for it instead
// of failing. A worker that refuses connections is out at the first refusal, so
// it does not eat the tries of a request; one that answers with errors is out
// when its breaker opens, which takes fewer failures than a request has tries.
package fleet
