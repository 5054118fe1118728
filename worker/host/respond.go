package host

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"parley"
	"parley/worker"
)

// bodyMax bounds the body of a request to a route of vLLM's.
const bodyMax = 64 << 20

// A handler answers a request; what it returns is told to the client unless it
// has had part of an answer.
type handler func(w http.ResponseWriter, r *http.Request) error

// answered reports to the client what went wrong. A panic ends the request and
// nothing else.
func (s *Server) answered(do handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &startedWriter{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.refuse(seen, r, parley.PanicError(p))
			}
		}()
		if err := do(seen, r); err != nil {
			s.refuse(seen, r, err)
		}
	})
}

// startedWriter remembers whether an answer has begun.
type startedWriter struct {
	http.ResponseWriter
	yes bool
}

func (b *startedWriter) WriteHeader(status int) { b.yes = true; b.ResponseWriter.WriteHeader(status) }

func (b *startedWriter) Write(p []byte) (int, error) { b.yes = true; return b.ResponseWriter.Write(p) }

// Unwrap lets a response controller reach what is wrapped.
func (b *startedWriter) Unwrap() http.ResponseWriter { b.yes = true; return b.ResponseWriter }

// statuses are what codes are in HTTP.
var statuses = map[parley.Code]int{
	parley.InvalidRequest: 400, parley.ContextTooLong: 400, parley.TooLarge: 413, parley.Unauthenticated: 401,
	parley.Forbidden: 403, parley.Unprocessable: 422,
	parley.NotFound: 404, parley.Conflict: 409, parley.RateLimited: 429, parley.Overloaded: 429,
	parley.Unavailable: 503,
	parley.Cancelled:   499, parley.DeadlineExceeded: 504,
}

func (s *Server) refuse(w *startedWriter, r *http.Request, err error) {
	if parley.CodeOf(err) == parley.Internal {
		s.cfg.Log.Error("request failed", "path", r.URL.Path, "error", err)
	}
	if w.yes {
		return
	}
	status, known := statuses[parley.CodeOf(err)]
	if !known {
		status = http.StatusInternalServerError
	}
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.Wait+time.Second-1)/time.Second)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(worker.RefusalBody(err)) // who left misses it
}

// readBody reads JSON into a value.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return parley.Errorf(parley.TooLarge, "the body is larger than %d bytes", bodyMax)
	}
	if err != nil {
		return parley.Errorf(parley.InvalidRequest, "the body could not be read: %v", err)
	}
	err = json.Unmarshal(body, into)
	if refused, ok := errors.AsType[*parley.Error](err); ok {
		return refused
	}
	if err != nil {
		return parley.Errorf(parley.InvalidRequest, "the body is not valid JSON for this route: %v", err)
	}
	return nil
}

func writeJSON(w http.ResponseWriter, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // who left misses it
	return nil
}
