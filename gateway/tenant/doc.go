// Package tenant says who calls: organisations, their users, and the API keys
// they show.
//
// An [Identity] is decided once for every call, by the key it carries, and all
// that follows goes by it: whose conversations, files and batches the call may
// see, which models, in which turn, within which limits, and whose context in
// the cache it shares. While no key was ever made there is one identity,
// [Local]: whoever sits at this machine.
//
// A key is a secret of 256 bits and some letters to find it by. The store has
// those letters and a SHA-256 of the whole, never the secret: a hash that is
// slow on purpose would only slow us, as nobody guesses 256 bits.
//
// nouns.go is the file to read first.
package tenant
