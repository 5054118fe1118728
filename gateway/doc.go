// Package gateway is the front door: it takes HTTP requests in the OpenAI
// dialect, turns text into tokens, has a [parley.Worker] continue them, and
// turns the tokens that come back into text again.
//
// chat.go has the whole path of a request, step by step. Three values go down that path
// and none comes back up: the [exchange.Exchange], which is HTTP; the [job.Job], which is
// an inference without HTTP; and the [record.Request], which is what is kept of it.
//
// In this package stands what only a server has:
//
//	new.go         the gateway is put together; config.go: from what
//	routes_table.go  which path is answered by what; routes.go: how it is found
//	dispatch.go    a request comes in: route, caller, limits; gateway.go: draining
//	call.go        an exchange and its job, until both are finished
//	detached.go    streams that continue after their handler; hijack/ has the mechanism
//	identify.go    who calls; signin.go: pages with a session; access.go: which routes need it
//	chat.go        one file for each endpoint: completions, fim, messages, embeddings, …
//	socket.go      the same over a WebSocket
//	batches.go     requests that no client waits for
//
// The parts of a request are packages:
//
//	exchange/      body in; an answer, a failure or events out
//	models/        names of models, prompts as tokens, what fits
//	screening/     what a prompt may say, and an answer
//	bill/          what is reserved of limits, used and charged; revoke/: keys that end work
//	job/           an inference: all of these, and the pipeline
//	infer/         time limits, shared answers, queues, the worker
//	answer/        deltas -> pieces of text, thoughts and calls; tools and formats
//	shape/         pieces -> what clients of the chat interface see
//	record/        log line, metrics, traces
//
// What is stored, and what operators do, are handlers in packages of their own:
//
//	conversations/ responses/ history/ runs/   ops/   ollama/ native/
//
// Nothing here knows an engine, a model's weights or a device: the gateway
// reaches them only through [parley.Worker].
package gateway
