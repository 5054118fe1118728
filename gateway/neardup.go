package gateway

import (
	"crypto/sha256"
	"math"
	"regexp"
	"slices"
	"time"

	"parley"
	"parley/gateway/openai"
)

// Bounds of what is remembered of questions and their answers.
const (
	// nearKept is how many questions are known at once, with or without an
	// answer, and nearTokens how many tokens their answers have together.
	nearKept   = 256
	nearTokens = 1 << 20
	// nearFor is how long an answer serves questions that come after it.
	nearFor = time.Minute
	// nearQuestionTokens bounds a question that is compared: what is longer says
	// too much for one vector.
	nearQuestionTokens = 512
)

// A nearQuestion is the last thing a user said, as it is compared with others.
type nearQuestion struct {
	// rest is the digest of all else: whose it is, the model, what was said
	// before, the tools and how the answer is to be made. Only questions with the
	// same rest are compared, so that a long prompt that they share does not make
	// everything look alike.
	rest [sha256.Size]byte
	// numbers are those in the text, which vectors hardly tell apart: questions
	// with other numbers are other questions.
	numbers []string
	// vector has the length 1.
	vector []float32
}

var number = regexp.MustCompile(`[0-9]+(?:[.,][0-9]+)*`)

func numbersIn(text string) []string { return number.FindAllString(text, -1) }

// nearRest digests what a chat has beside its last message. Job is what the
// worker would be asked; the seed counts only if the client chose it.
func nearRest(tenant string, request *openai.ChatRequest, job *parley.Request) ([sha256.Size]byte, error) {
	how := *job
	how.ID, how.Prompt, how.Turns, how.Retain, how.Deadline = "", nil, nil, 0, time.Time{}
	if !request.Seeded {
		how.Sampling.Seed = 0
	}
	last := request.Messages[len(request.Messages)-1]
	last.Content = ""
	text, err := openai.Encode([]any{tenant, request.Messages[:len(request.Messages)-1], last, request.Tools, request.ToolChoice, request.TemplateArgs, how})
	return sha256.Sum256(text), err
}

// A nearEntry is a question that is being answered, or was not long ago.
type nearEntry struct {
	nearQuestion
	// deltas are the answer, in so many tokens, which serves until then.
	answered bool
	deltas   []parley.Delta
	tokens   int
	until    time.Time
	// over is closed by whoever leads, when the entry is answered or given up.
	over chan struct{}
}

// A nearSet decides which question is so near to another that it takes the
// other's answer. It only decides: the caller locks it, brings the time and
// waits.
type nearSet struct {
	// least is the similarity from which on questions are taken for the same.
	least   float64
	entries []*nearEntry
	tokens  int
}

// find returns the entry whose answer q takes and how similar they are: the most
// similar one. Nil means that q leads: it is the first of its kind, and is
// known under the entry that lead returns.
func (s *nearSet) find(q *nearQuestion, now time.Time) (found *nearEntry, similarity float64) {
	s.forget(now)
	for _, e := range s.entries {
		if e.rest != q.rest || len(e.vector) != len(q.vector) || !slices.Equal(e.numbers, q.numbers) {
			continue
		}
		if near := dot(e.vector, q.vector); near >= s.least && near > similarity {
			found, similarity = e, near
		}
	}
	return found, similarity
}

// lead makes q known as under way. The oldest answers make room; if none has
// come yet, q is answered for itself and lead returns nil.
func (s *nearSet) lead(q *nearQuestion) *nearEntry {
	if len(s.entries) >= nearKept && !s.dropOldest() {
		return nil
	}
	e := &nearEntry{nearQuestion: *q, over: make(chan struct{})}
	s.entries = append(s.entries, e)
	return e
}

// keep holds the answer to e, in so many tokens, for those who come until
// some time after now. It reports false if the answer is too long to be kept.
func (s *nearSet) keep(e *nearEntry, deltas []parley.Delta, tokens int, now time.Time) bool {
	if tokens > nearTokens/4 {
		return false
	}
	for s.tokens+tokens > nearTokens && s.dropOldest() {
	}
	e.answered, e.deltas, e.tokens, e.until = true, deltas, tokens, now.Add(nearFor)
	s.tokens += tokens
	return true
}

// drop forgets e.
func (s *nearSet) drop(e *nearEntry) {
	if i := slices.Index(s.entries, e); i >= 0 {
		s.entries = slices.Delete(s.entries, i, i+1)
		s.tokens -= e.tokens
	}
}

// forget drops the answers whose time is over.
func (s *nearSet) forget(now time.Time) {
	s.entries = slices.DeleteFunc(s.entries, func(e *nearEntry) bool {
		old := e.answered && now.After(e.until)
		if old {
			s.tokens -= e.tokens
		}
		return old
	})
}

// dropOldest forgets the oldest answer, if there is one. Entries are in the
// order in which they came.
func (s *nearSet) dropOldest() bool {
	i := slices.IndexFunc(s.entries, func(e *nearEntry) bool { return e.answered })
	if i < 0 {
		return false
	}
	s.drop(s.entries[i])
	return true
}

// unit returns v with the length 1, or false if it has none.
func unit(v []float32) ([]float32, bool) {
	length := math.Sqrt(dot(v, v))
	if length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return nil, false
	}
	u := make([]float32, len(v))
	for i := range v {
		u[i] = float32(float64(v[i]) / length)
	}
	return u, true
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
