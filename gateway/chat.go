package gateway

import (
	"parley/gateway/answer"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/openai"
	"parley/gateway/shape"
)

// chat answers POST /v1/chat/completions. It is the whole path of a request:
//
//	parse     openai     the body; anything wrong is an exact 4xx
//	model     models     look up the model, if the caller may use it
//	screen    screening  the prompt, by the policy of the tenant
//	render    models     messages to text to tokens, which must fit the context
//	reserve   bill       the limits that the answer may use, or refuse
//	cache     infer      a complete answer, or one in flight for another client
//	queue     infer      wait for a worker, or be rejected at once
//	route     fleet      pick a worker, by its cache and its load
//	generate  parley     a Worker turns tokens into tokens
//	decode    answer     tokens to text, thoughts and calls
//	screen    answer     the answer, by the policy of the tenant
//	send      exchange   whole, or as events while it is generated
//	settle    bill       the usage, before the client receives the end
//	record    record     a log line, metrics and a trace, when all of that is over
func chat(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseChat) // parse
	if err != nil {
		return err
	}
	return answerChat(x, j, request)
}

// answerChat answers a parsed chat, over HTTP or a WebSocket.
func answerChat(x *exchange.Exchange, j *job.Job, request *openai.ChatRequest) error {
	model, err := j.Model(request.Model) // model
	if err != nil {
		return err
	}
	if request.Stream {
		x.Detach()
	}
	ctx := x.Request.Context()
	query, err := j.Chat(ctx, model, request) // screen, render
	if err != nil {
		return err
	}
	a, stop, err := j.Answer(ctx, query) // reserve, cache, queue, route, generate, decode, screen
	if err != nil {
		return err
	}
	form := shape.NewChat(x, model, &request.Generation)
	form.LegacyCalls = request.ToolChoice.Legacy
	if request.Stream {
		form.Prepare()
	}
	stream := x.AsEvents(request.Stream, a, form, request.IncludeUsage)
	return x.Deliver(a, stop, stream, func(choices []answer.CollectedChoice) any { // send, settle
		return form.Whole(choices, a.Usage)
	}) // and the record is completed when the exchange is finished
}
