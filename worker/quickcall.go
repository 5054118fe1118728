package worker

import (
	"strconv"

	"parley"
)

// appendCall appends the line of a request as json.Marshal would write it, where
// it has nothing but numbers and plain texts, as nearly all have: a quarter of what
// any JSON costs. Whatever is different is left to the other way.
func appendCall(to []byte, c *call) ([]byte, bool) {
	r := &c.Request
	if r.Turns != nil || r.Grammar != nil || r.Sampling.LogitBias != nil || r.Stop.Strings != nil || r.Resume != nil ||
		!r.Deadline.IsZero() {
		return to, false
	}
	o := quickObject{to: append(to, '{')}
	o.text("ID", r.ID)
	o.text("Model", r.Model)
	o.tokens("Prompt", r.Prompt)
	o.number("Choices", int64(r.Choices))
	o.number("MaxTokens", int64(r.MaxTokens))
	o.sampling(&r.Sampling)
	if r.Stop.Tokens != nil || r.Stop.IgnoreEnd {
		o.object("Stop", func() {
			o.tokens("Tokens", r.Stop.Tokens)
			o.flag("IgnoreEnd", r.Stop.IgnoreEnd)
		})
	}
	o.flag("Logprobs", r.Logprobs)
	o.number("TopLogprobs", int64(r.TopLogprobs))
	o.flag("PromptLogprobs", r.PromptLogprobs)
	o.flag("Progress", r.Progress)
	o.flag("Embed", r.Embed)
	o.number("Class", int64(r.Class))
	o.text("Tenant", r.Tenant)
	o.text("Purpose", string(r.Purpose))
	if r.Objective != (parley.SLO{}) {
		o.object("Objective", func() {
			o.number("TTFT", int64(r.Objective.TTFT))
			o.number("CachedTTFT", int64(r.Objective.CachedTTFT))
			o.number("TPOT", int64(r.Objective.TPOT))
		})
	}
	o.number("Waited", int64(r.Waited))
	o.flag("Background", r.Background)
	if r.Salt != (parley.Salt{}) {
		o.bytes("Salt", r.Salt[:])
	}
	o.number("PublicTokens", int64(r.PublicTokens))
	o.number("SinkTokens", int64(r.SinkTokens))
	o.number("Retain", int64(r.Retain))
	o.number("Left", int64(c.Left))
	o.key("Window")
	o.to = strconv.AppendInt(o.to, int64(c.Window), 10)
	o.text("Trace", c.Trace)
	return append(o.to, '}'), !o.bad
}

// quickObject writes the members of an object that are not zero. Once something
// cannot be written plainly it is bad and stays so.
type quickObject struct {
	to  []byte
	bad bool
}

func (o *quickObject) key(name string) {
	if o.to[len(o.to)-1] != '{' {
		o.to = append(o.to, ',')
	}
	o.to = append(append(append(o.to, '"'), name...), '"', ':')
}

func (o *quickObject) text(name, value string) {
	if value == "" {
		return
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			o.bad = true
			return
		}
	}
	o.key(name)
	o.to = append(append(append(o.to, '"'), value...), '"')
}

func (o *quickObject) number(name string, value int64) {
	if value != 0 {
		o.key(name)
		o.to = strconv.AppendInt(o.to, value, 10)
	}
}

// float leaves what has an exponent, or is not finite, to the other way.
func (o *quickObject) float(name string, value float32) {
	if value == 0 {
		return
	}
	if size := max(value, -value); !(size >= 1e-6 && size < 1e21) {
		o.bad = true
		return
	}
	o.key(name)
	o.to = strconv.AppendFloat(o.to, float64(value), 'f', -1, 32)
}

func (o *quickObject) flag(name string, value bool) {
	if value {
		o.key(name)
		o.to = append(o.to, "true"...)
	}
}

func (o *quickObject) object(name string, members func()) {
	o.key(name)
	o.to = append(o.to, '{')
	members()
	o.to = append(o.to, '}')
}

func (o *quickObject) tokens(name string, list []parley.Token) {
	if list == nil {
		return
	}
	o.key(name)
	o.to = append(o.to, '[')
	for i, id := range list {
		if i > 0 {
			o.to = append(o.to, ',')
		}
		o.to = strconv.AppendInt(o.to, int64(id), 10)
	}
	o.to = append(o.to, ']')
}

func (o *quickObject) bytes(name string, list []byte) {
	o.key(name)
	o.to = append(o.to, '[')
	for i, b := range list {
		if i > 0 {
			o.to = append(o.to, ',')
		}
		o.to = strconv.AppendUint(o.to, uint64(b), 10)
	}
	o.to = append(o.to, ']')
}

func (o *quickObject) sampling(s *parley.Sampling) {
	if s.Temperature == 0 && s.TopK == 0 && s.TopP == 0 && s.MinP == 0 && s.RepetitionPenalty == 0 &&
		s.PresencePenalty == 0 && s.FrequencyPenalty == 0 && s.Seed == 0 {
		return
	}
	o.object("Sampling", func() {
		o.float("Temperature", s.Temperature)
		o.number("TopK", int64(s.TopK))
		o.float("TopP", s.TopP)
		o.float("MinP", s.MinP)
		o.float("RepetitionPenalty", s.RepetitionPenalty)
		o.float("PresencePenalty", s.PresencePenalty)
		o.float("FrequencyPenalty", s.FrequencyPenalty)
		if s.Seed != 0 {
			o.key("Seed")
			o.to = strconv.AppendUint(o.to, s.Seed, 10)
		}
	})
}
