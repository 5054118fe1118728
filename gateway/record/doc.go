// Package record has the record of each request. All code that works on a request writes
// to its [Request]; when the request has ended, the [Recorder] turns the record into the
// log line, the metrics, the entry on the admin page and the spans of the trace. No
// decision about the request reads from it.
//
//	recorder.go    the recorder: shared by all requests; the end of each
//	request.go     the record of one request
//	stages.go      where its time went until the first token
//	metrics.go     the metrics; objectives.go: how often each objective was met
//	shown.go       the record as the admin page shows it
//	trace.go       the request's place in a trace; spans.go: the record as spans
//	history.go     readings of the metrics over time
package record
