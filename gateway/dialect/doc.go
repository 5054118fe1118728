// Package dialect knows how models write calls of tools: each family was trained on a syntax of its own.
//
// One table ([Table]) has a row for each dialect, and everything is made from that row: the reader that separates calls
// from text while an answer is streamed, the grammar that holds an answer to valid calls, and the text of earlier
// calls for templates that do not write them. Which row a model uses is found by having its chat template write a
// call ([Open]); the template itself describes the tools wherever it can.
//
//	table.go     the dialects
//	dialect.go   what a row says, and the steps it is read by
//	reader.go    separates thoughts, text and calls, byte by byte
//	calls.go     the reader inside a call
//	scan.go      ends of objects and marks are found
//	values.go    arguments that are not JSON become JSON
//	nested.go    arguments whose members are elements inside elements
//	schema.go    what the schema of a tool says of a member
//	write.go     the grammar of calls, and calls as text
//	template.go  which dialect a chat template writes, and in which shape it wants messages
//	messages.go  the conversation in that shape
package dialect
