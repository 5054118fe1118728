package wire

import (
	"encoding/binary"
	"math"
	"time"

	"parley"
)

// The members of a delta that are there, in the order in which they stand.
const (
	hasChoice = 1 << iota
	hasTokens
	hasText
	hasLogprobs
	hasPromptLogprobs
	hasEmbedding
	hasProgress
	hasFinish
	hasStopString
	hasUsage
	hasUsageRouting
	hasRouting
	hasStay
	hasApart
	hasThoughts
	hasCalls
	hasTransfer
	hasCached
	hasUnknown
)

// members returns which members of a delta are there.
func members(d *parley.Delta) (mask uint64) {
	for i, there := range [...]bool{
		d.Choice != 0, len(d.Tokens) > 0, d.Text != "", len(d.Logprobs) > 0, len(d.PromptLogprobs) > 0,
		len(d.Embedding) > 0, d.Progress != nil, d.Finish != "", d.StopString != "", d.Usage != nil,
		d.Usage != nil && d.Usage.Routing != nil, d.Routing != nil, d.Timings != nil,
		d.Apart, d.Thoughts != "", len(d.Calls) > 0, d.Transfer != nil,
		d.CachedTokens != 0,
	} {
		if there {
			mask |= 1 << i
		}
	}
	return mask
}

// An encoder appends values. It is bad once there was one that cannot be sent.
type encoder struct {
	to  []byte
	bad bool
}

func (e *encoder) uvarint(n uint64) { e.to = binary.AppendUvarint(e.to, n) }
func (e *encoder) number(n int64)   { e.to = binary.AppendVarint(e.to, n) }

func (e *encoder) flag(b bool) {
	if b {
		e.uvarint(1)
	} else {
		e.uvarint(0)
	}
}

func (e *encoder) text(s string) {
	e.uvarint(uint64(len(s)))
	e.to = append(e.to, s...)
}

func (e *encoder) float(f float32) {
	e.to = binary.LittleEndian.AppendUint32(e.to, math.Float32bits(f))
}

func (e *encoder) tokens(list []parley.Token) {
	e.uvarint(uint64(len(list)))
	for _, id := range list {
		e.uvarint(uint64(uint32(id)))
	}
}

// logprob bounds the logarithm of 0, which clients could not be sent as JSON.
func (e *encoder) logprob(id parley.Token, value float32) {
	e.bad = e.bad || value != value
	e.uvarint(uint64(uint32(id)))
	e.float(max(min(value, math.MaxFloat32), -math.MaxFloat32))
}

func (e *encoder) logprobs(list []parley.Logprob) {
	e.uvarint(uint64(len(list)))
	for i := range list {
		e.logprob(list[i].Token, list[i].Logprob)
		e.uvarint(uint64(len(list[i].Top)))
		for _, t := range list[i].Top {
			e.logprob(t.Token, t.Logprob)
		}
	}
}

func (e *encoder) member(bit uint64, d *parley.Delta) {
	switch bit {
	case hasChoice:
		e.number(int64(d.Choice))
	case hasTokens:
		e.tokens(d.Tokens)
	case hasText:
		e.text(d.Text)
	case hasLogprobs:
		e.logprobs(d.Logprobs)
	case hasPromptLogprobs:
		e.logprobs(d.PromptLogprobs)
	case hasEmbedding:
		e.uvarint(uint64(len(d.Embedding)))
		for _, f := range d.Embedding {
			e.float(f)
		}
	case hasProgress:
		e.progress(d.Progress)
	case hasFinish:
		e.text(string(d.Finish))
	case hasStopString:
		e.text(d.StopString)
	case hasUsage:
		e.usage(d.Usage)
	case hasUsageRouting:
		e.routing(d.Usage.Routing)
	case hasRouting:
		e.routing(d.Routing)
	case hasStay:
		e.stay(d.Timings)
	case hasThoughts:
		e.text(d.Thoughts)
	case hasCalls:
		e.calls(d.Calls)
	case hasTransfer:
		e.transfer(d.Transfer)
	case hasCached:
		e.number(int64(d.CachedTokens))
	}
}

func (e *encoder) calls(list []parley.ToolCall) {
	e.uvarint(uint64(len(list)))
	for i := range list {
		e.number(int64(list[i].Index))
		e.text(list[i].ID)
		e.text(list[i].Name)
		e.text(list[i].Arguments)
	}
}

func (e *encoder) transfer(t *parley.Transfer) {
	e.text(t.From)
	e.number(int64(t.AskedTokens))
	e.number(int64(t.CameTokens))
	e.number(t.Bytes)
	e.number(int64(t.Took))
	e.flag(t.Shared)
	e.text(t.Miss)
}

func (e *encoder) progress(p *parley.Progress) {
	e.flag(p.Waiting)
	e.flag(p.Loading)
	for _, n := range []int{p.Ahead, p.PromptTokens, p.CachedTokens, p.DoneTokens} {
		e.number(int64(n))
	}
	e.number(int64(p.Wait))
	e.number(int64(p.Spent))
}

func (e *encoder) usage(u *parley.Usage) {
	for _, n := range [...]int{u.PromptTokens, u.CachedTokens, u.OutputTokens, u.ReasoningTokens, u.DroppedTokens,
		u.Preemptions} {
		e.number(int64(n))
	}
	for _, t := range [...]time.Duration{u.Queued, u.Prefill, u.Decode, u.SeatWait, u.MemoryWait, u.Preempted} {
		e.number(int64(t))
	}
	e.text(u.Miss)
	e.text(u.Unenforced)
	e.flag(u.Outside)
}

func (e *encoder) routing(r *parley.Routing) {
	e.text(r.Worker)
	e.text(r.Pool)
	e.text(r.Reason)
	e.number(int64(r.Moves))
}

func (e *encoder) stay(s *parley.WorkerTimings) {
	for _, t := range [...]time.Duration{s.Admitted, s.First, s.Whole, s.Paused} {
		e.number(int64(t))
	}
	e.flag(s.Traced)
}
