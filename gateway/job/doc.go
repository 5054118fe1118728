// Package job is an inference without HTTP: from a parsed request to the pieces of its
// answer and to the entry in the ledger. A handler makes one for a client; batches,
// titles, summaries and turns in the background make one directly.
//
// Three values go down through the gateway, and none comes back up:
//
//	exchange.Exchange  the HTTP request and its response; handlers alone see it
//	job.Job            what is computed in whose name, with its limits, screening and bill
//	record.Request     what is kept of the request: written by all, read by log, metrics
//	                   and traces
//
// So a handler that reaches a model, in whichever package it stands, has the form
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
// A job takes its context from each call and its identity from its record. What it has
// to say to a client before the answer, such as how much of a limit is left, it says
// to its [Hooks], which are nil where no client waits.
//
//	j.Beside("title")    a question of the server's own, with a record of its own
//	j.Continue(ctx, end) the same work when its request has ended, in its slot
//	j.Revocable(cancel)  ends the work when its key is revoked
//	j.Finish(end)        lets go of everything, and completes the record
//
// The files, in the order of a request:
//
//	server.go   what all jobs share; new.go: how each kind is made
//	job.go      what a job is
//	query.go    the prompt: screened, rendered, known to fit; request.go: in whose name
//	answer.go   reserve, hand to the pipeline, decode, screen; settled in the end
//	embed.go    the same for vectors; summary.go: in as many steps as it takes
//	scope.go    who shares what is cached
package job
