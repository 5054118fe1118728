package keys

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"parley/cli/remote"
	"parley/cli/settings"
	"parley/gateway/ledger"
	"parley/gateway/ops"
	"parley/gateway/tenant"
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

// keyOptions are what the commands for keys have in common.
type keyOptions struct{ settings.OperatorOptions }

// with runs do where the flags say that keys are kept.
func (o *keyOptions) with(ctx context.Context, do func(keyPlace) error) error {
	onServer := func(c *remote.Client) error { return do(&keyServer{c}) }
	return o.With(ctx, onServer, func(s *settings.OperatorStore) error {
		book, err := ledger.Open(ctx, s.Database, s.Settings.Logger())
		if err != nil {
			return settings.UnusableStore(err)
		}
		defer book.Close()
		return do(&keyStore{OperatorStore: s, ledger: book})
	})
}

// A keyStore works on a store itself.
type keyStore struct {
	*settings.OperatorStore
	ledger *ledger.Ledger // what keys have spent
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
	return s.Audit.AppendCommand(ctx, time.Now(), action, id, documents[0], documents[1])
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
	return list, ops.AddBudgets(ctx, s.ledger, list, s.Settings.Economy.Alert, time.Now())
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

func (s *keyServer) list(ctx context.Context) ([]tenant.KeyDocument, error) {
	return s.listAll(ctx, keysPath+"?")
}

// listAll reads all pages of a list of keys; path ends with its query.
func (s *keyServer) listAll(ctx context.Context, path string) (keys []tenant.KeyDocument, err error) {
	keys = []tenant.KeyDocument{}
	for after := ""; ; {
		var page struct {
			Data    []tenant.KeyDocument `json:"data"`
			HasMore bool                 `json:"has_more"`
		}
		if err := s.Call(ctx, http.MethodGet, path+"&after="+url.QueryEscape(after), nil, &page); err != nil {
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
