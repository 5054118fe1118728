// Package accounts keeps the people who sign in: their accounts, how each of them proves
// who they are, and the browsers in which they are signed in.
//
// A [User] belongs to one organisation and has a [Role] in it. An account begins with an
// [Invitation], with a command of the operator, or with the first sign-in by an
// OpenID Connect issuer that the operator has configured. It is signed in to with a
// password, passkeys, identities at such issuers, or any of these. The first account is
// a server admin.
//
// What proves an identity is never stored: of passwords there is an argon2id hash, of
// session cookies and of the tokens in invitation links a SHA-256, which suffices for
// 256 random bits.
//
// What an account may do is not decided here: gateway/tenant makes the identity of a
// call from the account, its organisation and its tier. Every change that an identity
// depends on counts [State.Generation] up, by which gateways notice it.
//
// nouns.go is the file to read first.
package accounts
