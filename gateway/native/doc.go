// Package native answers the routes that vLLM and llama.cpp have beside OpenAI's API, in the
// shapes of the two. What needs a model is computed as on all other routes.
//
//	tokens.go  texts and conversations as tokens, and back; prompts as the template renders them
//	rerank.go  documents by how near they are to a query; score.go: how near texts are
//	infill.go  what belongs into a gap, as llama.cpp asks and answers
//	props.go   what is served: versions and properties
package native
