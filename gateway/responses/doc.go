// Package responses answers the routes under /v1/responses: like chat, but in items, with
// what was said before recalled, and what is said now remembered. A response may be
// computed without its client, followed from any of its events, and cancelled.
//
//	responses.go  a request, answered here or in the background
//	reply.go      one response while it is computed: pieces become events
//	events.go     the events of a response; replay.go: what they say
//	follow.go     the events of a response, for clients that come later
//	stored.go     responses as they are stored: shown, deleted, cancelled
//	compact.go    what was said, as one item
package responses
