// Package db is the database in which a server keeps what must outlive it: an
// SQLite file for one machine, PostgreSQL for several gateways.
//
// The packages that keep something write SQL that both understand, with $1, $2
// and so on, in transactions that are run again where that may help; each brings
// a [Schema] of its own. Failures come as a [parley.Error] that a client may see.
// Values are kept as texts, bytes and integers: see [Stamp] and [Flag].
package db
