// Package hijack lets streams leave the HTTP server. A [DetachedStream] continues a response
// after its handler has returned, on a connection that was taken from net/http, and
// gives the connection back when the response has ended.
//
// # Why
//
// A stream of tokens is open for seconds or minutes, and most of that time nothing
// happens on it. A server that answers in the handler keeps, for each open stream, what
// the request needed at its worst moment:
//
//   - the handler's goroutine. Its stack grew while the body was parsed, the template
//     rendered and the prompt tokenized, and stacks shrink only when the garbage
//     collector finds them mostly unused;
//   - the server's buffers for the connection: 4 KiB to read, 4 KiB to write, 2 KiB for
//     chunks;
//   - a second goroutine of the server, which reads in the background to notice that the
//     client hangs up;
//   - the request with its body and all that its context refers to.
//
// Together that is about three quarters of the memory of an open stream, and memory is
// what bounds how many clients one gateway can hold. So a stream that has done its
// large work (it is parsed, screened, tokenized, and its tokens are reserved) leaves all of this
// behind: the handler returns, and a new goroutine with a small stack writes what comes,
// with buffers that it has only while it writes.
//
// net/http supports the first half of that with [http.Hijacker]. It has no way back: a
// hijacked connection is closed when its user is done, and the client's next request
// needs a new connection and perhaps a new TLS handshake. Clients send many requests on
// one connection, so here the connection returns: [Serve] gives the server a listener to
// which connections return, as if they had just been accepted.
//
// # What makes it hard
//
// Hang-ups. Nothing reads from the connection while a stream is open, so a client that
// hangs up would be noticed at the next write, and the worker would compute until then.
// A goroutine that reads costs a stack for each stream. On Linux one epoll instance
// watches all connections for EPOLLRDHUP with one goroutine (hangup_linux.go). It never
// reads: what a client sends early belongs to the next request. Elsewhere, and for
// connections without a file descriptor, a goroutine reads one byte.
//
// Early bytes. A client may send its next request before the response has ended. What
// the server has read of it is in its buffer at the hijack; what the watching goroutine
// has read is in its hands. Both go to the front of the connection when it is returned
// (prefixedConn), so that the server reads them as if they came now.
//
// Contexts. The context of a request ends when its handler returns. [Detach] makes one
// that does not, and ends it with the handler's while the handler still runs: before
// anything is started that the context could end.
//
// Shutdown. [http.Server.Shutdown] does not know hijacked connections. [Connections]
// counts them, waits for them and ends them.
//
// HTTP/2, HTTP/1.0 and "Connection: close" cannot leave: [Detach] returns nil, and the
// handler answers as any handler does.
//
// A WebSocket leaves for good, with an [Upgrade]: its handler returns, one goroutine
// reads from it with a small buffer, and its connection is never returned.
//
// # Who owns what
//
// A connection has one owner at any time. Each line ends with the event that hands it to
// the owner of the next line:
//
//	until                       reads it                  writes            may close it
//	------------------------    ----------------------    --------------    --------------
//	Detach                      net/http                  net/http          net/http
//	Hijack succeeds             net/http                  the handler       net/http
//	the response is complete    none on Linux (epoll),    Serve             Serve
//	                            else await
//	first byte or end           await                     none              await
//	Accept returns it           none                      none              the listener
//	the next request            net/http                  net/http          net/http
//
// Fields of a [DetachedStream] follow the connection: Hijack sets conn, response and early before
// the goroutine of Serve starts; Serve alone changes reusable, and closes over after that;
// await reads both after over is closed. The context is the only thing that others touch
// meanwhile: the hang-up watcher, a revoked key and the shutdown cancel it, and the work
// for the stream ends with it.
package hijack
