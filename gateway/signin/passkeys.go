package signin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// The purposes of challenges.
const registerFlow, assertFlow = "passkey register", "passkey"

// A challenge is what is kept until the browser answers it.
type challenge struct {
	// Origin is that of the page that asked for it, User the account that registers.
	Origin string `json:"origin"`
	User   string `json:"user,omitempty"`
}

// challengeDocument is what a page hands its browser.
type challengeDocument struct {
	Object    string `json:"object"`
	Challenge string `json:"challenge"`
	// Site is the domain that the passkey is for.
	Site string `json:"site"`
	// User, Email and Name are those of the account that registers one, Exclude what it has.
	User    string   `json:"user,omitempty"`
	Email   string   `json:"email,omitempty"`
	Name    string   `json:"name,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// siteOf returns the domain of an origin that can have passkeys.
func siteOf(origin string) (string, error) {
	u, err := url.Parse(origin)
	if err != nil || u.Hostname() == "" {
		return "", errNoSite
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil || u.Scheme != "https" && u.Hostname() != "localhost" {
		return "", errNoSite
	}
	return u.Hostname(), nil
}

var errNoSite = parley.Errorf(parley.InvalidRequest,
	"Passkeys need a page with a domain name over https: browsers have none for plain http or an IP address.")

// challenge keeps a challenge and returns what the browser needs of it.
func (h *Handlers) challenge(x *exchange.Exchange, purpose, user string) (d challengeDocument, err error) {
	c := challenge{Origin: x.PublicOrigin(), User: user}
	if d.Site, err = siteOf(c.Origin); err != nil {
		return d, err
	}
	document, err := json.Marshal(c)
	if err != nil {
		return d, err
	}
	d.Object = "passkey.challenge"
	d.Challenge, err = h.store().BeginFlow(x.Request.Context(), purpose, document, h.Now())
	return d, err
}

// BeginPasskey answers POST /session/passkey: a challenge to sign in with.
func (h *Handlers) BeginPasskey(x *exchange.Exchange) error {
	if err := h.take(x, ""); err != nil {
		return err
	}
	d, err := h.challenge(x, assertFlow, "")
	if err != nil {
		return err
	}
	return reply(x, d)
}

// BeginNewPasskey answers POST /account/passkeys/challenge: a challenge to register with.
func (h *Handlers) BeginNewPasskey(x *exchange.Exchange) error {
	u, err := h.confirmed(x)
	if err != nil {
		return err
	}
	d, err := h.challenge(x, registerFlow, u.ID)
	if err != nil {
		return err
	}
	all, err := h.store().PasskeysOf(x.Request.Context(), u.ID)
	if err != nil {
		return err
	}
	for i := range all {
		d.Exclude = append(d.Exclude, encode(all[i].Credential))
	}
	d.User, d.Email, d.Name = u.ID, u.Email, u.Name
	return reply(x, d)
}

// octets is bytes in the alphabet of base64 for URLs, as browsers write them.
type octets []byte

// UnmarshalText reads them.
func (b *octets) UnmarshalText(text []byte) (err error) {
	*b, err = base64.RawURLEncoding.DecodeString(string(text))
	return err
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// A passkeyAnswer is what a browser answers a challenge with.
type passkeyAnswer struct {
	Credential octets `json:"id"`
	ClientData octets `json:"client_data"`
	// Authenticator is what the device says of itself and of the site.
	Authenticator octets `json:"authenticator_data"`
	Signature     octets `json:"signature,omitempty"`
}

// check returns the challenge that a response answers, which then is used up, and what the
// device says, if it is for this site.
func (h *Handlers) check(x *exchange.Exchange, purpose, kind string, r *passkeyAnswer) (c challenge, a authenticator,
	err error) {
	var client struct {
		Type      string `json:"type"`
		Challenge octets `json:"challenge"`
		Origin    string `json:"origin"`
	}
	if err := json.Unmarshal(r.ClientData, &client); err != nil {
		return c, a, accounts.ErrPasskey
	}
	document, err := h.store().EndFlow(x.Request.Context(), purpose, string(client.Challenge), h.Now())
	if err != nil {
		return c, a, err
	}
	if err := json.Unmarshal(document, &c); err != nil {
		return c, a, err
	}
	site, err := siteOf(c.Origin)
	if err != nil {
		return c, a, err
	}
	a, ok := parseAuthenticator(r.Authenticator)
	want := sha256.Sum256([]byte(site))
	if !ok || client.Type != kind || client.Origin != c.Origin || subtle.ConstantTimeCompare(a.site, want[:]) != 1 {
		return c, a, accounts.ErrPasskey
	}
	return c, a, nil
}

// RegisterPasskey answers POST /account/passkeys.
func (h *Handlers) RegisterPasskey(x *exchange.Exchange) error {
	var given struct {
		Name string `json:"name"`
		// PublicKey is in the form of PKIX, as browsers give it.
		PublicKey octets `json:"public_key"`
		passkeyAnswer
	}
	u, err := h.self(x)
	if err != nil {
		return err
	}
	if err := read(x, &given); err != nil {
		return err
	}
	c, a, err := h.check(x, registerFlow, "webauthn.create", &given.passkeyAnswer)
	if err != nil {
		return err
	}
	if c.User != u.ID || subtle.ConstantTimeCompare(a.credential, given.Credential) != 1 {
		return accounts.ErrPasskey
	}
	if _, err := parseKey(given.PublicKey); err != nil {
		return parley.Invalid("public_key", "%s.", err)
	}
	site, err := siteOf(c.Origin)
	if err != nil {
		return err
	}
	p, err := h.store().AddPasskey(x.Request.Context(), accounts.Passkey{
		Credential: given.Credential,
		User:       u.ID,
		Name:       given.Name,
		Site:       site,
		PublicKey:  given.PublicKey,
		Signatures: a.signatures,
	}, h.Now())
	if err != nil {
		return err
	}
	x.Changes(p.ID, nil, passkeyShown(&p))
	return h.changed(x, passkeyShown(&p))
}

// openWithPasskey signs in to the account of a passkey. The attempt was counted when its
// challenge was made, which serves once.
func (h *Handlers) openWithPasskey(x *exchange.Exchange, r *passkeyAnswer, scope tenant.Scope) error {
	u, err := h.userOfPasskey(x, r)
	if err != nil {
		if errors.Is(err, accounts.ErrPasskey) {
			h.Log.Warn("sign-in refused", "id", x.Record.ID, "remote", x.Remote())
		}
		return err
	}
	if err := h.giveBack(x, ""); err != nil {
		return err
	}
	return h.welcome(x, &u, scope, "passkey")
}

func (h *Handlers) userOfPasskey(x *exchange.Exchange, r *passkeyAnswer) (u accounts.User, err error) {
	ctx := x.Request.Context()
	c, a, err := h.check(x, assertFlow, "webauthn.get", r)
	if err != nil {
		return u, err
	}
	p, err := h.store().PasskeyOf(ctx, r.Credential)
	if err != nil {
		return u, err
	}
	site, err := siteOf(c.Origin)
	if err != nil {
		return u, err
	}
	if p.Site != site || !isSigned(p.PublicKey, r.Authenticator, r.ClientData, r.Signature) {
		return u, accounts.ErrPasskey
	}
	return h.store().UsePasskey(ctx, p.ID, a.signatures, h.Now())
}

// passkeyEntry is a passkey as its owner sees it.
type passkeyEntry struct {
	Object     string `json:"object"`
	ID         string `json:"id"`
	Name       string `json:"name"`
	CreatedAt  int64  `json:"created_at"`
	LastUsedAt *int64 `json:"last_used_at"`
}

func passkeyShown(p *accounts.Passkey) passkeyEntry {
	return passkeyEntry{
		Object:     "account.passkey",
		ID:         p.ID,
		Name:       p.Name,
		CreatedAt:  p.Created.Unix(),
		LastUsedAt: seconds(p.Used),
	}
}

// ListPasskeys answers GET /account/passkeys.
func (h *Handlers) ListPasskeys(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	all, err := h.store().PasskeysOf(x.Request.Context(), u.ID)
	if err != nil {
		return err
	}
	return reply(x, listOf(all, passkeyShown))
}

// RenamePasskey answers POST /account/passkeys/{passkey}.
func (h *Handlers) RenamePasskey(x *exchange.Exchange) error {
	var given struct {
		Name string `json:"name"`
	}
	u, err := h.self(x)
	if err != nil {
		return err
	}
	if err := read(x, &given); err != nil {
		return err
	}
	id := x.Values["passkey"]
	if err := h.store().RenamePasskey(x.Request.Context(), u.ID, id, given.Name); err != nil {
		return err
	}
	x.Changes(id, nil, map[string]string{"name": given.Name})
	return h.ListPasskeys(x)
}

// RemovePasskey answers DELETE /account/passkeys/{passkey}.
func (h *Handlers) RemovePasskey(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	id := x.Values["passkey"]
	if err := h.store().RemovePasskey(x.Request.Context(), u.ID, id); err != nil {
		return err
	}
	x.Changes(id, nil, nil)
	return h.changed(x, deletion{"account.passkey.deleted", id, true})
}
