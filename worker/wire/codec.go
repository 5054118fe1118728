package wire

import (
	"encoding/binary"
	"errors"
	"time"

	"parley"
)

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
