package gateway

import (
	"parley"
	"parley/gateway/openai"
	"parley/gateway/responses"
)

// chatSocket answers GET /v1/chat/completions upgraded to a WebSocket: every
// frame is the body of a chat, and its chunks come back as frames, the last of
// which is [DONE].
func (g *Gateway) chatSocket(c *call) error {
	return g.converseBy(c, func(c *call, _ *socket, frame []byte) error {
		request, err := openai.ParseChat(frame)
		if err != nil {
			return err
		}
		request.Stream = true
		return answerChat(c.Exchange, c.job, request)
	}, func(detail openai.ErrorDetail) any { return openai.ErrorBody{Error: detail} })
}

// responseSocket answers GET /v1/responses upgraded to a WebSocket: a frame is
// the body of a response and its type, and the events come back as frames.
func (g *Gateway) responseSocket(c *call) error {
	return g.converseBy(c, func(c *call, s *socket, frame []byte) error {
		request, err := openai.ParseResponseFrame(frame)
		if err != nil {
			return err
		}
		if request.Background {
			return parley.Invalid("background",
				"A response over a WebSocket ends with it: ask for one in the background with POST /v1/responses.")
		}
		return g.responses.Respond(c.Exchange, c.job, request, eventSocket{s})
	}, func(detail openai.ErrorDetail) any { return responses.NewErrorEvent(detail, 0) })
}
