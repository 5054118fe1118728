package job

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"

	"parley"
	"parley/gateway/tenant"
)

// Cached context that callers share answers the second one's question faster, and
// a caller who measures that learns what another asked. So each scope has a salt
// of its own, which no caller can guess or choose, and only beginnings that the
// operator declared public are shared by all.

// A CacheScope says which callers share cached context, cached answers and equal
// requests in flight. Organisations never share any of them.
type CacheScope string

// The scopes, narrowest last. ScopeUser, the default, keeps users of an
// organisation apart; keys that name no user share the organisation's scope.
// ScopeKey keeps every key apart.
const (
	ScopeOrganization CacheScope = "organization"
	ScopeUser         CacheScope = "user"
	ScopeKey          CacheScope = "key"
)

// CacheScopes are the scopes that an operator may choose from.
func CacheScopes() []CacheScope { return []CacheScope{ScopeOrganization, ScopeUser, ScopeKey} }

// of names the scope of an identity. An organisation's own scope is its name, and
// no name contains a zero byte, so no two scopes have the same name.
func (s CacheScope) of(who *tenant.Identity) string {
	switch {
	case s == ScopeKey && who.Key != "":
		return who.Organization + "\x00key\x00" + who.Key
	case s != ScopeOrganization && who.User != "":
		return who.Organization + "\x00user\x00" + who.User
	}
	return who.Organization
}

// RandomKey returns a key for salts that no other server has.
func RandomKey() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails: crypto/rand ends the process instead
	return key
}

// of returns the salt of a scope. It is the same every time, and so made once.
func (s *Salts) of(scope string) (salt parley.Salt) {
	if known, ok := s.known.Load(scope); ok {
		return known.(parley.Salt)
	}
	defer func() { s.known.Store(scope, salt) }()
	mac := hmac.New(sha256.New, s.Key)
	mac.Write([]byte("parley tenant salt 1\x00" + scope))
	copy(salt[:], mac.Sum(nil))
	return salt
}

// within returns the salt of requests of a scope that have a salt of their own. Clients
// make those up, so they are not kept.
func (s *Salts) within(scope, own string) (salt parley.Salt) {
	mac := hmac.New(sha256.New, s.Key)
	fmt.Fprintf(mac, "parley cache_salt 1\x00%d\x00%s%s", len(scope), scope, own)
	copy(salt[:], mac.Sum(nil))
	return salt
}

// Salts keep what is cached for some callers from being found by others.
type Salts struct {
	// Scope says which callers share what is cached; Key is what their salts are
	// derived from.
	Scope CacheScope
	Key   []byte
	// known are the salts of scopes that were here.
	known sync.Map
}
