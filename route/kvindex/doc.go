// Package kvindex knows which worker holds which block of context, and how
// sure that is. A router asks it, for a prompt, how many leading blocks each
// worker would not have to compute.
//
// # Two kinds of names
//
// Blocks are looked up by the keys in our own names, [parley.BlockKey], which
// chain over salts and tokens and so are known before any worker has seen the
// prompt. Engines name blocks in ways of their own. An engine's name is only used
// to understand what that engine says later: which block was removed, or which
// one comes before a stored block. A worker that uses our names says so by
// sending their keys, and then nothing has to be hashed or remembered for it.
//
// A key has 64 bits. Two blocks that agree in it are taken for one; with ten
// million blocks the chance is one in a hundred thousand that there is such a
// pair, and the harm is one prompt sent to the wrong worker.
//
// # Three sources
//
//   - Events say exactly what a worker holds, in which tier ([Index.Apply]).
//   - A prompt that was just sent to a worker will be there in a moment, but no
//     event says so yet. [Index.Expect] inserts it for some seconds, so that
//     siblings which arrive meanwhile find it.
//   - Of a worker without events only that history is known. It is kept as the
//     worker's own cache would be, by recency up to its size, and decays.
//
// # Batches, gaps and snapshots
//
// Each worker numbers its batches. One that is missing may have removed
// anything, so from then on the index asks ([Ask]) for a replay of what was
// missed, and for a snapshot if the replay does not reach back far enough.
// Where neither is to be had, what was known is dropped and the worker is
// [Degraded]: what events have told since is true but not all, and history
// counts as well, until the known blocks fill the worker's memory or it says
// that it holds nothing.
//
// # Cost
//
// A block, held by any number of workers, is a node of 16 bytes and an entry of
// 7 in a line of an open table. A line of 64 bytes has room for eight, and three and a
// half on average: 34 bytes. A block of an engine that has its own names costs 18 bytes
// more for each worker, and one that is only expected about 80. Tables shrink again, but
// not before a line has one entry on average.
// Sets of workers are kept once: neighbouring blocks mostly have the same set,
// so a lookup compares numbers and looks into a set only where it changes; and
// nodes of blocks that were stored together mostly lie together, so it reads
// memory in order. The tables are cut into shards that grow one at a time, so
// that no operation waits for the whole to be moved. A worker that goes is struck
// from the sets, which takes microseconds; the blocks that no worker holds then are
// swept up some at a time. Without events and requests nothing is done at all.
//
// Storing or removing a block needs one line of memory whose address is not
// predictable, and of an engine with its own names two; besides, it must find its node, of
// which four share a line, and one block in fifty stands a line further on than it
// belongs. Events are worked at in steps of some blocks, and each step asks for the lines
// of a later one, so that memory delivers many at once while others are worked at.
// Large pages spare the processor most of the search for where these lines are.
//
// What bounds it: on a Xeon at 2.5 GHz a block with an engine's name takes 42 ns if all
// tables are in the core's own cache, 3.5 of them for the hash of its tokens (7 for each
// that is stored). 2.1 lines from 100 MB of large pages take 38 ns if the core does
// nothing but read them. With all of the second hidden behind the first it would be 42
// ns, with nothing hidden 80; it is 60. `parley-bench index` measures this, and what
// memory alone would cost in small pages.
//
// The index is not safe for concurrent changes; lookups may run side by side.
package kvindex
