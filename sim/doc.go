// Package sim runs a fleet in virtual time: the queue, the router, the block index, the
// scheduler and the block account that run in production, against a model of how long a
// forward pass takes. An hour of a large fleet takes seconds, and nothing is computed,
// sent or waited for.
//
// # What is real
//
// A [Scenario] describes pools of workers, traffic, and what happens to them. For each
// request, in this order: package limit reserves what it may use of its organisation's limits, or refuses;
// [queue.Queue] admits or rejects it; when its turn comes,
// [route.Router] picks a worker by the blocks that [kvindex.Index] knows of, from the
// events of the workers' caches; there [sched.Scheduler] plans each pass and accounts for
// blocks in [kv.Cache]. This package has no policy of its own: it keeps a clock, moves
// requests between these, and measures. Where a scenario turns a mechanism off, to compare,
// it says so (round_robin, no_cache).
//
// # What is modelled
//
//   - The time of a pass: [cost.Model].
//   - Clients: when they come, think, lose patience and retry ([traffic]).
//   - Workers that start, are lost and return.
//
// # What is left out
//
// Networks, tokenizers and the HTTP server take no time. The breaker, hedging and taking
// back requests are at the edge of the gateway and of the fleet, and not simulated.
// A worker that is lost ends its passes at once, and its requests continue elsewhere after
// the tokens they have, as the fleet does with its own workers.
//
// # Determinism
//
// The same scenario and seed give the same bytes on every machine of one architecture:
// there is one goroutine, no clock, all random numbers come from the seed, events at the
// same time go in the order in which they were made, and nothing depends on the order of a map.
// Where a product is added to something, its conversion to float64 keeps compilers for
// arm64 and others from rounding only once; a test of internal/lint reads the assembly.
// What is left between architectures are functions of Go's standard library, such as
// [math.Exp], which has a different last bit on some.
package sim
