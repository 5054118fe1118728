package gateway

import "parley/gateway/tenant"

// An access class says which credentials a route needs. Every route of the table
// in routes.go declares one, and [Gateway.identify] decides by it alone: never by
// the path, and never by the address from which a connection comes.
type access int

const (
	// undeclared is the zero value, which no route may have.
	undeclared access = iota
	// public routes show nothing that belongs to a user: health, pages, sign-in.
	public
	// signIn routes open and close the sessions of pages.
	signIn
	// stateless routes answer and store nothing.
	stateless
	// owned routes read or write what a user has stored, or what it has used.
	owned
	// people routes show and change accounts. Their handlers decide by the caller's role
	// which ones.
	people
	// account routes are those of the two classes before for sessions of the admin page.
	account
	// operator routes show and change the server: they need the admin right.
	operator
	// fleetOperator routes are operator routes that also take the fleet's operate
	// token.
	fleetOperator
	// fleetJoin is where workers register. Its handler checks their credentials.
	fleetJoin
)

// String returns the class's name, as error messages and tests show it.
func (a access) String() string {
	return [...]string{
		"undeclared", "public", "sign-in", "stateless", "owned", "people", "account", "operator", "fleet-operator",
		"fleet-join"}[a]
}

// operates reports whether the class is for operators of the server.
func (a access) operates() bool { return a == operator || a == fleetOperator }

// sameOriginOnly reports whether pages of other origins are refused, also where they
// only read: a page may send a GET with neither an Origin header nor a preflight.
func (a access) sameOriginOnly() bool { return a != public && a != stateless }

// isOpen reports whether the class needs no credential that the gateway checks.
func (a access) isOpen() bool { return a == public || a == signIn || a == fleetJoin }

// scope is that of the sessions which the class accepts.
func (a access) scope() tenant.Scope {
	if a == account || a.operates() {
		return tenant.ScopeAdmin
	}
	return tenant.ScopeChat
}
