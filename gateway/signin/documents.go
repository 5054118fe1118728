package signin

import (
	"time"

	"parley/gateway/accounts"
)

// The kinds of what pages sign in with.
const kindAccount, kindKey, kindLocal = "account", "key", "local"

// A sessionDocument says as whom a page is signed in.
type sessionDocument struct {
	Object   string `json:"object"`
	SignedIn bool   `json:"signed_in"`
	// Kind is "account", "key", or "local" while the server has neither.
	Kind string `json:"kind"`
	// Name and RedactedKey are those of the key that was signed in with.
	Name        string `json:"name,omitempty"`
	RedactedKey string `json:"redacted_key,omitempty"`
	ExpiresAt   int64  `json:"expires_at,omitempty"`
	// Issuer is the name of the issuer that people may sign in with; empty for none.
	Issuer string `json:"issuer,omitempty"`
	// User is the account that is signed in.
	User *UserDocument `json:"user,omitempty"`
}

// A UserDocument is an account as clients see it.
type UserDocument struct {
	Object string `json:"object"`
	ID     string `json:"id"`
	Email  string `json:"email"`
	Name   string `json:"name"`
	Role   string `json:"role"`
	// Organization is its id, which OpenAI's API calls a project.
	Organization string `json:"organization"`
	// Tier and Models are null if they are those of the organisation.
	Tier        *string  `json:"tier"`
	Models      []string `json:"models"`
	Disabled    bool     `json:"disabled"`
	HasPassword bool     `json:"has_password"`
	AddedAt     int64    `json:"added_at"`
	SignedInAt  *int64   `json:"signed_in_at"`
}

// UserShown returns the document of an account.
func UserShown(u *accounts.User) *UserDocument {
	d := &UserDocument{
		Object:       "organization.user",
		ID:           u.ID,
		Email:        u.Email,
		Name:         u.Name,
		Role:         string(u.Role),
		Organization: u.Organization,
		Models:       u.Models,
		Disabled:     u.Disabled,
		HasPassword:  u.HasPassword,
		AddedAt:      u.Created.Unix(),
		SignedInAt:   seconds(u.SignedIn),
	}
	if u.Tier != "" {
		d.Tier = &u.Tier
	}
	return d
}

func seconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.Unix()
	return &n
}

// An InviteDocument is an invitation as administrators see it.
type InviteDocument struct {
	Object string `json:"object"`
	ID     string `json:"id"`
	Email  string `json:"email"`
	Role   string `json:"role"`
	// Organization is its id.
	Organization string `json:"organization"`
	// User is the account whose password is chosen anew; null for a new account.
	User      *string `json:"user"`
	CreatedAt int64   `json:"created_at"`
	ExpiresAt int64   `json:"expires_at"`
	// Path is where the invited person continues on this server. It is shown once.
	Path string `json:"path,omitempty"`
}

// InviteShown returns the document of an invitation, with its link if token is not empty.
func InviteShown(i *accounts.Invitation, token string) *InviteDocument {
	d := &InviteDocument{
		Object:       "organization.invite",
		ID:           i.ID,
		Email:        i.Email,
		Role:         string(i.Role),
		Organization: i.Organization,
		CreatedAt:    i.Created.Unix(),
		ExpiresAt:    i.Expires.Unix(),
	}
	if i.User != "" {
		d.User = &i.User
	}
	if token != "" {
		d.Path = InvitationPath(token)
	}
	return d
}

// InvitationPath is where the person with a token continues. It is in the part of the
// address that browsers do not send, so that no log has it.
func InvitationPath(token string) string { return "/#invitation=" + token }

// A sessionEntry is a session as its owner sees it.
type sessionEntry struct {
	Object     string `json:"object"`
	ID         string `json:"id"`
	Page       string `json:"page"`
	Browser    string `json:"browser"`
	Method     string `json:"method"`
	CreatedAt  int64  `json:"created_at"`
	LastSeenAt int64  `json:"last_seen_at"`
	ExpiresAt  int64  `json:"expires_at"`
	// Current is set for the session that asks.
	Current bool `json:"current"`
}

func sessionShown(s *accounts.Session, current string) sessionEntry {
	return sessionEntry{
		Object:     "account.session",
		ID:         s.ID,
		Page:       s.Scope,
		Browser:    s.Agent,
		Method:     s.Method,
		CreatedAt:  s.Created.Unix(),
		LastSeenAt: s.Seen.Unix(),
		ExpiresAt:  s.Expires.Unix(),
		Current:    s.ID == current,
	}
}

// A list is a whole list.
type list[T any] struct {
	Object  string `json:"object"`
	Data    []T    `json:"data"`
	HasMore bool   `json:"has_more"`
}

func listOf[S, T any](all []S, show func(*S) T) list[T] {
	l := list[T]{Object: "list", Data: []T{}}
	for i := range all {
		l.Data = append(l.Data, show(&all[i]))
	}
	return l
}

// A deletion says that something is gone.
type deletion struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}
