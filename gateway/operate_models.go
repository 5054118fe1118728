package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"parley/gateway/exchange"
)

// toModel lets the model folder's handler change the model that the path names.
func toModel(folder http.Handler) endpoint {
	run := jsonOnly(folder)
	return func(c *call) error {
		c.Changes(c.Values["name"], nil, nil)
		return run(c)
	}
}

// pullModel lets the model folder's handler begin a download. The audit log names its
// source; the handler says what is wrong with a body that has none.
func pullModel(folder http.Handler) endpoint {
	return func(c *call) error {
		body, err := c.Body()
		if err != nil {
			return err
		}
		var wanted struct{ Source string }
		if json.Unmarshal(body, &wanted) == nil {
			c.Changes(exchange.WithoutSecrets(wanted.Source), nil, nil)
		}
		c.Request.Body = io.NopCloser(bytes.NewReader(body))
		folder.ServeHTTP(c.Response, c.Request)
		return nil
	}
}
