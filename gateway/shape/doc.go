// Package shape makes answers look as clients of the chat interface expect them: whole,
// and as the chunks of a stream.
package shape
