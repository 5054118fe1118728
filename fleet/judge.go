package fleet

import (
	"context"
	"errors"
	"io"
	"net"

	"parley"
	"parley/route"
	"parley/worker"
)

// Why a worker's answer is broken off from here. Another worker resumes the answer.
var (
	errMoved = errors.New("the worker is draining")
	errLost  = errors.New("the worker no longer answers")
	// errModelRemoved: it was started again without the model of the answer.
	errModelRemoved = errors.New("the worker no longer has the model")
	// errWithdrawn: it has not begun the answer.
	errWithdrawn = errors.New("the request was withdrawn")
)

// An attemptVerdict is what the end of an attempt means for the dispatch and for the worker.
type attemptVerdict uint8

const (
	// answered: the answer is complete, or its reader has left.
	answered attemptVerdict = iota
	// final: the error is for the client; with another worker it would be the same.
	final
	// refused: the worker is too busy, or has not the model. Another may.
	refused
	// failed: the worker answered with an error. Another may not.
	failed
	// lost: the worker is gone, or silent.
	lost
	// moved: we broke it off ourselves.
	moved
	// withdrawn: it was withdrawn before it had begun.
	withdrawn
)

// judge says what an error means. ctx is the client's, attempt the one that ended
// when we broke the answer off.
func judge(ctx, attempt context.Context, err error) attemptVerdict {
	switch cause := context.Cause(attempt); {
	case ctx.Err() != nil:
		return final
	case errors.Is(cause, errWithdrawn):
		return withdrawn
	case errors.Is(cause, errMoved), errors.Is(cause, errModelRemoved):
		return moved
	case errors.Is(cause, errLost), errors.Is(cause, errStalled):
		return lost
	}
	if _, other := errors.AsType[*promptError](err); other {
		return refused // by the worker for prompts, not by this one
	}
	if _, own := errors.AsType[*worker.EngineError](err); own {
		return failed
	}
	known, ok := errors.AsType[*parley.Error](err)
	if !ok {
		if isBroken(err) {
			return lost
		}
		return failed
	}
	switch known.Code {
	case parley.Withdrawn:
		return withdrawn
	case parley.Unavailable:
		return lost
	case parley.Overloaded, parley.RateLimited, parley.NotFound:
		return refused
	case parley.Internal, parley.Cancelled:
		return failed
	}
	return final
}

// isBroken reports whether an error says that a connection could not be made, or
// has ended.
func isBroken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errCut)
}

var errCut = errors.New("the worker ended the answer before it was complete")

// String says how an attempt ended, as the log of attempts has it.
func (v attemptVerdict) String() string {
	return [...]string{
		answered: "done",
		final:    "final",
		refused:  "refused",
		failed:   "failed",
		lost:     "lost",
		moved:    "moved",

		withdrawn: "withdrawn",
	}[v]
}

// A promptError is the failure of the worker that computed the prompt of an answer: its name
// and its number.
type promptError struct {
	name string
	id   route.ID
	err  error
}

// Error returns the message.
func (e *promptError) Error() string { return "worker " + e.name + " for the prompt: " + e.err.Error() }

// Unwrap returns the failure without who failed.
func (e *promptError) Unwrap() error { return e.err }
