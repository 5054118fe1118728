// Package signin answers the routes by which people sign in and manage accounts: the
// sessions of both pages, invitations, the own account with its sessions, keys and data,
// and, for administrators, the people of an organisation.
//
// A page signs in once, with a password, at an issuer of OpenID Connect, with an API key,
// or with the local token of a server that has neither keys nor accounts. It gets a
// cookie that no script can read. The chat and the admin page have sessions of their own,
// with cookies of their own names and paths.
//
// What an unknown visitor may try is limited by address and by account before a password
// is looked at, and every refusal reads the same, so that it does not say who has an
// account.
//
// handlers.go is the file to read first.
package signin
