// Package record keeps what became of each request. A [Request] is written by everything
// that works on the request, while it does so; when the request has ended, the
// [Recorder] makes of it the log line, the metrics, the entry of the operator's page and
// the spans of its trace. Nothing is read from it to decide how the request continues.
//
//	recorder.go    the recorder: what all requests share, and the end of each
//	request.go     the record of one request
//	stages.go      where its time went until the first token
//	metrics.go     what is counted; objectives.go: how often each objective was met
//	shown.go       the record as the operator's page shows it
//	trace.go       the request's place in a trace; spans.go: the record as spans
//	history.go     readings of the metrics over time
package record
