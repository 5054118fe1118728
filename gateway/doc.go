// Package gateway is the front door: it takes HTTP requests in the OpenAI
// dialect, turns text into tokens, has a [parley.Worker] continue them, and
// turns the tokens that come back into text again.
//
// One request, top to bottom, is told by chat.go: parse, find the model, render
// and tokenize, check the context, generate, and then either stream or collect.
// The parts it names stand in files of their own:
//
//	gateway.go     request ids, draining, panics
//	routes.go      which path is answered by what
//	exchange/      one HTTP exchange: body in, answer, failure or events out
//	call.go        an exchange with what is known of its inference
//	screening.go   what a prompt may say
//	render.go      messages -> text -> tokens, through the chat template
//	prompt.go      plain prompts -> tokens, and what must fit the context
//	infer/         tokens -> deltas: time limits, shared answers, queues, the worker
//	queue_status.go  where a request stands in the queue
//	bill.go        what a generation reserves, uses and costs; usage.go sums it up
//	answer/        deltas -> pieces of text, thoughts and calls for each choice; tools and formats
//	fim.go         what belongs into a gap; session.go: one answer at a time for an editor
//	messages.go    the Anthropic interface: the same chat in its shapes
//	batches.go     requests that no client waits for, answered in the background
//	detached.go    streams that continue after their handler; hijack/ has the mechanism
//	runs/          answers that this process stores while it writes them
//	history/       what was said before -> messages
//	conversations/ what is stored, and turns while they are answered
//	shape/         answers as clients of the chat interface see them
//	responses/     responses: answered here or in the background
//	ops/           what operators see and change: history, requests, workers, keys, usage
//	record/        the record of a request: log line, metrics, traces
//
// Nothing here knows an engine, a model's weights or a device: the gateway
// reaches them only through [parley.Worker].
package gateway
