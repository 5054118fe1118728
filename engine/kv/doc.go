// Package kv decides where the keys and values of tokens live: in which block
// of which memory, for how long, and who may use them again. It only decides;
// the memory is the backend's, and every copy it wants done is listed by
// [Cache.Moves] for the edge to do; a [CopyQueue] keeps them until there is time.
//
// # Blocks, nodes and tables
//
// Memory is cut into blocks of a fixed number of tokens. A sequence holds its
// blocks in a [Table], in order of position. A block that is full and computed
// is sealed: it gets the name of its content, [parley.BlockHash], and from then
// on any sequence that begins with the same tokens under the same salts shares
// it. A block that is not full is private. A sealed block is never written to: a
// sequence that must write gets a copy.
//
// Every block in use or remembered is a node. Sealed nodes form a tree: the
// parent of a block is the block before it. A node is in use as often as it
// stands in tables, cached when it is sealed and unused, and otherwise
// free. A table holds the whole path from the root, so the ancestors of a block
// in use are in use, and every cached block can be evicted from the leaves up.
//
// Where every layer of a model has a sliding window, the first blocks of a sequence can be taken from it while it
// continues, when memory is short; see [Cache.Trim].
//
// # What is evicted
//
// Cached blocks that were last used together, by one request, and have the
// same prospects stay together as a span, a piece of one path. Spans are the
// unit of eviction policy; they lose blocks from their deep end. Which span
// loses next:
//
//  1. those of tenants and classes over their budget before all others,
//  2. among them the one with the least expected hits per block and second,
//  3. and those whose retention runs only when nothing else is left.
//
// The expectation is learned online. For each kind of block (how often it was
// hit, and by what sort of request) and each bucket of age, the cache counts
// how many blocks were used again at that age, out of those that reached it;
// blocks evicted lately stay in the count as ghosts, so that the policy does
// not confirm its own mistakes. From these chances follows the best rate of
// hits that keeping a block for some time can give, which is what a block is
// worth. Conversations that were never continued, scans and loops larger than
// the memory all fall out of that one rule; [LRU] is there to compare with.
// Caches of workers that divide a load learn from each other; see [Reuse].
//
// # Tiers
//
// Behind the device may stand host memory and disk. A block evicted from one
// tier moves to the next if it is worth more than the least worthy block there;
// a hit on it moves it up again, and what was on disk stays there as a copy. A child never stands
// in a higher tier than its parent.
//
// # Law
//
// In every tier, free + cached + in use = total; references are as many as
// the tables' entries; each node knows how many children it has. [Cache.Check]
// says whether it holds and [Cache.Repair] makes it hold again.
package kv
