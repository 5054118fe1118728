// Package infer runs inference jobs, between the gateway, which handles clients, and a
// [parley.Worker], which handles tokens. It handles neither HTTP nor text.
//
// A [Task] says what to compute and for whom. A [Pipeline] answers it through layers,
// each a source of steps in front of the next; [Pipeline.Run] reads in this order:
//
//	task.go          what is computed, and for whom
//	bounds.go        how long the first token and the whole answer may take
//	share.go         equal requests are computed once: share_cache.go keeps answers,
//	                 share_flight.go lets requests join one under way, and
//	                 share_across.go joins those of other gateways through Redis
//	model_queues.go  the queues of a model, one for each pool of workers
//	pool_queue.go    one queue: admission, refusal, circuit breakers
//	step.go          what a layer gives to the one above it
//	generate.go      the worker's deltas, on the caller's goroutine or pumped into a channel
//
// waiters.go has the position of each job in the queues, for clients that ask.
//
// Jobs are passed down and steps returned; nothing here calls its caller except through
// the functions of a Task.
package infer
