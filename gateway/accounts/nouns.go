package accounts

import (
	"strings"
	"time"

	"parley"
)

// A Role is what a user may do beside chatting.
type Role string

// The roles, each with the rights of the one before.
const (
	// Member uses the server.
	Member Role = "member"
	// OrgAdmin also manages the people of the own organisation.
	OrgAdmin Role = "org-admin"
	// ServerAdmin operates the server.
	ServerAdmin Role = "server-admin"
)

// ParseRole reads the name of a role; empty is [Member].
func ParseRole(name string) (Role, error) {
	switch r := Role(name); r {
	case "":
		return Member, nil
	case Member, OrgAdmin, ServerAdmin:
		return r, nil
	}
	return "", parley.Invalid("role", "%q is not a role: use member, org-admin or server-admin.", clip(name))
}

// A Grant is what an account is given: by its invitation, its operator, or the groups
// that an issuer names.
type Grant struct {
	Role         Role
	Organization string
	// Tier is the name of a class; empty is that of the organisation.
	Tier string
	// Models are the names that may be used; nil allows what the organisation may.
	Models []string
}

// A User is an account of a person.
type User struct {
	// ID names the account for ever: user_….
	ID string
	// Email is what the person signs in with, as it was written. Two accounts differ in
	// more than upper and lower case.
	Email string
	// Name is how the person is shown.
	Name string
	Grant
	// Disabled accounts are refused, and so are their API keys.
	Disabled bool
	// HasPassword is set if the account can be signed in to with a password.
	HasPassword bool
	// SignedIn is when it was last signed in to; zero is never.
	Created, SignedIn time.Time
}

// idPrefix and idLength are those of an account's id.
const idPrefix, idLength = "user_", 31

// IsID reports whether a text has the form of an account's id.
func IsID(text string) bool { return len(text) == idLength && strings.HasPrefix(text, idPrefix) }

// A Session is a browser that is signed in.
type Session struct {
	// ID names it in lists. It is not the cookie.
	ID string
	// User is the account's id.
	User string
	// Scope is the page that it was opened for: chat or admin.
	Scope string
	// Agent is what the browser called itself, Method what was signed in with.
	Agent, Method string
	// Seen is exact to some seconds.
	Created, Seen, Expires time.Time
}

// An Invitation lets one person make an account, or choose a new password, once.
type Invitation struct {
	ID string
	// User is the account whose password is chosen; empty makes a new account.
	User  string
	Email string
	Grant
	// By is the id of the account that invited; empty for operators without one.
	By               string
	Created, Expires time.Time
}

// An ExternalIdentity is a person as an OpenID Connect issuer knows it.
type ExternalIdentity struct {
	Issuer, Subject string
	Email           string
	// EmailVerified says that the issuer vouches for Email.
	EmailVerified bool
	Name          string
}

// How long things hold.
const (
	// InvitationMax is how long the link of an invitation holds.
	InvitationMax = 7 * 24 * time.Hour
	// sessionsMax is how many sessions one account may have; the oldest ends when
	// another is opened.
	sessionsMax = 64
)

// What a caller may want to tell apart.
var (
	// ErrNotFound: there is nothing of that id.
	ErrNotFound = parley.Errorf(parley.NotFound, "There is no such user, invitation or session.")
	// ErrExists: another account has the address.
	ErrExists = parley.Errorf(parley.Conflict, "An account with this email address exists.")
	// ErrLastAdmin: without a server admin only commands on the machine could operate it.
	ErrLastAdmin = parley.Errorf(parley.Conflict,
		"This is the last server admin. Give another account the role server-admin first.")
	// ErrSignIn is one error for all reasons, so that it does not say which accounts exist.
	ErrSignIn = parley.Errorf(parley.Unauthenticated, "The email address or the password is wrong.")
	// ErrInvitation: the link was used, has expired, or never was one.
	ErrInvitation = parley.Errorf(parley.NotFound,
		"This invitation was used already or has expired. Ask for a new one.")
)
