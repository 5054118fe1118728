// Package zmq speaks as much of ZeroMQ as events of caches need: a publisher
// with its subscribers, and questions to a router, over TCP without encryption
// (ZMTP 3.0, mechanism NULL).
//
// It is written by hand because the library that there is for Go without cgo has
// had no release since 2024, and what matters here is what it is weak at: a
// connection that broke must show at once, a subscriber that does not keep up
// must lose messages instead of holding up the publisher, and lengths that a
// stranger sends must not take memory. It is tested with libzmq itself, in both
// directions (test/npm/events.test.mjs and TestLibzmq).
//
// A [Conn] carries messages of one or more frames both ways. Nothing reconnects
// by itself: a listener must expect missing messages.
package zmq
