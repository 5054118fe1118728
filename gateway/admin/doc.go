// Package admin computes what an operator must know about a running server in ten
// seconds: whether SLOs are met, what the bottleneck is, and what to do.
//
// It is pure. The caller takes a [Reading] of the counters that GET /metrics shows and
// adds it to a [History]; two readings give a [Picture] of the time between them, and
// that gives one sentence, the [Diagnosis]. So an hour of history costs one reading every
// five seconds and about two megabytes, without a database, and the page, the terminal
// and the alerts cannot disagree: all are computed from the same numbers.
//
//	reading.go   the counters at one moment, from the metrics registry
//	histogram.go times as counts in buckets, and their percentiles
//	history.go   readings of the last hour, in bounded memory
//	counters.go  how much counters grew
//	picture.go   what happened between two readings
//	promise.go   the objectives, and the burn rates of their error budgets
//	verdict.go   the bottleneck, in one sentence
//	episode.go   what was wrong some minutes ago
//	now.go       all of it together, now and over the last hour
//	sample.go    what happened between two readings, for charts
//	trend.go     the same over 30 days in bounded space: periods of several resolutions,
//	             in which samples add up; trend_sample.go, trend_times.go and trend_points.go
//	             are what they consist of and how charts draw them
//	recent.go    the latest requests, each with its timeline
//	query.go     which of them to show, page by page
//	timeline.go  where the time of a request went, stage by stage
package admin
