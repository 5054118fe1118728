package load

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/sim/traffic"
)

// A Form is a way to send prompts.
type Form string

const (
	// Chat sends messages of plain words to /chat/completions. Any server takes
	// them. How many tokens a prompt has is then near what was wanted, but not
	// exactly that: the template adds some, and not every word is one token.
	Chat Form = "chat"
	// Text sends plain words to /completions.
	Text Form = "text"
	// IDs sends token ids to /completions: prompts of exactly the length wanted.
	// Not every server takes them.
	IDs Form = "ids"
)

// Forms lists the forms that there are.
func Forms() []Form { return []Form{Chat, Text, IDs} }

func (f Form) check() error {
	if !slices.Contains(Forms(), f) {
		return fmt.Errorf("form %q: expected one of %q", f, Forms())
	}
	return nil
}

func (f Form) path() string {
	if f == Chat {
		return "/chat/completions"
	}
	return "/completions"
}

// A Target is a server to measure, and how to speak to it.
type Target struct {
	// URL is where its API begins, such as http://127.0.0.1:8080/v1. The /v1 is
	// added where there is no path at all.
	URL string
	// Model is the name of the model to ask.
	Model string
	// Key is sent as bearer token, if there is one.
	Key string
	// Send says in which form prompts are sent.
	Send Form
	// IgnoreEnd asks the server to continue past the model's own end of text, so
	// that answers have the length wanted. Most servers know the word; one that
	// does not may refuse it.
	IgnoreEnd bool
	// Content makes the prompts.
	Content traffic.Content
	// Timeout bounds each request; 0 means five minutes.
	Timeout time.Duration
	// AllowRemote permits servers other than this machine. A load test can take
	// a server down, so that must be meant.
	AllowRemote bool
	// HTTP, if it is not nil, carries the requests; the check for this machine
	// is then the caller's.
	HTTP *http.Client
}

// A message is one of a chat request.
type message struct {
	Role    traffic.Role `json:"role"`
	Content string       `json:"content"`
}

// call is the body of a request.
type call struct {
	Model         string    `json:"model,omitempty"`
	Messages      []message `json:"messages,omitempty"`
	Prompt        any       `json:"prompt,omitempty"`
	MaxTokens     int       `json:"max_tokens"`
	Temperature   float64   `json:"temperature"`
	IgnoreEnd     bool      `json:"ignore_eos,omitempty"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// body writes r as JSON in the target's form. Earlier answers of its conversation that
// are known stand in it as the server gave them.
func (t *Target) body(r *traffic.Request, known map[uint64]string) ([]byte, error) {
	out := call{Model: t.Model, MaxTokens: r.OutputTokens, IgnoreEnd: t.IgnoreEnd, Stream: true}
	out.StreamOptions.IncludeUsage = true
	switch t.Send {
	case Chat:
		out.Messages = t.messages(r, known)
	case Text:
		out.Prompt = t.text(r, known)
	case IDs:
		out.Prompt = t.Content.Tokens(r.Prompt)
	}
	return json.Marshal(out)
}

// messages makes a message of each run of parts by the same speaker.
func (t *Target) messages(r *traffic.Request, known map[uint64]string) (out []message) {
	for i := 0; i < len(r.Prompt); {
		var text strings.Builder
		role := r.Prompt[i].Role
		for ; i < len(r.Prompt) && r.Prompt[i].Role == role; i++ {
			t.writePart(&text, r.Prompt[i], known)
		}
		out = append(out, message{role, text.String()})
	}
	return out
}

func (t *Target) text(r *traffic.Request, known map[uint64]string) string {
	var text strings.Builder
	for _, p := range r.Prompt {
		t.writePart(&text, p, known)
	}
	return text.String()
}

// writePart writes the words of a part, or for an earlier answer the server's
// own.
func (t *Target) writePart(text *strings.Builder, p traffic.Part, known map[uint64]string) {
	if own, ok := known[p.Key]; ok && p.Role == traffic.Assistant {
		text.WriteString(own)
		return
	}
	t.Content.WriteWords(text, p)
}

// answers remembers what the server said in open conversations, so that
// later turns repeat its own words and find them in its cache. Where an answer
// has not come by the time of the next turn, as in an open loop it may not,
// made-up words stand in for it.
type answers struct {
	mu sync.Mutex
	// of maps conversations to answers by key.
	of map[uint64]map[uint64]string
}

func (a *answers) remember(r *traffic.Request, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[uint64]map[uint64]string{}
	}
	if a.of[r.Conversation] == nil {
		a.of[r.Conversation] = map[uint64]string{}
	}
	a.of[r.Conversation][r.Answer] = text
}

// recall returns the answers known in r's conversation, and forgets them if r
// is its last turn.
func (a *answers) recall(r *traffic.Request) map[uint64]string {
	if r.Conversation == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.of[r.Conversation]
	if r.TurnsLeft == 0 {
		delete(a.of, r.Conversation)
		return known
	}
	return maps.Clone(known)
}

// A Fitting leaves out the requests that are too long for a model's context,
// and counts them. It may be used by many goroutines.
type Fitting struct {
	Form Form
	// ContextTokens bounds prompt and answer together; 0 means no bound.
	ContextTokens int
	leftOut       atomic.Int64
}

// misfitsMax is how many requests in a row may be left out before the rest is
// given up: a generator without end may never make one that fits.
const misfitsMax = 100_000

// Only returns the requests that fit.
func (f *Fitting) Only(requests iter.Seq[traffic.Request]) iter.Seq[traffic.Request] {
	return func(yield func(traffic.Request) bool) {
		misfits := 0
		for r := range requests {
			if f.ContextTokens > 0 && f.promptTokensMost(&r)+r.OutputTokens > f.ContextTokens {
				f.leftOut.Add(1)
				if misfits++; misfits == misfitsMax {
					return
				}
				continue
			}
			misfits = 0
			if !yield(r) {
				return
			}
		}
	}
}

// LeftOut returns how many requests did not fit.
func (f *Fitting) LeftOut() int { return int(f.leftOut.Load()) }

// promptTokensMost is how many tokens the prompt of r may have: exactly known
// for ids, and otherwise with room for the template and for words of several
// tokens.
func (f *Fitting) promptTokensMost(r *traffic.Request) int {
	n := r.PromptTokens()
	if f.Form == IDs {
		return n
	}
	return n + n/8 + 64
}
