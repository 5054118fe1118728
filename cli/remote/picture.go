package remote

import (
	"context"
	"encoding/json"
	"fmt"

	"parley/gateway/admin"
)

// Picture asks what a server does now.
func Picture(ctx context.Context, c *Client) (*admin.Picture, error) {
	ctx, cancel := context.WithTimeout(ctx, AskWait)
	defer cancel()
	body, err := c.Get(ctx, "/admin/api/now")
	if err != nil {
		return nil, err
	}
	var p admin.Picture
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("%s is not a Parley server, or an old one: %w", c.Root, err)
	}
	return &p, nil
}
