package foreign

import (
	"errors"
	"io"
	"iter"

	"parley"
)

// A Dialect is how one kind of foreign engine is asked and what it answers.
type Dialect struct {
	// Path is where requests go, and Body what they are.
	Path string
	Body func(e *Engine, q *parley.Request) (any, error)
	// Messages cuts an answer into messages, and read understands one of them.
	Messages func(io.Reader) iter.Seq2[[]byte, error]
	read     func(a *Assembly, message []byte) error
}

// The dialects.
var (
	VLLM       = Dialect{"/v1/completions", completionsBody, events, readCompletion}
	OpenAI     = Dialect{"/v1/completions", textCompletionsBody, events, readCompletion}
	OpenAIChat = Dialect{"/v1/chat/completions", chatBody, events, readChat}
	SGLang     = Dialect{"/generate", sglangBody, events, readSGLang}
	LlamaCpp   = Dialect{"/completion", llamaBody, openEvents, readLlama}
	Ollama     = Dialect{"/api/generate", ollamaBody, objects, readOllama}
	Anthropic  = Dialect{"/v1/messages", messagesBody, openEvents, readMessage}
)

// Read adds one message to an answer.
func (d *Dialect) Read(a *Assembly, message []byte) error { return d.read(a, message) }

// openEvents yields the events of a stream that does not say [DONE].
func openEvents(from io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for data, err := range events(from) {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return
			}
			if !yield(data, err) {
				return
			}
		}
	}
}
