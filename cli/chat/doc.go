// Package chat talks with a model in the terminal or in a pipe, on a server or with the
// models loaded into this process.
package chat
