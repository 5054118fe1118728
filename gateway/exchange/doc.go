// Package exchange is the HTTP side of a request: an [Exchange] has the HTTP request, its
// caller, and the methods that write the answer, whole or as a stream of events. It knows
// the record of the request, but no models, workers or conversations.
//
//	exchange.go    the body in, an answer or a failure out
//	stream.go      pieces of an answer as server-sent events; eventsink.go: as named events
//	bodygate.go    how many bytes of bodies are in memory at a time
//	clientaddr.go  the client's address behind trusted proxies, and the origin of pages
//	change.go      the changes of a request, for the audit log
package exchange
