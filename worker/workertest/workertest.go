// Package workertest says what every [parley.Worker] must do, as a test that any
// of them can be put to: the engine in this process, one in another, or a foreign
// one, each as far as it promises.
package workertest

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
)

// A Subject is a worker under test, and what is known of it.
type Subject struct {
	Worker parley.Worker
	// Model is the name that requests use.
	Model string
	// Prompt is one that the model continues for at least 24 tokens, Vocab the
	// number of its tokens and Context that of its context.
	Prompt         []parley.Token
	Vocab, Context int
	// Text returns the text of tokens.
	Text func([]parley.Token) string
	// Reference is a worker whose answers must be the same, token for token; nil
	// for none.
	Reference parley.Worker
	// What the worker does not promise is not asked of it.
	NoLogprobs, NoChoices, NoRegex, NoResume, NoStopTokens bool
	// Running returns how many requests the worker computes; nil if that is not known.
	Running func(t *testing.T) int
}

// A Choice is one choice of an answer.
type Choice struct {
	Tokens   []parley.Token
	Text     string
	Logprobs []parley.Logprob
	Finish   parley.Finish
}

// Ask has a worker answer and checks the form of the answer: every choice ends
// once, nothing follows its end, and the last delta has the usage.
func Ask(t *testing.T, w parley.Worker, q *parley.Request) ([]Choice, *parley.Usage) {
	t.Helper()
	said := make([]Choice, max(1, q.Choices))
	var usage *parley.Usage
	for d, err := range w.Generate(t.Context(), q) {
		if err != nil {
			t.Fatalf("the answer failed: %v", err)
		}
		if usage != nil {
			t.Fatal("a delta came after the usage")
		}
		if d.Choice < 0 || d.Choice >= len(said) || said[d.Choice].Finish != "" {
			t.Fatalf("a delta of choice %d, which was not asked for or has ended", d.Choice)
		}
		s := &said[d.Choice]
		s.Tokens, s.Logprobs = append(s.Tokens, d.Tokens...), append(s.Logprobs, d.Logprobs...)
		s.Text += d.Text
		s.Finish, usage = d.Finish, d.Usage
	}
	if usage == nil {
		t.Fatal("the answer ended without usage")
	}
	for i, s := range said {
		if s.Finish == "" {
			t.Errorf("choice %d has no end", i)
		}
	}
	return said, usage
}

// failure returns the code of the error that a request ends with.
func failure(ctx context.Context, w parley.Worker, q *parley.Request) parley.Code {
	for _, err := range w.Generate(ctx, q) {
		if err != nil {
			return parley.CodeOf(err)
		}
	}
	return ""
}

func (s *Subject) request(tokens int) *parley.Request {
	return &parley.Request{ID: "conform", Model: s.Model, Prompt: s.Prompt, MaxTokens: tokens}
}

// Conform puts a worker to the test.
func Conform(t *testing.T, s *Subject) {
	t.Run("greedy", s.greedy)
	t.Run("choices", s.choices)
	t.Run("stop strings", s.stopStrings)
	t.Run("stop tokens", s.stopTokens)
	t.Run("logprobs", s.logprobs)
	t.Run("grammar", s.grammar)
	t.Run("resume", s.resume)
	t.Run("errors", s.errors)
	t.Run("cancel", s.cancel)
}

func (s *Subject) greedy(t *testing.T) {
	first, usage := Ask(t, s.Worker, s.request(24))
	if len(first[0].Tokens) != 24 || first[0].Finish != parley.FinishLength {
		t.Fatalf("%d tokens, finish %q: want 24, length", len(first[0].Tokens), first[0].Finish)
	}
	if usage.PromptTokens != len(s.Prompt) || usage.OutputTokens != 24 {
		t.Errorf("usage %+v, want %d and 24 tokens", usage, len(s.Prompt))
	}
	again, usage := Ask(t, s.Worker, s.request(24))
	if !slices.Equal(first[0].Tokens, again[0].Tokens) {
		t.Errorf("the same greedy request gave\n%v and\n%v", first[0].Tokens, again[0].Tokens)
	}
	if usage.CachedTokens == 0 && len(s.Prompt) > 32 {
		t.Errorf("nothing of a prompt of %d tokens was cached the second time", len(s.Prompt))
	}
	if s.Reference != nil {
		want, _ := Ask(t, s.Reference, s.request(24))
		if !slices.Equal(want[0].Tokens, first[0].Tokens) {
			t.Errorf("the answer is\n%v, the reference's\n%v", first[0].Tokens, want[0].Tokens)
		}
	}
}

func (s *Subject) choices(t *testing.T) {
	if s.NoChoices {
		t.Skip("it does not promise several choices")
	}
	q := s.request(12)
	q.Choices, q.Sampling, q.Stop.IgnoreEnd = 3, parley.Sampling{Temperature: 1, Seed: 7}, true
	got, usage := Ask(t, s.Worker, q)
	for i, c := range got {
		if len(c.Tokens) != 12 {
			t.Errorf("choice %d has %d tokens, want 12", i, len(c.Tokens))
		}
	}
	if usage.PromptTokens != len(s.Prompt) || usage.OutputTokens != 36 {
		t.Errorf("usage %+v, want the prompt's %d once and 36", usage, len(s.Prompt))
	}
	if slices.Equal(got[0].Tokens, got[1].Tokens) && slices.Equal(got[1].Tokens, got[2].Tokens) {
		t.Error("all choices are the same at temperature 1")
	}
	if s.Reference != nil {
		want, _ := Ask(t, s.Reference, q)
		for i := range want {
			if !slices.Equal(want[i].Tokens, got[i].Tokens) {
				t.Errorf("choice %d with a seed is\n%v, the reference's\n%v", i, got[i].Tokens, want[i].Tokens)
			}
		}
	}
}

func (s *Subject) stopStrings(t *testing.T) {
	whole, _ := Ask(t, s.Worker, s.request(24))
	text := s.Text(whole[0].Tokens)
	runes := []rune(text)
	if len(runes) < 40 {
		t.Skipf("%q is too short to stop in its middle", text)
	}
	q := s.request(24)
	q.Stop.Strings = []string{string(runes[21:32])} // over the ends of tokens
	got, _ := Ask(t, s.Worker, q)
	shown := s.Text(got[0].Tokens)
	if got[0].Finish != parley.FinishStop || !strings.Contains(shown, q.Stop.Strings[0]) ||
		strings.Index(shown, q.Stop.Strings[0]) != strings.Index(text, q.Stop.Strings[0]) {
		t.Errorf("stopped at %q the answer is %q, finish %s; whole it is %q", q.Stop.Strings[0], shown, got[0].Finish,
			text)
	}
	if len(got[0].Tokens) >= 24 {
		t.Error("it continued to the end")
	}
}

func (s *Subject) stopTokens(t *testing.T) {
	if s.NoStopTokens {
		t.Skip("it does not tell tokens")
	}
	whole, _ := Ask(t, s.Worker, s.request(24))
	q := s.request(24)
	q.Stop.Tokens = []parley.Token{whole[0].Tokens[5]}
	got, _ := Ask(t, s.Worker, q)
	at := slices.Index(whole[0].Tokens, q.Stop.Tokens[0])
	if !slices.Equal(got[0].Tokens, whole[0].Tokens[:at+1]) || got[0].Finish != parley.FinishStop {
		t.Errorf("stopped at token %d the answer is %v, finish %s, of %v", q.Stop.Tokens[0], got[0].Tokens,
			got[0].Finish, whole[0].Tokens)
	}
}

func (s *Subject) logprobs(t *testing.T) {
	if s.NoLogprobs {
		t.Skip("it does not promise log-probabilities")
	}
	q := s.request(8)
	q.Logprobs, q.TopLogprobs = true, 3
	got, _ := Ask(t, s.Worker, q)
	c := got[0]
	if len(c.Logprobs) != len(c.Tokens) {
		t.Fatalf("%d log-probabilities of %d tokens", len(c.Logprobs), len(c.Tokens))
	}
	for i, l := range c.Logprobs {
		if l.Token != c.Tokens[i] || l.Logprob > 0 || len(l.Top) != 3 {
			t.Errorf("token %d is %d: %+v", i, c.Tokens[i], l)
			continue
		}
		if l.Top[0].Token != l.Token || l.Top[0].Logprob != l.Logprob || l.Top[0].Logprob < l.Top[1].Logprob ||
			l.Top[1].Logprob < l.Top[2].Logprob {
			t.Errorf("token %d was chosen greedily, but the best are %+v", i, l)
		}
	}
}

func (s *Subject) grammar(t *testing.T) {
	if s.NoRegex {
		t.Skip("it does not promise to hold answers to expressions")
	}
	q := s.request(40)
	g := parley.Regex("[0-9]{3}-[ab]+!")
	q.Grammar = &g
	got, _ := Ask(t, s.Worker, q)
	if text := s.Text(got[0].Tokens); got[0].Finish == parley.FinishStop &&
		!regexp.MustCompile(`^[0-9]{3}-[ab]+!$`).MatchString(text) {
		t.Errorf("%q is not what %s allows", text, g.Text)
	}
}

func (s *Subject) resume(t *testing.T) {
	if s.NoResume {
		t.Skip("it does not promise to resume answers begun elsewhere")
	}
	whole, _ := Ask(t, s.Worker, s.request(24))
	for _, said := range []int{1, 7, 23} {
		q := s.request(24)
		q.Resume = []parley.Partial{{Tokens: whole[0].Tokens[:said]}}
		rest, usage := Ask(t, s.Worker, q)
		if !slices.Equal(rest[0].Tokens, whole[0].Tokens[said:]) || rest[0].Finish != whole[0].Finish ||
			usage.OutputTokens != 24-said || usage.PromptTokens != len(s.Prompt) {
			t.Errorf("after %d tokens it continued with\n%v, whole it is\n%v (usage %+v)", said, rest[0].Tokens,
				whole[0].Tokens, usage)
		}
	}
}

func (s *Subject) errors(t *testing.T) {
	empty := s.request(4)
	empty.Prompt = nil
	outside := s.request(4)
	outside.Prompt = append(slices.Clone(s.Prompt), parley.Token(s.Vocab+1000))
	long := s.request(4)
	long.Prompt = slices.Repeat(s.Prompt, s.Context/len(s.Prompt)+2)
	expired := s.request(4)
	expired.Deadline = time.Now().Add(-time.Second)
	for name, c := range map[string]struct {
		q    *parley.Request
		want parley.Code
	}{
		"an empty prompt":            {empty, parley.InvalidRequest},
		"a token that is not there":  {outside, parley.InvalidRequest},
		"a prompt that is too long":  {long, parley.ContextTooLong},
		"a deadline that has passed": {expired, parley.DeadlineExceeded},
	} {
		if got := failure(t.Context(), s.Worker, c.q); got != c.want {
			t.Errorf("%s is answered with %q, want %q", name, got, c.want)
		}
	}
	Ask(t, s.Worker, s.request(4)) // it still answers
}

// cancel leaves answers in every way, and expects the worker to let go of them.
func (s *Subject) cancel(t *testing.T) {
	for range 3 {
		q := s.request(s.Context - len(s.Prompt) - 1)
		q.Stop.IgnoreEnd = true
		for _, err := range s.Worker.Generate(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		var last error
		for _, err := range s.Worker.Generate(ctx, q) {
			last = err
			cancel()
		}
		cancel()
		if code := parley.CodeOf(last); code != parley.Cancelled {
			t.Errorf("a cancelled request ended with %v", last)
		}
	}
	if s.Running == nil {
		return
	}
	for began := time.Now(); s.Running(t) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%d requests still run whose clients left", s.Running(t))
		}
	}
}
