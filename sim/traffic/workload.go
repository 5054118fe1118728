package traffic

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
)

// A Kind is a family of workloads.
type Kind string

const (
	// Independent requests have nothing in common.
	Independent Kind = "independent"
	// SharedPrefix has groups of users: all of a group begin with the same system
	// prompt, each user continues with a history of their own, and every request
	// ends with a new question.
	SharedPrefix Kind = "shared-prefix"
	// Conversation has turns: each repeats the turns and answers before it.
	Conversation Kind = "conversation"
)

// Kinds lists the kinds that there are.
func Kinds() []Kind { return []Kind{Independent, SharedPrefix, Conversation} }

// A Workload makes requests without end. Prompt is the part of each request
// that is new: the whole prompt, the question, or the user's words in a turn.
type Workload struct {
	Kind Kind
	Seed uint64
	// Prompt and Output are the lengths of what is new in each request and of
	// its answer.
	Prompt, Output Length
	// SharedTokens is the length of the system prompt that a group shares; in
	// conversations all share one. 0 means none, except for shared prefixes.
	SharedTokens int
	// HistoryTokens is the length of each user's own history; 0 means none.
	HistoryTokens int
	// Groups and GroupUsers count the groups and the users in each. For shared
	// prefixes; of conversations each belongs to one of Groups, which have a
	// system prompt each, 0 means one.
	Groups, GroupUsers int
	// Turns is the length of a conversation, and Open how many conversations are
	// open at once in each stream. For conversations only.
	Turns Length
	Open  int
}

// The bounds of a [Workload].
const (
	groupsMax = 1 << 20
	openMax   = 1 << 16
	turnsMax  = 1000
)

// Validate reports everything that is wrong with the numbers.
func (w *Workload) Validate() error {
	problems := []error{w.Prompt.Validate(), w.Output.Validate(),
		within("shared tokens", w.SharedTokens, 0, LengthMax), within("history tokens", w.HistoryTokens, 0, LengthMax)}
	switch w.Kind {
	case Independent:
	case SharedPrefix:
		problems = append(problems, within("shared tokens", w.SharedTokens, 1, LengthMax),
			within("groups", w.Groups, 1, groupsMax), within("users in a group", w.GroupUsers, 1, groupsMax))
	case Conversation:
		problems = append(problems, w.Turns.Validate(), within("turns", w.Turns.Most, 1, turnsMax),
			within("open conversations", w.Open, 1, openMax), within("groups", w.Groups, 0, groupsMax))
	default:
		problems = append(problems, fmt.Errorf("workload %q: expected one of %q", w.Kind, Kinds()))
	}
	return errors.Join(problems...)
}

func within(what string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%d %s: expected %d to %d", n, what, least, most)
	}
	return nil
}

// Stream returns the requests of stream number i of n. Streams of one workload
// share system prompts and users, but no question is ever asked twice. An open
// loop has one stream; a closed loop has one for each user. The workload must
// be valid.
func (w *Workload) Stream(i, n int) iter.Seq[Request] {
	s := &requestStream{Workload: w, rng: newRand(w.Seed, streamWorkload+uint64(i)), fresh: uint64(i),
		stride: uint64(n)}
	switch w.Kind {
	case SharedPrefix:
		return s.endless(s.sharedPrefix)
	case Conversation:
		s.talks = make([]talk, w.Open)
		return s.endless(s.nextTurn)
	}
	return s.endless(s.independent)
}

// A requestStream is the state of one stream of requests.
type requestStream struct {
	*Workload
	rng *rand.Rand
	// fresh counts what is new in steps of stride, so that no two streams of a
	// workload ever use the same number.
	fresh, stride uint64
	talks         []talk
}

// A talk is a conversation under way. The zero value is one that is over.
type talk struct {
	name        uint64
	turn, turns int
	earlier     []Part
}

func (s *requestStream) endless(next func() Request) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for yield(next()) {
		}
	}
}

// What a key stands for is in its lowest bits, so that a group, a user and a
// question of the same number have nothing in common.
const (
	keyFresh uint64 = iota
	keyGroup
	keyUser
	keyAnswer
	keyBits = 2
)

func key(of, number uint64) uint64 { return number<<keyBits | of }

func (s *requestStream) number() uint64 {
	n := s.fresh
	s.fresh += s.stride
	return n
}

func (s *requestStream) question() Part {
	return Part{Role: User, Key: key(keyFresh, s.number()), Tokens: s.Prompt.Draw(s.rng)}
}

func (s *requestStream) independent() Request {
	return Request{Prompt: []Part{s.question()}, OutputTokens: s.Output.Draw(s.rng)}
}

func (s *requestStream) sharedPrefix() Request {
	group := s.rng.IntN(s.Groups)
	user := group*s.GroupUsers + s.rng.IntN(s.GroupUsers)
	prompt := []Part{{Role: System, Key: key(keyGroup, uint64(group)), Tokens: s.SharedTokens}}
	if s.HistoryTokens > 0 {
		prompt = append(prompt, Part{Role: User, Key: key(keyUser, uint64(user)), Tokens: s.HistoryTokens})
	}
	return Request{Prompt: append(prompt, s.question()), OutputTokens: s.Output.Draw(s.rng)}
}

// group draws the group of a conversation.
func (s *requestStream) group() uint64 {
	if s.Groups < 2 {
		return 0
	}
	return uint64(s.rng.IntN(s.Groups))
}

// nextTurn continues one of the open conversations, or begins a new one in
// place of one that is over.
func (s *requestStream) nextTurn() Request {
	t := &s.talks[s.rng.IntN(len(s.talks))]
	if t.turn == t.turns {
		*t = talk{name: s.number() + 1, turns: s.Turns.Draw(s.rng)}
		if s.SharedTokens > 0 {
			t.earlier = []Part{{Role: System, Key: key(keyGroup, s.group()), Tokens: s.SharedTokens}}
		}
	}
	t.turn++
	prompt := append(slices.Clone(t.earlier), s.question())
	answer := Part{Role: Assistant, Key: key(keyAnswer, s.number()), Tokens: s.Output.Draw(s.rng)}
	t.earlier = append(slices.Clone(prompt), answer)
	return Request{
		Prompt:       prompt,
		OutputTokens: answer.Tokens,
		Answer:       answer.Key,
		Conversation: t.name,
		Turn:         t.turn,
		TurnsLeft:    t.turns - t.turn,
	}
}
