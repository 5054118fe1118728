package issuer

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"parley"
	"parley/gateway/accounts"
)

// waitMax bounds one request to the issuer, while a browser waits.
const waitMax = 10 * time.Second

// An Issuer vouches for people. It is safe for concurrent use.
type Issuer struct {
	Config
	client *http.Client
	now    func() time.Time

	mu sync.Mutex
	// found is what the issuer says of itself; nil until it has been reached.
	found *oidc.Provider
}

// New returns the issuer of a config. It contacts nothing.
func New(c Config, now func() time.Time) (*Issuer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Issuer{Config: c, client: &http.Client{Timeout: waitMax}, now: now}, nil
}

// A Ticket is a sign-in between its two ends: what the issuer must repeat and be shown.
type Ticket struct {
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	// Redirect is where the issuer sends the browser back to.
	Redirect string `json:"redirect"`
}

// NewTicket returns a flow that comes back to an address.
func NewTicket(redirect string) Ticket {
	return Ticket{Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect}
}

// Address returns where a browser signs in for a flow, with the groups of the store, or why the issuer cannot be asked.
func (i *Issuer) Address(ctx context.Context, f *Ticket, state string, stored []accounts.GroupRule) (string, error) {
	p, err := i.provider(ctx)
	if err != nil {
		return "", err
	}
	return i.oauth(p, f, stored).AuthCodeURL(state, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// Finish exchanges the code that a browser has brought back for who signed in, and on
// which terms, with the groups of the store.
func (i *Issuer) Finish(ctx context.Context, f *Ticket, code string, stored []accounts.GroupRule) (
	e accounts.ExternalIdentity, t accounts.Terms, err error) {
	p, err := i.provider(ctx)
	if err != nil {
		return e, t, err
	}
	ctx = oidc.ClientContext(ctx, i.client)
	token, err := i.oauth(p, f, stored).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if refusal := new(oauth2.RetrieveError); errors.As(err, &refusal) && refusal.Response.StatusCode < 500 {
		return e, t, i.refused(err)
	} else if err != nil {
		return e, t, i.down(err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return e, t, i.refused(errors.New("the token response has no id_token"))
	}
	id, err := p.VerifierContext(ctx, &oidc.Config{ClientID: i.ClientID, Now: i.now}).Verify(ctx, raw)
	if err != nil {
		return e, t, i.refused(err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1 {
		return e, t, i.refused(errors.New("the nonce is that of another sign-in"))
	}
	return i.read(id, stored)
}

// read returns what an ID token that is valid says.
func (i *Issuer) read(id *oidc.IDToken, stored []accounts.GroupRule) (e accounts.ExternalIdentity, t accounts.Terms,
	err error) {
	var claims struct {
		Email    string    `json:"email"`
		Verified oneOrMany `json:"email_verified"`
		Name     string    `json:"name"`
	}
	var all map[string]json.RawMessage
	if err := errors.Join(id.Claims(&claims), id.Claims(&all)); err != nil {
		return e, t, i.refused(err)
	}
	e = accounts.ExternalIdentity{
		Issuer:        id.Issuer,
		Subject:       id.Subject,
		Email:         claims.Email,
		EmailVerified: slices.Contains(claims.Verified, "true"),
		Name:          claims.Name,
	}
	switch {
	case !e.EmailVerified && !i.AcceptUnverified:
		return e, t, parley.Errorf(parley.Forbidden, "%s has not verified your email address %s. Verify it there, "+
			"then sign in again.", i.ShownName(), e.Email)
	case !i.allows(e.Email):
		return e, t, parley.Errorf(parley.Forbidden, "Addresses such as %s may not sign in to this server.", e.Email)
	}
	claim := i.GroupsClaim
	if claim == "" {
		claim = "groups"
	}
	var groups oneOrMany
	if text, ok := all[claim]; ok && json.Unmarshal(text, &groups) != nil {
		return e, t, i.refused(errors.New("the claim " + claim + " is not a list of names"))
	}
	t, err = i.terms(groups, stored)
	return e, t, err
}

// oneOrMany is a claim that is a text, a truth value or a list of texts, as issuers differ.
type oneOrMany []string

// UnmarshalJSON reads any of the forms.
func (o *oneOrMany) UnmarshalJSON(text []byte) error {
	var many []string
	if json.Unmarshal(text, &many) == nil {
		*o = many
		return nil
	}
	var truth bool
	if json.Unmarshal(text, &truth) == nil {
		*o = oneOrMany{map[bool]string{true: "true", false: "false"}[truth]}
		return nil
	}
	var one string
	err := json.Unmarshal(text, &one)
	*o = oneOrMany{one}
	return err
}

func (i *Issuer) oauth(p *oidc.Provider, f *Ticket, stored []accounts.GroupRule) *oauth2.Config {
	return &oauth2.Config{
		ClientID:     i.ClientID,
		ClientSecret: i.ClientSecret,
		Endpoint:     p.Endpoint(),
		RedirectURL:  f.Redirect,
		Scopes:       i.scopes(stored),
	}
}

// provider returns what the issuer says of itself, and asks it if that is not known yet.
func (i *Issuer) provider(ctx context.Context) (*oidc.Provider, error) {
	i.mu.Lock()
	found := i.found
	i.mu.Unlock()
	if found != nil {
		return found, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.URL)
	if err != nil {
		return nil, i.down(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.found = found
	return found, nil
}

// A SignInError is why a sign-in at the issuer did not succeed.
type SignInError struct {
	// Told is what people are told, Cause what the log says.
	Told  *parley.Error
	Cause error
}

// Error returns both.
func (f *SignInError) Error() string { return f.Told.Message + " (" + f.Cause.Error() + ")" }

// Unwrap returns what people are told.
func (f *SignInError) Unwrap() error { return f.Told }

func (i *Issuer) down(cause error) error {
	return &SignInError{Cause: cause, Told: &parley.Error{
		Code: parley.Unavailable,
		Message: i.ShownName() + " does not answer. Try again in a minute, or sign in with your email address and " +
			"password.",
		Wait: time.Minute,
	}}
}

func (i *Issuer) refused(cause error) error {
	return &SignInError{Cause: cause, Told: parley.Errorf(parley.Unauthenticated,
		"The sign-in at %s could not be verified. Sign in again.", i.ShownName())}
}
