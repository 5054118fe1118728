// Package serve puts servers and workers together: it opens stores, models and pools as
// the settings say, gives them to a gateway, and serves until it is stopped. A
// server can also run inside a command, without a connection.
package serve
