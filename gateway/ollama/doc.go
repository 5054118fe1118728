// Package ollama answers Ollama's API: it turns what its clients send into requests of a
// conversation or of plain text, has them computed as those of all other routes, and turns
// answers into the lines that the clients read.
//
//	api.go      the routes; all other files are pure
//	request.go  bodies of /api/chat, /api/generate and /api/embed
//	options.go  the object options: each name is honoured or refused
//	answer.go   the lines of an answer, whole or streamed
//	models.go   lists of models, and lines that report a download
//
// Names that OpenAI's API has otherwise are replaced in errors; see [Rename].
package ollama
