package tenant

import (
	"slices"
	"time"

	"parley"
)

// LocalOrganization owns all that is kept while there are no keys. It exists
// from the start, so that the first key, made for it, still sees all that.
const LocalOrganization = "local"

// An Identity is who a call is answered for, and what that allows. It is a value
// that nobody changes; lists in it are shared.
type Identity struct {
	// Organization is the tenant: it owns what is kept, pays, and shares its
	// cached context with nobody. Never empty.
	Organization string
	// User is who in the organisation calls; empty if the key names nobody. What
	// one user keeps, others of the organisation do not see.
	User string
	// Key is the id of the key that was shown; empty for [Local] and for work
	// that no client waits for.
	Key string
	// Tier is the class in which calls are answered.
	Tier parley.Class
	// Models are the names that may be asked for; nil allows all.
	Models []string
	// Admin keys manage keys and see everybody's numbers.
	Admin bool
}

// Local is who calls while there are no keys: whoever runs the server for
// themselves, and has all of it.
func Local() Identity {
	return Identity{Organization: LocalOrganization, Tier: parley.Enterprise, Admin: true}
}

// MayUse reports whether the identity may ask for a model by this name.
func (i *Identity) MayUse(model string) bool {
	return i.Models == nil || slices.Contains(i.Models, model)
}

// An Organization is a tenant.
type Organization struct {
	// ID is a short name such as "acme", chosen once.
	ID string
	// Tier is the class of its keys, unless a key has its own.
	Tier parley.Class
	// Models are the names its keys may ask for; nil allows what the tier does.
	Models []string
	// Blocked organisations are refused, whatever their keys say.
	Blocked bool
	Created time.Time
}

// A Key is what the store knows of an API key: all but the secret.
type Key struct {
	// ID names the key for ever, also when its secret is rotated: key_….
	ID string
	// Prefix is the beginning of the secret, by which people recognise it.
	Prefix string
	// Name is what its owner calls it.
	Name string
	// Organization is whose key it is; User who in it, or empty.
	Organization, User string
	// Tier is the class of its calls; nil is that of the organisation.
	Tier *parley.Class
	// Models are the names it may ask for; nil allows what its organisation may.
	Models []string
	// Admin keys manage keys and see everybody's numbers.
	Admin bool
	// Blocked keys are refused until they are unblocked.
	Blocked bool
	// Expires is when it ends; zero is never. LastUsed is exact to some seconds.
	Created, Expires, LastUsed time.Time
}

// A Tier is what a class of tenants gets.
type Tier struct {
	// Models are the names that the class may ask for; nil allows all.
	Models []string
	// Weight is its share of turns beside other classes that wait; 0 is the
	// queue's default.
	Weight float64
	// KVShare is the part of a model's key/value pool that the class may keep
	// cached before it is evicted ahead of others; 0 is all of it. KVReserve is
	// the part that others use only while the class does not.
	KVShare, KVReserve float64
}

// Tiers has an entry for each class.
type Tiers [parley.Classes]Tier
