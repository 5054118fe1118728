package worker

import (
	"time"

	"parley"
)

// quickDelta reads the line of a delta as this program writes it, where it has
// nothing but tokens, an end, plain usage and a stay: every answer begins and ends
// with one, and reading it as any JSON costs ten times as much. Whatever is different is left to
// the other way.
func quickDelta(line []byte) (*parley.Delta, bool) {
	s := &quick{rest: line}
	d := &parley.Delta{}
	s.take(`{"delta":`)
	s.object(func(key string) {
		switch key {
		case "choice":
			d.Choice = int(s.number())
		case "tokens":
			d.Tokens = s.tokens()
		case "finish":
			d.Finish = parley.Finish(s.text())
		case "usage":
			d.Usage = s.usage()
		case "stay":
			d.Stay = s.stay()
		default:
			s.bad = true
		}
	})
	s.take("}")
	return d, !s.bad && len(s.rest) == 0
}

// quick reads a text from its beginning. Once something is not as it should be, it
// is bad and stays so.
type quick struct {
	rest []byte
	bad  bool
}

func (s *quick) take(text string) {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		s.bad = true
		return
	}
	s.rest = s.rest[len(text):]
}

// next reports whether a byte comes next.
func (s *quick) next(b byte) bool { return !s.bad && len(s.rest) > 0 && s.rest[0] == b }

// object reads the members of an object, of which each may be there once.
func (s *quick) object(member func(key string)) {
	var keys [16]string
	s.take("{")
	for n := 0; !s.bad && !s.next('}'); n++ {
		if n > 0 {
			s.take(",")
		}
		key := s.text()
		s.take(":")
		for _, before := range keys[:min(n, len(keys))] {
			s.bad = s.bad || before == key
		}
		if s.bad = s.bad || n == len(keys); s.bad {
			return
		}
		keys[n] = key
		member(key)
	}
	s.take("}")
}

// text reads a text in which nothing is escaped.
func (s *quick) text() string {
	s.take(`"`)
	for i, c := range s.rest {
		if s.bad || c < ' ' || c > '~' || c == '\\' {
			break
		}
		if c == '"' {
			text := string(s.rest[:i])
			s.rest = s.rest[i+1:]
			return text
		}
	}
	s.bad = true
	return ""
}

// number reads a whole number that is not negative.
func (s *quick) number() (n int64) {
	digits := 0
	for ; digits < len(s.rest) && s.rest[digits] >= '0' && s.rest[digits] <= '9'; digits++ {
		if digits == 18 || digits == 1 && n == 0 {
			s.bad = true
			return 0
		}
		n = 10*n + int64(s.rest[digits]-'0')
	}
	s.bad = s.bad || digits == 0
	s.rest = s.rest[digits:]
	return n
}

func (s *quick) tokens() (tokens []parley.Token) {
	s.take("[")
	for n := 0; !s.bad && !s.next(']'); n++ {
		if n > 0 {
			s.take(",")
		}
		id := s.number()
		s.bad = s.bad || id > 1<<31-1
		tokens = append(tokens, parley.Token(id))
	}
	s.take("]")
	s.bad = s.bad || len(tokens) == 0
	return tokens
}

func (s *quick) usage() *parley.Usage {
	u := &parley.Usage{}
	s.object(func(key string) {
		switch key {
		case "PromptTokens":
			u.PromptTokens = int(s.number())
		case "CachedTokens":
			u.CachedTokens = int(s.number())
		case "OutputTokens":
			u.OutputTokens = int(s.number())
		case "DroppedTokens":
			u.DroppedTokens = int(s.number())
		case "Miss":
			u.Miss = s.text()
		case "Queued":
			u.Queued = time.Duration(s.number())
		case "Prefill":
			u.Prefill = time.Duration(s.number())
		case "Decode":
			u.Decode = time.Duration(s.number())
		case "SeatWait":
			u.SeatWait = time.Duration(s.number())
		case "MemoryWait":
			u.MemoryWait = time.Duration(s.number())
		case "Preemptions":
			u.Preemptions = int(s.number())
		case "Preempted":
			u.Preempted = time.Duration(s.number())
		default:
			s.bad = true
		}
	})
	return u
}

func (s *quick) stay() *parley.Stay {
	stay := &parley.Stay{}
	s.object(func(key string) {
		switch key {
		case "Admitted":
			stay.Admitted = time.Duration(s.number())
		case "First":
			stay.First = time.Duration(s.number())
		case "Whole":
			stay.Whole = time.Duration(s.number())
		case "Paused":
			stay.Paused = time.Duration(s.number())
		case "Traced":
			s.take("true")
			stay.Traced = true
		default:
			s.bad = true
		}
	})
	return stay
}
