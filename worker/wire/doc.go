// Package wire is the protocol between a gateway and a Parley worker, both ends of
// it: [Client] makes a worker in another process generate, [Server] answers with a
// worker in this one.
//
// All requests of a client share one connection, upgraded from HTTP/1.1 ([Path]).
// HTTP/2 does the same for any content, at several times the cost for each token.
// Both sides send frames: a length, a kind, the number of a request, and a payload
// that depends on the kind.
//
//	length   4 bytes, big-endian: what follows
//	kind     1 byte
//	request  uvarint; 0 for frames about the connection
//	payload  see the kinds in frame.go
//
// A client sends a request, then how many tokens of the answer it has read since it
// last said so, that it cancels, or that it wants the request back unless the worker has
// begun it ([parley.Withdrawal]). A worker sends deltas, of which the one with the
// usage is the last, or an error. At most a window of tokens is under way, whatever
// the sockets between could hold, so that a client that does not read pauses its
// request in the engine, and no other. Leaving the loop, or a connection that ends,
// cancels the request within one step. A side that is silent is pinged, and given up
// if it does not respond.
//
//	frame.go   frames, and reading them
//	request.go requests as payloads
//	codec.go   deltas and errors as payloads
//	client.go  the client: one connection, made when it is needed
//	link.go    that connection, and the streams on it
//	recv.go    one stream as it comes in
//	server.go  the worker's side
//	credit.go  how many tokens may still be sent
//	outbox.go  frames of many senders, written together
//	timing.go  what a worker measures of a request
package wire
