// Package worker is the wire between a gateway and the engines behind it: the
// client that makes an engine in another process a [parley.Worker], and the
// forms in which requests, answers and events of the cache travel.
//
// # Kinds
//
// A [Remote] speaks to one engine. What it can promise depends on the engine's
// [Kind] and is one table, [PromisesOf]: whether token ids come back, whether a
// prompt may be token ids, what is known of its cache, what stopping a request
// frees, and so on. docs/workers.md shows the same table, and a test compares
// the two.
//
// Text is never tokenized again to guess ids. An engine that returns no ids gives
// deltas with Text instead of Tokens: its answers can be shown, and an answer
// that breaks off cannot be taken up elsewhere.
//
// # Parley workers
//
// A Parley worker takes a [parley.Request] whole and returns [parley.Delta]s, over the
// binary protocol of package worker/wire.
//
// # Events
//
// A Parley worker streams what comes to and goes from its cache over the same keyed
// HTTP as everything else ([Journal]): numbered batches that name blocks and carry no
// tokens. A gateway that was cut off continues from the number it has, or takes a
// snapshot. Foreign engines publish the same as vLLM does: batches of msgpack over ZMQ
// (package worker/zmq), with a second socket to have batches repeated; a Parley worker
// can do so, too, for foreign routers ([Publisher]). [Remote.Follow] keeps a
// [kvindex.Index] in step with either: it connects and connects again, and asks for what
// the index says is missing.
package worker
