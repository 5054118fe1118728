package wire

import (
	"encoding/binary"
	"math"
	"time"

	"parley"
)

// A decoder reads the values that an encoder has appended. It is bad once something
// was not as it should be, and reads zeros from then on.
type decoder struct {
	rest []byte
	bad  bool
}

// end reports whether everything was read and well formed.
func (d *decoder) end() error {
	if d.bad || len(d.rest) > 0 {
		return errMalformed
	}
	return nil
}

func (d *decoder) fail() { d.bad, d.rest = true, nil }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) number() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) integer() int            { return int(d.number()) }
func (d *decoder) duration() time.Duration { return time.Duration(d.number()) }

func (d *decoder) flag() bool {
	v := d.uvarint()
	if v > 1 {
		d.fail()
	}
	return v == 1
}

// count reads how many elements follow, each of at least size bytes: a list cannot
// be longer than what is left.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.rest)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count(1)
	text := string(d.rest[:n])
	d.rest = d.rest[n:]
	return text
}

func (d *decoder) float() float32 {
	if len(d.rest) < 4 {
		d.fail()
		return 0
	}
	f := math.Float32frombits(binary.LittleEndian.Uint32(d.rest))
	d.rest = d.rest[4:]
	return f
}

func (d *decoder) token() parley.Token {
	v := d.uvarint()
	if v > math.MaxUint32 {
		d.fail()
	}
	return parley.Token(int32(uint32(v)))
}

func (d *decoder) tokens() (list []parley.Token) {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	list = make([]parley.Token, n)
	for i := range list {
		list[i] = d.token()
	}
	return list
}

// appendTokens reads tokens up to the end.
func (d *decoder) appendTokens(to []parley.Token) []parley.Token {
	for len(d.rest) > 0 {
		to = append(to, d.token())
	}
	return to
}

func (d *decoder) logprob() (parley.Token, float32) {
	id, value := d.token(), d.float()
	if value != value {
		d.fail()
	}
	return id, value
}

func (d *decoder) logprobs() (list []parley.Logprob) {
	const tokenBytes, valueBytes = 1, 4
	for range d.count(tokenBytes + valueBytes + 1) {
		var l parley.Logprob
		l.Token, l.Logprob = d.logprob()
		for range d.count(tokenBytes + valueBytes) {
			var top parley.TopLogprob
			top.Token, top.Logprob = d.logprob()
			l.Top = append(l.Top, top)
		}
		list = append(list, l)
	}
	return list
}

func (d *decoder) member(bit uint64, out *parley.Delta) {
	switch bit {
	case hasChoice:
		out.Choice = d.integer()
	case hasTokens:
		out.Tokens = d.tokens()
	case hasText:
		out.Text = d.text()
	case hasLogprobs:
		out.Logprobs = d.logprobs()
	case hasPromptLogprobs:
		out.PromptLogprobs = d.logprobs()
	case hasEmbedding:
		out.Embedding = make([]float32, d.count(4))
		for i := range out.Embedding {
			out.Embedding[i] = d.float()
		}
	case hasProgress:
		out.Progress = d.progress()
	case hasFinish:
		out.Finish = parley.Finish(d.text())
	case hasStopString:
		out.StopString = d.text()
	case hasUsage:
		out.Usage = d.usage()
	case hasUsageRouting:
		out.Usage.Routing = d.routing()
	case hasRouting:
		out.Routing = d.routing()
	case hasStay:
		out.Timings = d.stay()
	case hasApart:
		out.Apart = true
	case hasThoughts:
		out.Thoughts = d.text()
	case hasCalls:
		out.Calls = d.calls()
	case hasTransfer:
		out.Transfer = d.transfer()
	case hasCached:
		out.CachedTokens = d.integer()
	}
}

func (d *decoder) calls() []parley.ToolCall {
	list := make([]parley.ToolCall, d.count(4))
	for i := range list {
		list[i] = parley.ToolCall{Index: d.integer(), ID: d.text(), Name: d.text(), Arguments: d.text()}
	}
	return list
}

func (d *decoder) transfer() *parley.Transfer {
	return &parley.Transfer{
		From:        d.text(),
		AskedTokens: d.integer(),
		CameTokens:  d.integer(),
		Bytes:       d.number(),
		Took:        d.duration(),
		Shared:      d.flag(),
		Miss:        d.text(),
	}
}

func (d *decoder) progress() *parley.Progress {
	p := &parley.Progress{Waiting: d.flag(), Loading: d.flag()}
	p.Ahead, p.PromptTokens, p.CachedTokens, p.DoneTokens = d.integer(), d.integer(), d.integer(), d.integer()
	p.Wait, p.Spent = d.duration(), d.duration()
	return p
}

func (d *decoder) usage() *parley.Usage {
	u := &parley.Usage{}
	for _, n := range [...]*int{&u.PromptTokens, &u.CachedTokens, &u.OutputTokens, &u.ReasoningTokens,
		&u.DroppedTokens, &u.Preemptions} {
		*n = d.integer()
	}
	for _, t := range [...]*time.Duration{&u.Queued, &u.Prefill, &u.Decode, &u.SeatWait, &u.MemoryWait, &u.Preempted} {
		*t = d.duration()
	}
	u.Miss, u.Unenforced, u.Outside = d.text(), d.text(), d.flag()
	return u
}

func (d *decoder) routing() *parley.Routing {
	return &parley.Routing{Worker: d.text(), Pool: d.text(), Reason: d.text(), Moves: d.integer()}
}

func (d *decoder) stay() *parley.WorkerTimings {
	return &parley.WorkerTimings{
		Admitted: d.duration(),
		First:    d.duration(),
		Whole:    d.duration(),
		Paused:   d.duration(),
		Traced:   d.flag(),
	}
}
