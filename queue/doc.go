// Package queue decides which request is served next, which wait, and which are
// rejected at once because waiting would not help. There is one queue for each model and pool, in front
// of the pool's workers; it takes now, touches no clock, and its tests are scripts.
//
// # What is counted
//
// The costs of requests differ by a factor of a hundred, so the queue counts work, not
// requests. The work of an entry is the prompt tokens to compute and the tokens to
// generate. The latter are estimated from the tenant's earlier answers, and corrected
// when the answer has ended.
//
// # Which entry is next
//
// The tier that was served least in proportion to its weight is next; in it the tenant
// that was served least; of a tenant's entries the one whose first token is due first by
// its objective, and with equal objectives the one that arrived first. Service is counted
// when an entry is dispatched. A tier or tenant that returns after an absence starts level
// with the active ones; see [parley/internal/fairshare].
//
// Of two tenants of a tier that always have queued entries, neither is ever ahead of the
// other by more than the largest entry of each; the same holds for tiers, divided by their
// weights (see [Queue.Next]). So no entry starves.
//
// # What is rejected
//
// Waiting is bounded three times, and always against the lowest tier first:
//
//   - An entry that is not expected to be dispatched before its deadline is rejected on
//     arrival, with the time after which it is worth retrying.
//   - A full queue displaces an entry of a lower tier, or of a tenant of the same tier
//     with more queued entries; never one of a higher tier.
//   - While the wait is too long, a share of arrivals is shed (see [Shed]).
//
// People on the chat page, who see their position, are an exception: they wait for up
// to [Config.PersonWaitMax] and are neither shed nor displaced. They have a share separate
// from the programs of their tenant, so a flood of requests from programs does not delay
// them; and if the queue is full, they displace a program's entry.
//
// Retry times are spread out: each rejected request gets the time at which the ones
// rejected before it will have been served.
//
// # When an entry is dispatched
//
// A worker fills its own passes best, but the queue cannot order the requests that wait
// there. So a worker holds only about one pass of work that it has not begun: dispatched
// work without a first token is limited to the work that the workers were measured to
// begin in that time. A worker that took everything would also make every answer slow:
// no entry is dispatched while running answers get their tokens too slowly.
//
// A [Breaker] works next to the queue: it stops requests to a worker that fails.
package queue
