// Package tenant identifies callers: tenants, their users, and API keys.
//
// An [Identity] is determined once for every request, by its key. It decides which
// conversations, files and batches the request may see, which models it may use, with
// which priority and limits, and with whom it shares cached context. Until the first key
// exists there is one identity, [Local]: the user of this machine.
//
// A key is a secret of 256 bits with a prefix by which it is found. The store has
// the prefix and a SHA-256 of the whole, never the secret: a deliberately slow hash
// would gain nothing, because 256 bits cannot be guessed.
//
// nouns.go is the file to read first.
package tenant
