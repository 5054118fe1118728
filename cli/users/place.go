package users

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"parley/cli/remote"
	"parley/cli/settings"
	"parley/gateway/accounts"
	"parley/gateway/audit"
	"parley/gateway/signin"
	"parley/gateway/tenant"

	"github.com/spf13/pflag"
)

// options are what the commands have in common.
type options struct {
	json         bool
	url, config  string
	storeSetting settings.Flags
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.url, "url", "", "use the server at `URL`, with an admin key in PARLEY_API_KEY, instead of its store")
	f.StringVar(&o.config, "config", os.Getenv("PARLEY_CONFIG"), "find the store by the settings in the YAML `FILE`")
	o.storeSetting = settings.AddFlags(f, "data", "store")
}

// with runs onServer or onStore, as the flags say.
func (o *options) with(ctx context.Context, onServer func(*server) error, onStore func(*directory) error) error {
	if o.url != "" {
		c, err := remote.New(o.url)
		if err != nil {
			return err
		}
		return onServer(&server{c})
	}
	s, err := settings.Gather(o.storeSetting, os.LookupEnv, o.config)
	if err != nil {
		return err
	}
	database, err := s.OpenDatabase(ctx)
	if err != nil {
		return err
	}
	defer database.Close()
	store, err := tenant.New(ctx, database)
	if err != nil {
		return fmt.Errorf("%w (choose another with --store)", err)
	}
	entries, err := audit.Open(ctx, database, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("%w (choose another with --store)", err)
	}
	return onStore(&directory{Store: store, audit: entries})
}

// A directory works on a store itself.
type directory struct {
	*tenant.Store
	audit *audit.Log
}

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
	return d.audit.AppendCommand(ctx, time.Now(), action, id, before, after)
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
