package traffic

import (
	"iter"
	"time"
)

// A Role says who speaks a part of a prompt.
type Role string

// The roles, as chat requests spell them.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// A Part is a piece of a prompt: Tokens tokens of the content that Key names.
// A shorter part of the same key is a prefix of a longer one.
type Part struct {
	Role   Role
	Key    uint64
	Tokens int
}

// A Request is one call of a workload.
type Request struct {
	// At is the intended start, counted from the start of the run. A closed
	// loop has no use for it.
	At time.Duration
	// Prompt is never empty and has at least one token.
	Prompt []Part
	// OutputTokens is the length of the answer; at least 1.
	OutputTokens int
	// Conversation names the conversation of which this is turn number Turn,
	// counted from 1, with TurnsLeft to follow. It is 0 for a request that
	// stands alone.
	Conversation    uint64
	Turn, TurnsLeft int
	// Answer is the key of the part that repeats this request's answer in later
	// turns, 0 if there are none. A client that knows the real answer may put it there.
	Answer uint64
}

// PromptTokens returns the length of the prompt.
func (r *Request) PromptTokens() (n int) {
	for _, p := range r.Prompt {
		n += p.Tokens
	}
	return n
}

// Stamp gives the requests arrival times: the first at 0, each later one after
// the gap that next returns.
func Stamp(requests iter.Seq[Request], next func() time.Duration) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		var at time.Duration
		for r := range requests {
			r.At = at
			if !yield(r) {
				return
			}
			at += next()
		}
	}
}

// Take returns the first n requests.
func Take(requests iter.Seq[Request], n int) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		left := n
		if left <= 0 {
			return
		}
		for r := range requests {
			if left--; !yield(r) || left == 0 {
				return
			}
		}
	}
}

// Deal gives hand number i of n its requests: the i-th and every n-th after
// it, as cards are dealt. A trace is shared among the users of a closed loop
// in this way.
func Deal(requests iter.Seq[Request], i, n int) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		at := 0
		for r := range requests {
			if at%n == i && !yield(r) {
				return
			}
			at++
		}
	}
}
