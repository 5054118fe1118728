// Package job is an inference without HTTP: from a parsed request to the pieces of its
// answer and to the entry in the ledger. A handler makes one for a client; batches,
// titles, summaries and turns in the background make one directly.
//
// Three values are passed down through the gateway, never up:
//
//	exchange.Exchange  the HTTP request and its response; handlers alone see it
//	job.Job            what is computed and for whom, with limits, screening and bill
//	record.Request     the record of the request: written by all, read by log, metrics
//	                   and traces
//
// So every handler that reaches a model has the form
//
//	func(x *exchange.Exchange, j *job.Job) error
//
// and does the same four things:
//
//	m, err := j.Model(request.Model)                  // as the caller may use it
//	a, stop, err := j.Converse(ctx, m, &request.Chat) // screen, render, reserve, queue
//	defer stop()                                      // settles what was used
//	return x.StreamAnswer(a, shape, includeUsage)     // or a.Collect and x.Reply
//
// A job takes its context from each call and its identity from its record. It reports
// news for a client before the answer, such as the rest of a limit, to its [Hooks], which
// are nil if no client waits.
//
//	j.Beside("title")    a request of the server itself, with a separate record
//	j.Continue(ctx, end) the same work when its request has ended, in its slot
//	j.Revocable(cancel)  ends the work when its key is revoked
//	j.Finish(end)        releases everything, and completes the record
//
// The files, in the order of a request:
//
//	server.go   what all jobs share; new.go: how each kind is made
//	job.go      what a job is
//	query.go    the prompt: screened, rendered, checked to fit; request.go: for whom
//	answer.go   reserve, run the pipeline, decode, screen, settle
//	embed.go    the same for embeddings; summary.go: for summaries, in several steps
//	scope.go    who shares a cache
package job
