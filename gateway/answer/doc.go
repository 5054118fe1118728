// Package answer turns what workers deliver into what clients see, and says how models
// are told of tools and held to formats.
//
// An [Answer] takes the steps of an [infer.Generation] and returns pieces: thoughts,
// text and tool calls of each choice, with their log-probabilities, and at last the
// usage. On their way, in this order:
//
//	text.go           tokens become exact text, held back while it may become a stop string
//	gateway/dialect   separates thoughts and tool calls from text, byte by byte
//	screen_output.go  the safety policy holds back, redacts or halts what was written
//	piece.go          what was added to a choice
//	answer.go         pieces of all choices, joined where they already wait
//
// The other direction, before anything is generated:
//
//	tools.go          the conversation and its tools as the template takes them
//	constrain.go      the grammar that an answer must follow
//
// The package knows no HTTP. It reports to its caller through the
// functions in [Options].
package answer
