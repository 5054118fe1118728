package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"time"

	"parley"
)

// The routes of a Parley worker beside those it has in common with vLLM.
const (
	// GeneratePath makes a connection one of our wire; see [Door].
	GeneratePath = "/parley/v1/generate"
	// AboutPath describes a worker to a gateway.
	AboutPath = "/parley/v1/about"
	// EventsPath streams what comes to and goes from the worker's cache; see [Journal].
	EventsPath = "/parley/v1/events"
	// SnapshotPath lists all blocks that the worker holds.
	SnapshotPath = "/parley/v1/snapshot"
)

// lineMax bounds one line of our wire: a request with the longest prompts there
// are, or the log-probabilities of one.
const lineMax = 256 << 20

// A call is the line of a request. What follows it are lines with the number of
// tokens that the client has read since the last one.
type call struct {
	parley.Request
	// Left is how long the request may take, as clocks of machines differ.
	Left time.Duration `json:",omitempty"`
	// Window is how many tokens the client takes before it has acknowledged any.
	Window int
	// Trace is what the request belongs to, as in a traceparent header.
	Trace string `json:",omitempty"`
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

// parseCall reads the line of a request.
func parseCall(line []byte) (*call, error) {
	c := &call{}
	if err := json.Unmarshal(line, c); err != nil {
		return nil, parley.Errorf(parley.InvalidRequest, "invalid request: %v", err)
	}
	if c.Window < 1 {
		return nil, parley.Invalid("Window", "the window is %d tokens: expected 1 or more", c.Window)
	}
	return c, nil
}

// A frame is one line of an answer: a delta, or why there are no more and what was
// measured until then.
type frame struct {
	Delta *parley.Delta `json:"delta,omitempty"`
	Error *fault        `json:"error,omitempty"`
	Stay  *parley.Stay  `json:"stay,omitempty"`
}

// A fault is a [parley.Error] on the wire.
type fault struct {
	Code    parley.Code   `json:"code"`
	Message string        `json:"message"`
	Param   string        `json:"param,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`
}

// faultOf returns an error as it travels. What the caller is not to see of an
// internal one stays in this process.
func faultOf(err error) *fault {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return &fault{e.Code, e.Message, e.Param, e.Wait}
	}
	return &fault{Code: parley.Internal, Message: "the worker failed; its log says why"}
}

func (f *fault) err() error {
	if f.Code == parley.Internal {
		return errors.New(f.Message)
	}
	return &parley.Error{Code: f.Code, Message: f.Message, Param: f.Param, Wait: f.Wait}
}

// appendFrame appends a line.
func appendFrame(to []byte, f *frame) ([]byte, error) {
	line, err := json.Marshal(f)
	if _, infinite := errors.AsType[*json.UnsupportedValueError](err); infinite && f.Delta != nil {
		d := finite(*f.Delta)
		line, err = json.Marshal(&frame{Delta: &d})
	}
	if err != nil {
		return to, err
	}
	return append(append(to, line...), '\n'), nil
}

// finite returns the delta with the least number there is in place of log 0,
// which JSON cannot say.
func finite(d parley.Delta) parley.Delta {
	d.Logprobs, d.PromptLogprobs = finiteAll(d.Logprobs), finiteAll(d.PromptLogprobs)
	return d
}

func finiteAll(list []parley.Logprob) (out []parley.Logprob) {
	bound := func(v float32) float32 { return max(min(v, math.MaxFloat32), -math.MaxFloat32) }
	for _, l := range list {
		own := parley.Logprob{Token: l.Token, Logprob: bound(l.Logprob)}
		for _, t := range l.Top {
			own.Top = append(own.Top, parley.TopLogprob{Token: t.Token, Logprob: bound(t.Logprob)})
		}
		out = append(out, own)
	}
	return out
}

// parseFrame reads a line of an answer.
func parseFrame(line []byte) (*frame, error) {
	if tokens, ok := plainTokens(nil, line); ok {
		return &frame{Delta: &parley.Delta{Tokens: tokens}}, nil
	}
	if d, ok := quickDelta(line); ok {
		return &frame{Delta: d}, nil
	}
	f := &frame{}
	if err := json.Unmarshal(line, f); err != nil {
		return nil, err
	}
	if (f.Delta == nil) == (f.Error == nil) {
		return nil, errors.New("a line must have either a delta or an error")
	}
	return f, nil
}

// plainTokens appends the tokens of a line that has nothing but tokens, as nearly
// all have: a tenth of what it costs to read any JSON. Whatever it does not know
// is left to the other way.
func plainTokens(to []parley.Token, line []byte) ([]parley.Token, bool) {
	list, ok := bytes.CutPrefix(line, []byte(`{"delta":{"tokens":[`))
	list, closed := bytes.CutSuffix(list, []byte(`]}}`))
	if !ok || !closed || len(list) == 0 || len(list) > 4096 {
		return nil, false
	}
	tokens := to
	n, digits := 0, 0
	for i := range len(list) + 1 {
		switch {
		case i < len(list) && list[i] >= '0' && list[i] <= '9' && digits < 9:
			if digits == 1 && n == 0 {
				return nil, false // JSON has no number with a zero before it
			}
			n, digits = 10*n+int(list[i]-'0'), digits+1
		case (i == len(list) || list[i] == ',') && digits > 0:
			tokens = append(tokens, parley.Token(n))
			n, digits = 0, 0
		default:
			return nil, false
		}
	}
	return tokens, true
}

// parseAck reads how many tokens were read.
func parseAck(line []byte) (int, error) {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 31)
	return int(n), err
}

var errLineTooLong = errors.New("a line exceeds the limit of the protocol")

// roomKept is how much room for long lines is kept for the next.
const roomKept = 1 << 20

// readLine returns the next line without its end, which must not be longer
// than most. It is valid until the next call.
func readLine(r *bufio.Reader, most int, room *[]byte) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == nil {
		if cap(*room) > roomKept {
			*room = nil
		}
		return line[:len(line)-1], nil
	}
	*room = (*room)[:0]
	for {
		if len(*room)+len(line) > most {
			return nil, errLineTooLong
		}
		*room = append(*room, line...)
		switch {
		case err == nil:
			return (*room)[:len(*room)-1], nil
		case errors.Is(err, io.EOF) && len(*room) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		line, err = r.ReadSlice('\n')
	}
}

// cost is how much of the window a delta takes.
func cost(d *parley.Delta) int { return max(1, d.Count()) }

// An About is what a Parley worker says of itself.
type About struct {
	Version  string         `json:"version"`
	Instance string         `json:"instance"`
	Pool     string         `json:"pool,omitempty"`
	Models   []parley.Model `json:"models"`
	Running  int            `json:"running"`
	Waiting  int            `json:"waiting"`
	KVUse    float64        `json:"kv_use"`
	Blocks   int            `json:"blocks"`
	// BusySeconds is how long it has computed since it began, Preemptions how often
	// a request lost its memory meanwhile.
	BusySeconds float64 `json:"busy_seconds"`
	Preemptions uint64  `json:"preemptions"`
	// BlockTokens is how many tokens a block has.
	BlockTokens int  `json:"block_tokens"`
	Sleeping    bool `json:"sleeping,omitempty"`
	Draining    bool `json:"draining,omitempty"`
}
