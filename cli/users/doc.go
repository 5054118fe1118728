// Package users has the commands for people and organisations: on a running server, or in
// its store.
package users
