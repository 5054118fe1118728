// Package tenant identifies callers: tenants, their users, and API keys.
//
// An [Identity] is decided once for every call, by the key it carries, and all
// that follows goes by it: whose conversations, files and batches the call may
// see, which models, with which priority, within which limits, and whose context in
// the cache it shares. While no key was ever made there is one identity,
// [Local]: the user of this machine.
//
// A key is a secret of 256 bits and some letters to find it by. The store has
// those letters and a SHA-256 of the whole, never the secret: a hash that is
// slow on purpose would gain nothing, as 256 bits cannot be guessed.
//
// nouns.go is the file to read first.
package tenant
