// Package queue decides which request is served next, which wait, and which are
// rejected at once because waiting would not help. There is one queue for each model and pool, in front
// of the pool's workers; it takes now, touches no clock, and its tests are scripts.
//
// # What is counted
//
// Requests differ a hundredfold in what they cost, so nothing here counts
// requests where it means work. The work of an entry is the prompt tokens that
// must be computed and the tokens that will be written. The latter are not known
// beforehand: they are estimated from what the tenant's answers had until now,
// and the account is put right when the answer has ended.
//
// # Whose turn it is
//
// The tier that was served least in proportion to its weight; in it the tenant
// served least; of a tenant the entry whose first token is due first by its objective,
// and where all were promised the same the one that came first. Service is counted when
// an entry is dispatched. A tier or tenant that comes after an absence starts
// level with those present; see [parley/internal/fairshare].
//
// Of two tenants of a tier that both wait all the time, neither is ever ahead of
// the other by more than the largest entry of each, and the same holds for
// tiers, divided by their weights (see [Queue.Next]). So no entry
// starves.
//
// # What is rejected
//
// Waiting is bounded three times, and always against the lowest tier first:
//
//   - An entry that is not expected to get its turn before its deadline is
//     refused when it comes, with the time after which it is worth asking again.
//   - A full queue makes room by displacing an entry of a lower tier, or of a
//     tenant of the same tier that has more waiting; never one of a higher tier.
//   - While the wait stands too long, a share of what comes is shed (see [Shed]).
//
// People who sit before a page and see their position are an exception: they wait for up
// to [Config.PersonWaitMax] and are neither shed nor displaced. They have an account of
// their own beside the programs of their tenant, so a flood of those does not delay them;
// and they take the place of a program's entry where the queue is full.
//
// Retry times spread out: each rejected request is given the time at which the ones
// rejected before it will have been served.
//
// # When a turn comes
//
// A worker fills its own passes best, but what waits there is beyond our order.
// So it holds work that it has not begun for about one pass only: what is
// dispatched and has no first token yet is bounded by what the workers were
// measured to begin in that time. And a worker that takes all that comes makes
// every answer slow: no entry is dispatched while running answers get
// their tokens more slowly than they should.
//
// A [Breaker] stands beside the queue: it keeps work from a worker that fails.
package queue
