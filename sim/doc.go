// Package sim runs a fleet in virtual time: the queue, the router, the block index, the
// scheduler and the block accounting that run in production, with a model of how long a
// forward pass takes. An hour of a large fleet takes seconds: nothing is computed or
// sent, and there is no waiting.
//
// # What is real
//
// A [Scenario] describes pools of workers, traffic, and what happens to them. For each
// request, in this order: package limit reserves what it may use of its organisation's limits, or refuses;
// [queue.Queue] admits or rejects it; when it is next,
// [route.Router] picks a worker by the blocks in the [kvindex.Index], which follows the
// events of the workers' caches; there [sched.Scheduler] plans each pass and accounts for
// blocks in [kv.Cache]. This package has no policy of its own: it keeps a clock, moves
// requests between these, and measures. Where a scenario turns a mechanism off, to compare,
// it says so (round_robin, no_cache).
//
// # What is modelled
//
//   - The time of a pass: [cost.Model].
//   - Clients: when they arrive, think, hang up and retry ([traffic]).
//   - Workers that start, are lost and return.
//
// # What is left out
//
// Networks, tokenizers and the HTTP server take no time. The breaker, hedging and the
// withdrawal of requests are not simulated.
// A worker that is lost ends its passes at once, and its requests continue elsewhere after
// the tokens they have, as the fleet does with its own workers.
//
// # Determinism
//
// The same scenario and seed give the same bytes on every machine:
// there is one goroutine, no clock, all random numbers come from the seed, events at the
// same time are handled in the order in which they were created, and nothing depends on the
// order of a map.
// Where a product is added to something, its conversion to float64 keeps compilers for
// arm64 and others from rounding only once; a test of internal/lint reads the assembly.
// Functions of Go's standard library whose last bit depends on the machine, such as [math.Exp],
// are not used: package exactmath has others, and a test of internal/lint finds the former.
package sim
