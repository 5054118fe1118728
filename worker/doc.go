// Package worker connects a gateway to engines in other processes: its client
// makes such an engine a [parley.Worker], and it defines the formats of requests,
// answers and cache events.
//
// # Kinds
//
// A [Remote] is the client of one engine. The table [PromisesOf] says what each
// [Kind] of engine supports: whether it returns token ids, whether a prompt may be
// token ids, what is known of its cache, what stopping a request frees, and so on.
// docs/workers.md shows the same table, and a test compares the two.
//
// Text is never tokenized again to guess ids. An engine that returns no ids gives
// deltas with Text instead of Tokens: another worker cannot resume such an answer.
//
// # Parley workers
//
// A Parley worker takes a [parley.Request] whole and returns [parley.Delta]s, over the
// binary protocol of package worker/wire.
//
// # Events
//
// A Parley worker streams the changes of its cache over the same authenticated HTTP as
// everything else ([Journal]): numbered batches that name blocks and carry no tokens. A
// gateway that was disconnected continues from the last number it has, or takes a snapshot.
// Foreign engines publish events as vLLM does: batches of msgpack over ZMQ (package
// worker/zmq), with a second socket that repeats batches; a Parley worker can do so, too,
// for foreign routers ([Publisher]). [Remote.Follow] keeps a [kvindex.Index] up to date
// from either: it reconnects, and requests what the index says is missing.
package worker
