// Package doctor examines what a server with given settings needs: this machine, the
// store, Redis, workers, and the server itself.
package doctor
