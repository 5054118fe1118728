// Package conversations answers the routes under /v1/conversations: what a user has
// stored, and may list, search, change, branch, export and import; and turns, in which a
// model answers.
//
//	conversations.go  conversations as their owner sees and changes them
//	items.go          the messages in them
//	transfer.go       export and import
//	say.go            a question is stored, answered, and the answer stored
//	turn.go           a turn while it is answered
//	recall.go         what the model is shown; summary.go: what does not fit, in fewer words
//	transcript.go     what an answer has said so far
//	outcome.go        what is stored of it, and how it ended
//	live.go           turns that continue without their client: followed, stopped
//	title.go          names for conversations, written by the model
package conversations
