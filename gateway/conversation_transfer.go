package gateway

import (
	"bytes"
	"net/http"

	"parley"
	"parley/gateway/convo"
)

// exportConversation answers GET /v1/conversations/{id}/export: everything as
// JSON, or the current branch as ?format=markdown.
func (g *Gateway) exportConversation(c *call) error {
	archive, err := g.config.Store.Export(c.Request.Context(), ownerOf(c.Exchange), c.Values["id"])
	if err != nil {
		return c.noConversation(err)
	}
	var out bytes.Buffer
	kind := ""
	switch format := c.Request.URL.Query().Get("format"); format {
	case "", "json":
		kind, err = "application/json", archive.WriteJSON(&out)
	case "markdown", "md":
		kind, err = "text/markdown; charset=utf-8", archive.WriteMarkdown(&out)
	default:
		return parley.Invalid("format", "Invalid 'format': expected 'json' or 'markdown'.")
	}
	if err != nil {
		return err
	}
	c.Header().Set("Content-Type", kind)
	return c.Send(http.StatusOK, out.Bytes())
}

// importConversation answers POST /v1/conversations/import with what an export
// gave.
func (g *Gateway) importConversation(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	archive, err := convo.ParseArchive(body)
	if err != nil {
		return err
	}
	v, err := c.storeFor().Import(c.Request.Context(), ownerOf(c.Exchange), archive, g.config.Now())
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, shownConversation(c, &v))
}
