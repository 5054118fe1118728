package tenant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"parley"
	"parley/limit"
)

// This file has keys and tenants as JSON shows them: to clients of the
// admin API, which is close to OpenAI's, and to users of the command line.

// A KeyDocument is a key. Value is there once, when the secret is new.
type KeyDocument struct {
	Object        string        `json:"object"`
	ID            string        `json:"id"`
	Name          string        `json:"name"`
	RedactedValue string        `json:"redacted_value"`
	Value         string        `json:"value,omitempty"`
	CreatedAt     int64         `json:"created_at"`
	ExpiresAt     *int64        `json:"expires_at"`
	LastUsedAt    *int64        `json:"last_used_at"`
	DeletedAt     *int64        `json:"deleted_at,omitempty"`
	Owner         OwnerDocument `json:"owner"`
	Organization  string        `json:"organization"`
	User          *string       `json:"user"`
	Tier          *string       `json:"tier"`
	Models        []string      `json:"models"`
	Limits        limit.Limits  `json:"limits"`
	Admin         bool          `json:"admin"`
	Blocked       bool          `json:"blocked"`
	// BlockedBy is "organization" or "user" where not the key but its owner is blocked.
	BlockedBy string `json:"blocked_by,omitempty"`
	// Budget is how it stands with its budget; null if it has none of its own, or
	// its spending is unknown.
	Budget *limit.StandingDocument `json:"budget"`
}

// An OwnerDocument is whose key it is, in the words of OpenAI's interface.
type OwnerDocument struct {
	Object string `json:"object"`
	Type   string `json:"type"`
	ID     string `json:"id"`
	Name   string `json:"name"`
	Role   string `json:"role"`
}

// Document returns the key as JSON shows it; secret is empty unless it is new.
func (k *Key) Document(secret string) KeyDocument {
	d := KeyDocument{
		Object:        "organization.api_key",
		ID:            k.ID,
		Name:          k.Name,
		RedactedValue: k.Prefix + "…",
		Value:         secret,
		CreatedAt:     k.Created.Unix(),
		ExpiresAt:     seconds(k.Expires),
		LastUsedAt:    seconds(k.LastUsed),
		DeletedAt:     seconds(k.Deleted),
		Organization:  k.Organization,
		Models:        k.Models,
		Limits:        k.Limits,
		Admin:         k.Admin,
		Blocked:       k.Blocked,
		BlockedBy:     k.BlockedBy,
		Owner: OwnerDocument{
			Object: "organization.service_account",
			Type:   "service_account",
			ID:     k.Organization,
			Name:   k.Organization,
			Role:   "member",
		},
	}
	if k.User != "" {
		d.User = &k.User
		d.Owner = OwnerDocument{
			Object: "organization.user",
			Type:   "user",
			ID:     k.User,
			Name:   k.User,
			Role:   "member",
		}
	}
	if k.Tier != nil {
		tier := k.Tier.String()
		d.Tier = &tier
	}
	if k.Admin {
		d.Object, d.Owner.Role = "organization.admin_api_key", "owner"
	}
	return d
}

func seconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	s := t.Unix()
	return &s
}

// A Maybe is a value that may be left out, which differs from null.
type Maybe[T any] struct {
	Set   bool
	Value T
}

// UnmarshalJSON reads the value; null is its zero.
func (m *Maybe[T]) UnmarshalJSON(text []byte) error {
	m.Set = true
	return json.Unmarshal(text, &m.Value)
}

// MarshalJSON writes the value. What is not set is left out by omitzero.
func (m Maybe[T]) MarshalJSON() ([]byte, error) { return json.Marshal(m.Value) }

// Some is a value that is there.
func Some[T any](v T) Maybe[T] { return Maybe[T]{true, v} }

// A KeyRequest is what a client says of a key that it makes or changes.
type KeyRequest struct {
	Name         Maybe[string]       `json:"name,omitzero"`
	Organization Maybe[string]       `json:"organization,omitzero"`
	User         Maybe[string]       `json:"user,omitzero"`
	Tier         Maybe[*string]      `json:"tier,omitzero"`
	Models       Maybe[[]string]     `json:"models,omitzero"`
	Limits       Maybe[limit.Limits] `json:"limits,omitzero"`
	Admin        Maybe[bool]         `json:"admin,omitzero"`
	Blocked      Maybe[bool]         `json:"blocked,omitzero"`
	// ExpiresAt is in seconds since 1970, null for never. ExpiresIn is in seconds
	// from now.
	ExpiresAt Maybe[*int64] `json:"expires_at,omitzero"`
	ExpiresIn Maybe[int64]  `json:"expires_in_seconds,omitzero"`
}

// ParseKeyRequest reads a request. Fields that there are not are errors: a
// mistyped limit must not be no limit.
func ParseKeyRequest(body []byte) (r KeyRequest, err error) { return r, parse(body, &r) }

// A Rotation is how a key is given a new secret.
type Rotation struct {
	// GraceSeconds is how long the old secret holds beside the new one.
	GraceSeconds int64 `json:"grace_seconds"`
}

// ParseRotation reads a rotation, and returns its grace.
func ParseRotation(body []byte) (grace time.Duration, err error) {
	var r Rotation
	if err := parse(body, &r); err != nil {
		return 0, err
	}
	if r.GraceSeconds < 0 || r.GraceSeconds > int64(GraceMax/time.Second) {
		return 0, parley.Invalid("grace_seconds", "Invalid 'grace_seconds': expected 0 to %d, but got %d.",
			GraceMax/time.Second, r.GraceSeconds)
	}
	return time.Duration(r.GraceSeconds) * time.Second, nil
}

func parse(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return parley.Invalid("", "The body cannot be understood: %s.", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return parley.Invalid("", "The body has data after its JSON object.")
	}
	return nil
}

// secondsMax keeps times within what can be written down.
const secondsMax = 250_000_000_000

// expiry returns the time a request names; ok is false if it names none.
func (r *KeyRequest) expiry(now time.Time) (at time.Time, ok bool, err error) {
	switch {
	case r.ExpiresIn.Set && r.ExpiresAt.Set:
		return at, false, parley.Invalid("expires_at", "Give 'expires_at' or 'expires_in_seconds', not both.")
	case r.ExpiresIn.Set && (r.ExpiresIn.Value <= 0 || r.ExpiresIn.Value > secondsMax/100):
		return at, false, parley.Invalid("expires_in_seconds",
			"Invalid 'expires_in_seconds': expected a positive number of seconds, got %d.", r.ExpiresIn.Value)
	case r.ExpiresIn.Set:
		return now.Add(time.Duration(r.ExpiresIn.Value) * time.Second), true, nil
	case !r.ExpiresAt.Set || r.ExpiresAt.Value == nil:
		return at, r.ExpiresAt.Set, nil
	case *r.ExpiresAt.Value <= 0 || *r.ExpiresAt.Value > secondsMax:
		return at, false, parley.Invalid("expires_at", "Invalid 'expires_at': %d is not a time in seconds since 1970.",
			*r.ExpiresAt.Value)
	}
	return time.Unix(*r.ExpiresAt.Value, 0).UTC(), true, nil
}

func classNamed(name *string) (*parley.Class, error) {
	if name == nil {
		return nil, nil
	}
	class, ok := ParseClass(*name)
	if !ok {
		return nil, parley.Invalid("tier", "There is no tier %q: use free, pro or enterprise.", clip(*name))
	}
	return &class, nil
}

// NewKey returns the key that a request asks for.
func (r *KeyRequest) NewKey(now time.Time) (n NewKey, err error) {
	if r.Blocked.Set {
		return n, parley.Invalid("blocked", "A new key cannot be blocked: create it, then block it.")
	}
	if n.Tier, err = classNamed(r.Tier.Value); err != nil {
		return n, err
	}
	n.Name, n.Organization, n.User = r.Name.Value, r.Organization.Value, r.User.Value
	n.Limits, n.Models, n.Admin = r.Limits.Value, r.Models.Value, r.Admin.Value
	n.Expires, _, err = r.expiry(now)
	return n, err
}

// Change returns the change that a request asks for.
func (r *KeyRequest) Change(now time.Time) (c KeyChange, err error) {
	if r.Organization.Set || r.User.Set {
		return c, parley.Invalid("organization",
			"The organisation and user of a key cannot be changed: create another key.")
	}
	if r.Tier.Set {
		tier, err := classNamed(r.Tier.Value)
		if err != nil {
			return c, err
		}
		c.Tier = &tier
	}
	c.Name, c.Limits, c.Models = r.Name.pointer(), r.Limits.pointer(), r.Models.pointer()
	c.Admin, c.Blocked = r.Admin.pointer(), r.Blocked.pointer()
	at, set, err := r.expiry(now)
	if set {
		c.Expires = &at
	}
	return c, err
}

func (m *Maybe[T]) pointer() *T {
	if !m.Set {
		return nil
	}
	return &m.Value
}

// An OrganizationDocument is a tenant. OpenAI's interface calls a tenant
// of a server a project.
type OrganizationDocument struct {
	Object    string       `json:"object"`
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	CreatedAt int64        `json:"created_at"`
	Status    string       `json:"status"`
	Tier      string       `json:"tier"`
	Models    []string     `json:"models"`
	Limits    limit.Limits `json:"limits"`
	// EffectiveLimits are those that apply: Limits, and where they say nothing, those of the tier.
	EffectiveLimits *limit.Limits `json:"effective_limits,omitempty"`
	// Budget is how it stands with its budget, which may be its tier's; null if there
	// is none, or its spending is unknown.
	Budget *limit.StandingDocument `json:"budget"`
}

// Document returns the tenant as JSON shows it.
func (o *Organization) Document() OrganizationDocument {
	d := OrganizationDocument{
		Object: "organization.project",
		ID:     o.ID,
		Name:   o.ID,
		Status: "active",
		Tier:   o.Tier.String(),
		Models: o.Models,
		Limits: o.Limits,
	}
	if !o.Created.IsZero() {
		d.CreatedAt = o.Created.Unix()
	}
	if o.Blocked {
		d.Status = "archived"
	}
	return d
}

// An OrganizationRequest is what a client says of a tenant.
type OrganizationRequest struct {
	// ID or Name is chosen when it is made, and stays.
	ID     string              `json:"id"`
	Name   string              `json:"name"`
	Tier   *string             `json:"tier"`
	Models Maybe[[]string]     `json:"models"`
	Limits Maybe[limit.Limits] `json:"limits"`
	// Blocked tenants are refused.
	Blocked Maybe[bool] `json:"blocked"`
}

// ParseOrganizationRequest reads a request.
func ParseOrganizationRequest(body []byte) (r OrganizationRequest, err error) {
	return r, parse(body, &r)
}

// Organization returns the tenant that a request asks for.
func (r *OrganizationRequest) Organization() (o Organization, err error) {
	tier, err := classNamed(r.Tier)
	if err != nil {
		return o, err
	}
	o = Organization{ID: r.ID, Models: r.Models.Value, Limits: r.Limits.Value, Blocked: r.Blocked.Value}
	if o.ID == "" {
		o.ID = r.Name
	}
	if tier != nil {
		o.Tier = *tier
	}
	return o, nil
}

// Change returns the change that a request asks for.
func (r *OrganizationRequest) Change() (c OrganizationChange, err error) {
	if r.ID+r.Name != "" {
		return c, parley.Invalid("id", "The id of an organisation cannot be changed.")
	}
	c.Models, c.Limits, c.Blocked = r.Models.pointer(), r.Limits.pointer(), r.Blocked.pointer()
	c.Tier, err = classNamed(r.Tier)
	return c, err
}

// String names a key for people: its name, if it has one, and its prefix.
func (d *KeyDocument) String() string {
	if d.Name == "" {
		return d.RedactedValue
	}
	return fmt.Sprintf("%s (%s)", d.Name, d.RedactedValue)
}
