// Package kvevents has the events of a cache as vLLM sends them: batches in msgpack,
// read from foreign engines and published over ZMQ for foreign routers.
package kvevents
