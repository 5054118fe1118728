// Package kvstore keeps blocks of keys and values in a store behind the fleet that operators
// already run: Redis or Valkey, one server or a cluster, or a bucket of any S3-compatible
// service. A [Store] is one such place. A [Backing] puts it behind one engine: before a prompt is
// computed, blocks that the engine misses are read from the store; and blocks that are likely to
// be used again are written back to it. So a worker finds what any worker of the same kind has
// computed, also after all of them were restarted.
//
// # What is stored
//
// A block is one value. Its key has the digest of its format ([kvwire.Format]: weights,
// arithmetic, type, sizes, version), and its name ([parley.BlockHash]: tokens and salts). So
// workers that differ in anything the bytes depend on never meet, and tenants are kept apart
// as in the caches: a name cannot be guessed without the salt. The value is
//
//	"PKV1"  sum  payload
//
// where sum is 8 bytes, big-endian: the xxHash of format, name and payload. A value of another
// length or with another sum is a miss, and is removed.
//
// # A store is never waited for longer than it is worth
//
// Whether a prompt is looked up is decided by cost (weigh.go), as [route.Router.Fetch] decides:
// how long computing the missing blocks takes, by the engine's own measure; how long the store
// takes, measured; and how often it had what was asked for. The same numbers bound the wait. A
// store that is slow, full, broken or gone is a miss with a reason. After failures in a row a
// circuit breaker keeps requests from it; reading and writing have one each, since a store that
// is full can still be read. None of this fails a request or changes a token, and the engine's
// loop only ever copies a few blocks between two passes.
//
// # What is written
//
// A block is worth writing when it is likely enough to be used again, as [kv.Cache] has learned
// from how blocks of its kind and age were used ([kv.Cache.Prospects]). The likeliest goes first,
// each after the blocks before it in its sequence. Blocks are written while they are in memory:
// when one is evicted, the store has it if it was worth it and the bandwidth allowed. What the
// store has already is not sent again, but renewed.
//
// # Bounds
//
// Reads hold at most two windows of windowBytes each (or of one block, if that is larger), and at
// most readsMax are under way; more are refused as busy. Writes hold one block for each engine.
// Writes never exceed the set bandwidth, summed over the engines of the process.
//
//	place.go   the two kinds of stores, by URL
//	redis.go   Redis and Valkey
//	s3.go      buckets; sign.go signs requests to them
//	value.go   keys and values of blocks
//	weigh.go   whether a lookup is worth it, and how long it may take
//	direction.go  circuit breakers and bandwidth
//	store.go   a store that is shared by the engines of a process
//	names.go   what the store is known to have
//	read.go    before a prompt is computed
//	write.go   what is written back
package kvstore
