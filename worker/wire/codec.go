package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"parley"
)

// A call is a request as it travels.
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

// appendRequest appends the payload of a request: the tokens of the prompt, of which
// there may be many, and everything else as JSON, which is short.
func appendRequest(to []byte, c *call) ([]byte, error) {
	rest := *c
	rest.Prompt = nil
	text, err := json.Marshal(&rest)
	if err != nil {
		return to, parley.Errorf(parley.InvalidRequest, "the request cannot be sent: %v", err)
	}
	e := encoder{to: to}
	e.tokens(c.Prompt)
	return append(e.to, text...), nil
}

// parseRequest reads the payload of a request.
func parseRequest(payload []byte) (*call, error) {
	d := decoder{rest: payload}
	prompt := d.tokens()
	c := &call{}
	if d.bad {
		return nil, parley.Errorf(parley.InvalidRequest, "invalid request: the tokens of its prompt are malformed")
	}
	if err := json.Unmarshal(d.rest, c); err != nil {
		return nil, parley.Errorf(parley.InvalidRequest, "invalid request: %v", err)
	}
	if c.Window < 1 {
		return nil, parley.Invalid("Window", "the window is %d tokens: expected 1 or more", c.Window)
	}
	c.Prompt = prompt
	return c, nil
}

// A Fault is a [parley.Error] that travels, in a frame or as JSON.
type Fault struct {
	Code    parley.Code   `json:"code"`
	Message string        `json:"message"`
	Param   string        `json:"param,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`
}

// FaultOf returns an error as it travels. What the caller is not to see of an
// internal one stays in this process.
func FaultOf(err error) *Fault {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return &Fault{e.Code, e.Message, e.Param, e.Wait}
	}
	return &Fault{Code: parley.Internal, Message: "the worker failed; its log says why"}
}

// Err returns the error that was sent.
func (f *Fault) Err() error {
	if f.Code == parley.Internal {
		return errors.New(f.Message)
	}
	return &parley.Error{Code: f.Code, Message: f.Message, Param: f.Param, Wait: f.Wait}
}

// appendError appends the payload of an error, and of what was measured until then;
// nil if nothing was.
func appendError(to []byte, f *Fault, stay *parley.WorkerTimings) []byte {
	e := encoder{to: to}
	e.text(string(f.Code))
	e.text(f.Message)
	e.text(f.Param)
	e.number(int64(f.Wait))
	if stay != nil {
		e.stay(stay)
	}
	return e.to
}

// parseError reads the payload of an error.
func parseError(payload []byte) (f *Fault, stay *parley.WorkerTimings, err error) {
	d := decoder{rest: payload}
	f = &Fault{parley.Code(d.text()), d.text(), d.text(), time.Duration(d.number())}
	if !d.bad && len(d.rest) > 0 {
		stay = d.stay()
	}
	return f, stay, d.end()
}

var errNotANumber = errors.New("a log-probability is not a number")

// appendDelta appends the payload of a delta: which members there are, and these.
func appendDelta(to []byte, d *parley.Delta) ([]byte, error) {
	mask := members(d)
	e := encoder{to: binary.AppendUvarint(to, mask)}
	for bit := uint64(1); bit < hasUnknown; bit <<= 1 {
		if mask&bit != 0 {
			e.member(bit, d)
		}
	}
	if e.bad {
		return to, errNotANumber
	}
	return e.to, nil
}

// parseDelta reads the payload of a delta.
func parseDelta(payload []byte) (*parley.Delta, error) {
	d := decoder{rest: payload}
	mask := d.uvarint()
	d.bad = d.bad || mask >= hasUnknown || mask&hasUsageRouting != 0 && mask&hasUsage == 0
	out := &parley.Delta{}
	for bit := uint64(1); bit < hasUnknown && !d.bad; bit <<= 1 {
		if mask&bit != 0 {
			d.member(bit, out)
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return out, nil
}
