package signin

import (
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// ownKeysMax is how many API keys one account may have.
const ownKeysMax = 50

// ListKeys answers GET /account/keys.
func (h *Handlers) ListKeys(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	keys, err := h.ownKeys(x, &u)
	if err != nil {
		return err
	}
	return reply(x, listOf(keys, func(k *tenant.Key) tenant.KeyDocument { return k.Document("") }))
}

func (h *Handlers) ownKeys(x *exchange.Exchange, u *accounts.User) ([]tenant.Key, error) {
	return h.Keys.Store().Keys(x.Request.Context(), tenant.KeyFilter{User: u.ID, Limit: ownKeysMax + 1})
}

// CreateKey answers POST /account/keys. The key may do what its owner may, but for
// operating the server and managing people.
func (h *Handlers) CreateKey(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	var given struct {
		Name      string `json:"name"`
		ExpiresAt int64  `json:"expires_at"`
	}
	if err := read(x, &given); err != nil {
		return err
	}
	keys, err := h.ownKeys(x, &u)
	if err != nil {
		return err
	}
	if len(keys) >= ownKeysMax {
		return parley.Errorf(parley.Conflict, "You have %d keys: delete one first.", len(keys))
	}
	fresh := tenant.NewKey{Name: given.Name, Organization: u.Organization, User: u.ID}
	if given.ExpiresAt != 0 {
		fresh.Expires = time.Unix(given.ExpiresAt, 0)
	}
	k, secret, err := h.Keys.Store().CreateKey(x.Request.Context(), fresh, h.Now())
	if err != nil {
		return err
	}
	x.Changes(k.ID, nil, k.Document(""))
	return h.changed(x, k.Document(secret))
}

// ownKey returns the key of the caller that a route names.
func (h *Handlers) ownKey(x *exchange.Exchange) (tenant.Key, error) {
	u, err := h.self(x)
	if err != nil {
		return tenant.Key{}, err
	}
	k, err := h.Keys.Store().Key(x.Request.Context(), x.Values["key"])
	if err == nil && k.User != u.ID {
		err = tenant.ErrNotFound
	}
	return k, err
}

// RotateKey answers POST /account/keys/{key}/rotate.
func (h *Handlers) RotateKey(x *exchange.Exchange) error {
	before, err := h.ownKey(x)
	if err != nil {
		return err
	}
	grace, err := exchange.ReadOptional(x, tenant.ParseRotation)
	if err != nil {
		return err
	}
	k, secret, err := h.Keys.Store().RotateKey(x.Request.Context(), before.ID, grace, h.Now())
	if err != nil {
		return err
	}
	x.Changes(k.ID, before.Document(""), k.Document(""))
	return h.changed(x, k.Document(secret))
}

// DeleteKey answers DELETE /account/keys/{key}.
func (h *Handlers) DeleteKey(x *exchange.Exchange) error {
	k, err := h.ownKey(x)
	if err != nil {
		return err
	}
	if err := h.Keys.Store().SetAsideKey(x.Request.Context(), k.ID, h.Now()); err != nil {
		return err
	}
	x.Changes(k.ID, k.Document(""), nil)
	return h.changed(x, deletion{"account.key.deleted", k.ID, true})
}
