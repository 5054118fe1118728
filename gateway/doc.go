// Package gateway is the API server: it takes HTTP requests of the OpenAI API
// and others, turns text into tokens, has a [parley.Worker] continue them, and
// turns the tokens of the answer into text.
//
// chat.go has the whole path of a request, step by step. Three values are passed down that
// path: the [exchange.Exchange], which is HTTP; the [job.Job], which is an inference
// without HTTP; and the [record.Request], which is the record of both.
//
// This package has what only a server needs:
//
//	new.go         builds the gateway; config.go: its configuration
//	routes_table.go  all routes and their handlers; routes.go: finding them
//	dispatch.go    the start of a request: route, caller, limits; gateway.go: draining
//	call.go        an exchange and its job, until both are finished
//	detached.go    streams that continue after their handler; hijack/ has the mechanism
//	identify.go    identifies callers; signin.go: pages with a session; access.go: access classes of routes
//	chat.go        one file for each endpoint: completions, fim, messages, embeddings, …
//	socket.go      the same over a WebSocket
//	batches.go     requests that no client waits for
//
// The parts of a request are packages:
//
//	exchange/      body in; an answer, a failure or events out
//	models/        names of models, prompts as tokens, context limits
//	screening/     the safety policy, applied to prompts and answers
//	bill/          limits reserved, used and charged; revoke/: ends work whose key is deleted
//	job/           an inference: all of these, and the pipeline
//	infer/         time limits, shared answers, queues, the worker
//	answer/        deltas -> pieces of text, thoughts and calls; tools and formats
//	shape/         pieces -> the JSON of the chat API
//	record/        log line, metrics, traces
//
// Handlers of stored data and of operators are in separate packages:
//
//	conversations/ responses/ history/ runs/   ops/   ollama/ native/
//
// The gateway reaches engines, weights and devices only through [parley.Worker].
package gateway
