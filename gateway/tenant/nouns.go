package tenant

import (
	"slices"
	"time"

	"parley"
	"parley/limit"
)

// LocalOrganization owns all that is kept while there are no keys. It exists
// from the start, so that the first key, made for it, still sees all that.
const LocalOrganization = "local"

// An Identity is who a call is answered for, and what that allows. It is
// immutable; lists in it are shared. The zero value identifies no caller.
type Identity struct {
	// Organization is the tenant: it owns what is kept, pays, and does not
	// share its cached context.
	Organization string
	// User is the user in the tenant; empty if the key has none. Users do not
	// see each other's data.
	User string
	// Key is the id of the credential that was shown, or with which work was asked for
	// that no client waits for: of a key, or of the account that is signed in; empty for
	// [Local].
	Key string
	// Tier is the class in which calls are answered.
	Tier parley.Class
	// Limits are what the tenant may use, by its tier or its own. KeyLimits
	// are what this key may use of that. Both apply; zero means no limit.
	Limits, KeyLimits limit.Limits
	// TierLimits are those of Limits that it has by the tier, but for the budget. What
	// keys of another tier use does not count for them.
	TierLimits limit.Limits
	// UserLimits are what the user may use with all its keys of the tier, EndUserLimits
	// what each user may whom the caller names in its requests.
	UserLimits, EndUserLimits limit.Limits
	// Quota is what the tenant may store, UserQuota what the user may of that.
	Quota, UserQuota Quota
	// Admin keys manage keys and see all usage.
	Admin bool
	// OrgAdmin accounts manage the people of their organisation.
	OrgAdmin bool
	// Anonymous callers showed no credential, to a server that has no keys: they may
	// have answers that are not stored, and nothing else.
	Anonymous bool
	// models are lists of names; a model must be in all of them.
	models [][]string
}

// LimitsOfUser returns the limits of the user who calls; none if the key names no user.
func (i *Identity) LimitsOfUser() limit.Limits {
	if i.User == "" {
		return limit.Limits{}
	}
	return i.UserLimits
}

// SignedIn reports whether the caller is signed in to an account, rather than shows a key
// or is signed in with one. User is then the account's id.
func (i *Identity) SignedIn() bool { return i.Key != "" && i.Key == i.User }

// KeyAccount names the account of the caller's key.
func (i *Identity) KeyAccount() string { return i.Organization + "/" + i.Key }

// UserAccount names the account of the caller's user, for all its keys of one tier.
func (i *Identity) UserAccount() string {
	return i.Organization + "//" + i.User + ":" + i.Tier.String()
}

// AnonymousOrganization is whose the answers are that were given without any
// credential. It shares no cached context with [LocalOrganization].
const AnonymousOrganization = "anonymous"

// Anonymous is who calls a server without keys and shows no credential.
func Anonymous() *Identity {
	return &Identity{Organization: AnonymousOrganization, Tier: parley.Enterprise, Anonymous: true}
}

// Local is the identity of the local token of a server without keys: its operator, with
// full access.
func Local() *Identity {
	return &Identity{Organization: LocalOrganization, Tier: parley.Enterprise, Admin: true}
}

// Operator is who shows a credential that is good for operating the fleet alone.
func Operator() *Identity { return &Identity{Organization: LocalOrganization, Admin: true} }

// MayUse reports whether the identity may use the model that goes by any of
// these names, such as its own and an alias.
func (i *Identity) MayUse(names ...string) bool {
	for _, allowed := range i.models {
		if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(allowed, name) }) {
			return false
		}
	}
	return true
}

// An Organization is a tenant.
type Organization struct {
	// ID is a short name such as "acme", chosen once.
	ID string
	// Tier is the class of its keys, unless a key has its own.
	Tier parley.Class
	// Limits are what it may use, instead of what its tier may where they are set.
	Limits limit.Limits
	// Models are the names its keys may ask for; nil allows what the tier does.
	Models []string
	// Blocked tenants are refused, whatever their keys say.
	Blocked bool
	Created time.Time
}

// A User belongs to a tenant.
type User struct {
	Organization string
	// ID is a short name such as "ann", chosen once.
	ID string
	// Blocked users are refused, whatever their keys say.
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
	// Tier is the class of its calls; nil is that of the tenant.
	Tier *parley.Class
	// Limits are what it may use, within what its tenant may.
	Limits limit.Limits
	// Models are the names it may ask for; nil allows what its tenant may.
	Models []string
	// Admin keys manage keys and see all usage.
	Admin bool
	// Blocked keys are refused until they are unblocked.
	Blocked bool
	// BlockedBy says what else blocks it: its "organization", its "user", or nothing.
	BlockedBy string
	// Expires is when it ends; zero is never. LastUsed is exact to some seconds. Deleted is
	// zero while the key exists.
	Created, Expires, LastUsed, Deleted time.Time
}

// ParseClass reads the name of a class.
func ParseClass(name string) (parley.Class, bool) {
	for class := range parley.Class(parley.Classes) {
		if class.String() == name {
			return class, true
		}
	}
	return 0, false
}
