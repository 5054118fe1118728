package gateway

import (
	"parley"
	"parley/gateway/openai"
	"parley/gateway/responses"
	"parley/gateway/shape"
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
		model, err := c.job.Model(request.Model)
		if err != nil {
			return err
		}
		answer, stop, err := c.job.Converse(c.Request.Context(), model, request)
		if err != nil {
			return err
		}
		c.Bytes.Release() // what is left of the frame fits the context
		defer stop()
		form := shape.NewChat(c.Exchange, model, &request.Generation)
		form.LegacyCalls = request.ToolChoice.Legacy
		return c.StreamAnswer(answer, form, request.IncludeUsage)
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
