// Package issuer speaks OpenID Connect with the issuer that an operator has configured:
// discovery, the authorization code flow with PKCE, state and nonce, and what the claims
// of an ID token give an account.
//
// An issuer is found when the first person signs in with it, not when the server starts,
// so that one which is down holds up only sign-ins with it.
//
// config.go is the file to read first.
package issuer
