package users

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"parley/cli/remote"
	"parley/cli/settings"
	"parley/gateway/accounts"
	"parley/gateway/signin"
)

// options are what the commands have in common.
type options struct{ settings.OperatorOptions }

// with runs onServer or onStore, as the flags say.
func (o *options) with(ctx context.Context, onServer func(*server) error, onStore func(*directory) error) error {
	return o.With(ctx, func(c *remote.Client) error { return onServer(&server{c}) },
		func(s *settings.OperatorStore) error { return onStore(&directory{s}) })
}

// A directory works on a store itself.
type directory struct{ *settings.OperatorStore }

// find returns the account of an id or an email address.
func (d *directory) find(ctx context.Context, name string) (accounts.User, error) {
	if accounts.IsID(name) {
		return d.Accounts().User(ctx, name)
	}
	u, err := d.Accounts().UserOf(ctx, name)
	if err != nil {
		return u, fmt.Errorf("%s: %w", name, err)
	}
	return u, nil
}

// record writes into the audit log what the command changed, in the name of the account
// of the machine that runs it.
func (d *directory) record(ctx context.Context, action, id string, before, after any) error {
	return d.Audit.AppendCommand(ctx, time.Now(), action, id, before, after)
}

// A server is asked by its API.
type server struct{ *remote.Client }

const usersPath, invitesPath, projectsPath = "/v1/organization/users", "/v1/organization/invites",
	"/v1/organization/projects"

func (s *server) users(ctx context.Context, organization string) ([]*signin.UserDocument, error) {
	var page struct {
		Data []*signin.UserDocument `json:"data"`
	}
	path := usersPath + "?" + url.Values{"organization": {organization}}.Encode()
	return page.Data, s.Call(ctx, http.MethodGet, path, nil, &page)
}

// find returns the account of an id or an email address.
func (s *server) find(ctx context.Context, name string) (*signin.UserDocument, error) {
	all, err := s.users(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, u := range all {
		if u.ID == name || equalFold(u.Email, name) {
			return u, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", name, accounts.ErrNotFound)
}
