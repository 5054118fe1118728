package wire

import (
	"encoding/json"
	"time"

	"parley"
)

// A call is a request as it travels.
type call struct {
	parley.Request
	// Left is how long the request may take, as clocks of machines differ.
	Left time.Duration
	// Window is how many tokens the client takes before it has acknowledged any.
	Window int
	// Trace is what the request belongs to, as in a traceparent header.
	Trace string
}

// newCall returns the request as it travels.
func newCall(q *parley.Request, window int, now time.Time) *call {
	c := &call{Request: *q, Window: window}
	c.Turns = nil // an engine of ours looks at the prompt
	if !q.Deadline.IsZero() {
		c.Left = max(1, q.Deadline.Sub(now))
		c.Deadline = time.Time{}
	}
	return c
}

// request returns the request as it was sent.
func (c *call) request(now time.Time) *parley.Request {
	q := c.Request
	if c.Left != 0 {
		q.Deadline = now.Add(c.Left)
	}
	return &q
}

// A fieldCoder appends fields, or reads them if reading is set, so that one list of fields is
// both ends of the protocol.
type fieldCoder struct {
	reading bool
	encoder encoder
	decoder decoder
}

// fields visits what travels of a request, in the order in which it stands.
func (c *call) fields(f *fieldCoder) {
	f.text(&c.ID)
	f.text(&c.Model)
	f.tokens(&c.Prompt)
	f.integer(&c.Choices)
	f.integer(&c.MaxTokens)
	f.sampling(&c.Sampling)
	list(f, &c.Stop.Strings, f.text)
	f.tokens(&c.Stop.Tokens)
	f.flag(&c.Stop.IgnoreEnd)
	optional(f, &c.Grammar, f.grammar)
	f.flag(&c.FinishGrammar)
	f.flag(&c.Logprobs)
	f.integer(&c.TopLogprobs)
	f.flag(&c.PromptLogprobs)
	f.flag(&c.Progress)
	f.flag(&c.Embed)
	f.class(&c.Class)
	f.text(&c.Tenant)
	f.text((*string)(&c.Purpose))
	f.duration(&c.Objective.TTFT)
	f.duration(&c.Objective.CachedTTFT)
	f.duration(&c.Objective.TPOT)
	f.duration(&c.Waited)
	f.flag(&c.Background)
	f.bytes(c.Salt[:])
	f.integer(&c.PublicTokens)
	f.integer(&c.SinkTokens)
	f.duration(&c.Retain)
	optional(f, &c.Fetch, f.source)
	list(f, &c.Resume, f.partial)
	f.duration(&c.Left)
	f.integer(&c.Window)
	f.text(&c.Trace)
}

func (f *fieldCoder) sampling(s *parley.Sampling) {
	for _, number := range [...]*float32{&s.Temperature, &s.TopP, &s.MinP, &s.RepetitionPenalty, &s.PresencePenalty,
		&s.FrequencyPenalty} {
		f.float(number)
	}
	f.integer(&s.TopK)
	f.unsigned(&s.Seed)
	f.bias(&s.LogitBias)
}

func (f *fieldCoder) source(s *parley.BlockSource) {
	f.text(&s.Worker)
	f.text(&s.URL)
	f.text(&s.Ticket)
	f.integer(&s.Tokens)
	f.text(&s.Request)
	f.duration(&s.Within)
	f.flag(&s.Only)
}

func (f *fieldCoder) partial(p *parley.Partial) {
	f.tokens(&p.Tokens)
	f.flag(&p.Done)
}

// grammar sends a grammar, a tree that few requests have, as JSON.
func (f *fieldCoder) grammar(g *parley.Grammar) {
	var text string
	if !f.reading {
		written, err := json.Marshal(g)
		f.encoder.bad = f.encoder.bad || err != nil
		text = string(written)
	}
	if f.text(&text); f.reading && !f.decoder.bad && json.Unmarshal([]byte(text), g) != nil {
		f.decoder.fail()
	}
}

func (f *fieldCoder) text(s *string) {
	if f.reading {
		*s = f.decoder.text()
	} else {
		f.encoder.text(*s)
	}
}

func (f *fieldCoder) integer(n *int) {
	if f.reading {
		*n = f.decoder.integer()
	} else {
		f.encoder.number(int64(*n))
	}
}

func (f *fieldCoder) duration(t *time.Duration) {
	if f.reading {
		*t = f.decoder.duration()
	} else {
		f.encoder.number(int64(*t))
	}
}

func (f *fieldCoder) unsigned(n *uint64) {
	if f.reading {
		*n = f.decoder.uvarint()
	} else {
		f.encoder.uvarint(*n)
	}
}

func (f *fieldCoder) class(c *parley.Class) {
	n := uint64(*c)
	if f.unsigned(&n); n >= parley.Classes {
		f.decoder.fail()
		return
	}
	*c = parley.Class(n)
}

func (f *fieldCoder) flag(b *bool) {
	if f.reading {
		*b = f.decoder.flag()
	} else {
		f.encoder.flag(*b)
	}
}

// float sends a finite number.
func (f *fieldCoder) float(n *float32) {
	if f.reading {
		*n = f.decoder.float()
	} else {
		f.encoder.float(*n)
	}
	if *n-*n != 0 {
		f.encoder.bad = true
		f.decoder.fail()
	}
}

func (f *fieldCoder) tokens(tokens *[]parley.Token) {
	if f.reading {
		*tokens = f.decoder.tokens()
	} else {
		f.encoder.tokens(*tokens)
	}
}

// bytes sends an array of bytes as it is.
func (f *fieldCoder) bytes(array []byte) {
	switch {
	case !f.reading:
		f.encoder.to = append(f.encoder.to, array...)
	case len(f.decoder.rest) < len(array):
		f.decoder.fail()
	default:
		f.decoder.rest = f.decoder.rest[copy(array, f.decoder.rest):]
	}
}

func (f *fieldCoder) bias(of *map[parley.Token]float32) {
	if !f.reading {
		f.encoder.uvarint(uint64(len(*of)))
		for id, bias := range *of {
			f.encoder.uvarint(uint64(uint32(id)))
			f.float(&bias)
		}
		return
	}
	const tokenBytes, valueBytes = 1, 4
	n := f.decoder.count(tokenBytes + valueBytes)
	if n == 0 {
		return
	}
	*of = make(map[parley.Token]float32, n)
	for range n {
		id, bias := f.decoder.token(), float32(0)
		f.float(&bias)
		(*of)[id] = bias
	}
}

// optional visits what a pointer points to, if it is not nil.
func optional[T any](f *fieldCoder, to **T, visit func(*T)) {
	there := *to != nil
	if f.flag(&there); !there {
		return
	}
	if f.reading {
		*to = new(T)
	}
	visit(*to)
}

// list visits the elements of a slice, which take at least a byte each.
func list[T any](f *fieldCoder, elements *[]T, visit func(*T)) {
	if f.reading {
		for range f.decoder.count(1) {
			var element T
			if visit(&element); f.decoder.bad {
				return
			}
			*elements = append(*elements, element)
		}
		return
	}
	f.encoder.uvarint(uint64(len(*elements)))
	for i := range *elements {
		visit(&(*elements)[i])
	}
}

// appendRequest appends the payload of a request.
func appendRequest(to []byte, c *call) ([]byte, error) {
	f := fieldCoder{encoder: encoder{to: to}}
	if c.fields(&f); f.encoder.bad {
		return to, parley.Errorf(parley.InvalidRequest,
			"the request cannot be sent: it has a number that is not finite")
	}
	return f.encoder.to, nil
}

// parseRequest reads the payload of a request.
func parseRequest(payload []byte) (*call, error) {
	f := fieldCoder{reading: true, decoder: decoder{rest: payload}}
	c := &call{}
	if c.fields(&f); f.decoder.end() != nil {
		return nil, parley.Errorf(parley.InvalidRequest, "invalid request: its frame is malformed")
	}
	if c.Window < 1 {
		return nil, parley.Invalid("Window", "the window is %d tokens: expected 1 or more", c.Window)
	}
	return c, nil
}
