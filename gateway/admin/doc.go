// Package admin works out what an operator must know of a running server: in ten
// seconds, whether users are served as promised, what binds, and what to do.
//
// It is pure. Whoever has a clock takes a [Reading] of the counters that
// GET /metrics shows, and adds it to a [History]; from two readings comes a
// [Picture] of the time between them, from that one sentence, the [Verdict]. So an
// hour of history costs one reading in five seconds and about two megabytes, without
// any database, and the page, the terminal and the alerts cannot disagree:
// they are all computed from the same numbers.
//
//	reading.go   the counters at one moment, from what Prometheus is told
//	histogram.go times as counts in buckets, and their percentiles
//	history.go   readings of the last hour, in bounded memory
//	picture.go   what happened between two readings
//	promise.go   the objectives, and how fast their budgets of errors burn
//	verdict.go   what binds, and why, in one sentence
//	recent.go    the latest requests, each with its life
//	course.go    where the time of a request went, stage by stage
package admin
