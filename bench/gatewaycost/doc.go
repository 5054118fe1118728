// Package gatewaycost measures what passing the gateway costs: processor time for each
// request and each chunk of a stream, time to the first token, memory for each
// open stream, and whether streams arrive whole.
//
// Everything is a process of its own: an upstream that answers at once
// (upstream.go), the gateway as users run it in front of it, nginx beside it as
// the yardstick, and this load generator. What a process costs is read from the
// system (process_linux.go), so that a busy machine changes little about it.
package gatewaycost
