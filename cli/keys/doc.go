// Package keys has the commands about API keys, what they used and who changed them, on a
// running server or directly in its store.
package keys
