package keys

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
	"parley/gateway/audit"
	"parley/gateway/ledger"
	"parley/gateway/limit"
	"parley/gateway/ops"
	"parley/gateway/tenant"

	"github.com/spf13/pflag"
)

// A keyPlace is where keys are kept: a store, or the server in front of one.
type keyPlace interface {
	create(ctx context.Context, r tenant.KeyRequest) (tenant.KeyDocument, error)
	list(ctx context.Context) ([]tenant.KeyDocument, error)
	change(ctx context.Context, id string, r tenant.KeyRequest) (tenant.KeyDocument, error)
	rotate(ctx context.Context, id string, grace time.Duration) (tenant.KeyDocument, error)
	remove(ctx context.Context, id string) error
	restore(ctx context.Context, id string) (tenant.KeyDocument, error)
}

// A keyOptions is what the commands for keys have in common.
type keyOptions struct {
	json         bool
	url, config  string
	storeSetting settings.Flags
}

func (o *keyOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.url, "url", "", "use the server at `URL`, with an admin key in PARLEY_API_KEY, instead of its store")
	f.StringVar(&o.config, "config", os.Getenv("PARLEY_CONFIG"), "find the store by the settings in the YAML `FILE`")
	o.storeSetting = settings.AddFlags(f, "data", "store")
}

// with runs do where the flags say that keys are kept.
func (o *keyOptions) with(ctx context.Context, do func(keyPlace) error) error {
	if o.url != "" {
		c, err := remote.New(o.url)
		if err != nil {
			return err
		}
		return do(&keyServer{c})
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
	book, err := ledger.Open(ctx, database, s.Logger())
	if err != nil {
		return fmt.Errorf("%w (choose another with --store)", err)
	}
	defer book.Close()
	entries, err := audit.Open(ctx, database, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("%w (choose another with --store)", err)
	}
	return do(&keyStore{Store: store, ledger: book, alert: s.Economy.Alert, audit: entries})
}

// A keyStore works on a store itself.
type keyStore struct {
	*tenant.Store
	// ledger knows what keys have spent; alert is the share of a budget from which on
	// it is nearly spent, as the settings have it.
	ledger *ledger.Ledger
	alert  limit.Share
	audit  *audit.Log
}

// record writes into the audit log what the command changed, in the name of the
// account that runs it.
func (s *keyStore) record(ctx context.Context, action, id string, before, after *tenant.Key) error {
	var documents [2]any
	for i, k := range []*tenant.Key{before, after} {
		if k != nil {
			documents[i] = k.Document("")
		}
	}
	return s.audit.AppendCommand(ctx, time.Now(), action, id, documents[0], documents[1])
}

func (s *keyStore) create(ctx context.Context, r tenant.KeyRequest) (d tenant.KeyDocument, err error) {
	now := time.Now()
	fresh, err := r.NewKey(now)
	if err != nil {
		return d, err
	}
	k, secret, err := s.CreateKey(ctx, fresh, now)
	if err != nil {
		return d, err
	}
	return k.Document(secret), s.record(ctx, "api_key.created", k.ID, nil, &k)
}

func (s *keyStore) list(ctx context.Context) ([]tenant.KeyDocument, error) {
	keys, err := s.Keys(ctx, tenant.KeyFilter{})
	list := []tenant.KeyDocument{}
	for i := range keys {
		list = append(list, keys[i].Document(""))
	}
	if err != nil {
		return nil, err
	}
	return list, ops.AddBudgets(ctx, s.ledger, list, s.alert, time.Now())
}

func (s *keyStore) change(ctx context.Context, id string, r tenant.KeyRequest) (d tenant.KeyDocument, err error) {
	c, err := r.Change(time.Now())
	if err != nil {
		return d, err
	}
	before, err := s.Key(ctx, id)
	if err != nil {
		return d, err
	}
	k, err := s.ChangeKey(ctx, id, c)
	if err != nil {
		return d, err
	}
	return k.Document(""), s.record(ctx, "api_key.updated", id, &before, &k)
}

func (s *keyStore) rotate(ctx context.Context, id string, grace time.Duration) (tenant.KeyDocument, error) {
	before, err := s.Key(ctx, id)
	if err != nil {
		return tenant.KeyDocument{}, err
	}
	k, secret, err := s.RotateKey(ctx, id, grace, time.Now())
	if err != nil {
		return tenant.KeyDocument{}, err
	}
	return k.Document(secret), s.record(ctx, "api_key.rotated", id, &before, &k)
}

func (s *keyStore) remove(ctx context.Context, id string) error {
	before, err := s.Key(ctx, id)
	if err != nil {
		return err
	}
	if err := s.SetAsideKey(ctx, id, time.Now()); err != nil {
		return err
	}
	return s.record(ctx, "api_key.deleted", id, &before, nil)
}

func (s *keyStore) restore(ctx context.Context, id string) (tenant.KeyDocument, error) {
	k, err := s.RestoreKey(ctx, id, time.Now())
	if err != nil {
		return tenant.KeyDocument{}, err
	}
	return k.Document(""), s.record(ctx, "api_key.restored", id, nil, &k)
}

// A keyServer asks a running server.
type keyServer struct{ *remote.Client }

const keysPath = "/v1/organization/api_keys"

func (s *keyServer) create(ctx context.Context, r tenant.KeyRequest) (d tenant.KeyDocument, err error) {
	return d, s.Call(ctx, http.MethodPost, keysPath, r, &d)
}

func (s *keyServer) list(ctx context.Context) (keys []tenant.KeyDocument, err error) {
	keys = []tenant.KeyDocument{}
	for after := ""; ; {
		var page struct {
			Data    []tenant.KeyDocument `json:"data"`
			HasMore bool                 `json:"has_more"`
		}
		if err := s.Call(ctx, http.MethodGet, keysPath+"?after="+url.QueryEscape(after), nil, &page); err != nil {
			return nil, err
		}
		keys = append(keys, page.Data...)
		if !page.HasMore || len(page.Data) == 0 {
			return keys, nil
		}
		after = page.Data[len(page.Data)-1].ID
	}
}

func (s *keyServer) change(ctx context.Context, id string, r tenant.KeyRequest) (d tenant.KeyDocument, err error) {
	return d, s.Call(ctx, http.MethodPost, keysPath+"/"+id, r, &d)
}

func (s *keyServer) rotate(ctx context.Context, id string, grace time.Duration) (d tenant.KeyDocument, err error) {
	return d, s.Call(ctx, http.MethodPost, keysPath+"/"+id+"/rotate",
		tenant.Rotation{GraceSeconds: int64(grace / time.Second)}, &d)
}

func (s *keyServer) remove(ctx context.Context, id string) error {
	var gone map[string]any
	return s.Call(ctx, http.MethodDelete, keysPath+"/"+id, nil, &gone)
}

func (s *keyServer) restore(ctx context.Context, id string) (d tenant.KeyDocument, err error) {
	return d, s.Call(ctx, http.MethodPost, keysPath+"/"+url.PathEscape(id)+"/restore", nil, &d)
}
