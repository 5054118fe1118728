// Package convo keeps conversations on the server: what was said, in which
// branches, by whom, at what cost; and the state of stored responses, so that
// a stream can be taken up again where it broke off.
//
// [Store] is the contract; store.go is the file to read first. [Open] gives one
// over an SQLite file or a PostgreSQL database, and both are held to the same
// conformance test. What decides stands apart from what stores, in files that
// touch no database, clock or file:
//
//	branch.go     a conversation is a tree: paths, tips, siblings
//	fit.go        which messages go to the model when not all of them fit
//	page.go       listing by cursor
//	words.go      what search compares, and the snippet around a hit
//	text.go       the plain text within a content
//	title.go      titles: the first words of a question, and what a model gave as one
//	archive.go    the format of exports, and markdown
//	limits.go     what is accepted at all
//
// These things hold at all times:
//
//   - Nothing is told of without its [Owner]: another owner's id is
//     [ErrNotFound], like one that never was.
//   - A method that returns without an error has stored what it says, for good:
//     it survives the death of this process and of the machine. One that fails
//     has stored all of it or nothing. With the code [parley.Unavailable] it may
//     be either: call it again with the same key or id, and it is done once.
//   - A turn is written before it is answered. What runs belongs to a process
//     that says it is alive; what a dead one left is found by [Store.Recover].
//   - A message's Seq is greater than its parent's, so a path is ordered by Seq.
//   - Time comes from the caller. It is kept in microseconds.
//
// The schema is written by the numbered files in migrations, one set for each
// database. conversations.go, messages.go, turns.go, responses.go, search.go,
// recover.go and transfer.go speak to both in the SQL that they share, through
// database.go, and a dialect (sqlite.go, postgres.go) holds what differs.
package convo
