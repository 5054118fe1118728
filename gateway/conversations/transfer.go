package conversations

import (
	"bytes"
	"net/http"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
)

// Export answers GET /v1/conversations/{id}/export: everything as
// JSON, or the current branch as ?format=markdown.
func (a *API) Export(x *exchange.Exchange) error {
	archive, err := a.Store.Export(x.Request.Context(), history.OwnerOf(x.Identity), x.Values["id"])
	if err != nil {
		return NotFound(x, err)
	}
	var out bytes.Buffer
	kind := ""
	switch format := x.Request.URL.Query().Get("format"); format {
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
	x.Header().Set("Content-Type", kind)
	return x.Send(http.StatusOK, out.Bytes())
}

// Import answers POST /v1/conversations/import with what an export
// gave.
func (a *API) Import(x *exchange.Exchange) error {
	archive, err := exchange.Read(x, convo.ParseArchive)
	if err != nil {
		return err
	}
	v, err := a.within(x).Import(x.Request.Context(), history.OwnerOf(x.Identity), archive, a.Now())
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, a.shown(x, &v))
}
