package gateway

import (
	"net/http"

	"parley/gateway/openai"
	"parley/gateway/shape"
)

// chat answers POST /v1/chat/completions. It is the whole path of a request.
func (g *Gateway) chat(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseChat(body)
	if err != nil {
		return err
	}
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	if request.Stream {
		c.detachFromHandler()
	}
	answer, stop, err := c.job.Converse(c.Request.Context(), model, request)
	if err != nil {
		return err
	}
	c.Bytes.Release() // what is left of the body fits the context
	form := shape.NewChat(c.Exchange, model, &request.Generation)
	form.LegacyCalls = request.ToolChoice.Legacy
	if request.Stream {
		form.Prepare()
		includeUsage := request.IncludeUsage // a stream holds on to nothing else of the request
		return c.runDetached(func() error {
			defer stop()
			return c.StreamAnswer(answer, form, includeUsage)
		})
	}
	defer stop()
	choices, err := answer.Collect(c.Request.Context())
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, form.Whole(choices, answer.Usage))
}
