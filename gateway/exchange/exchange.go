package exchange

import (
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/gateway/hijack"
	"parley/gateway/openai"
	"parley/gateway/record"
	"parley/gateway/revoke"
	"parley/gateway/tenant"
	"parley/limit"
)

// An Exchange is one HTTP request and the response to it: what came, who sent it, and
// what writes the answer. It knows nothing of models.
type Exchange struct {
	*Response
	Request *http.Request
	// Record is what is kept of the request; suffix is the random part of its id.
	Record *record.Request
	Suffix string
	// Values are what stands for the braces of the route.
	Values map[string]string
	// Identity is who makes the request, and so all that it may; [Exchange.Identify] sets it.
	Identity *tenant.Identity
	// Change is what the request changed, for the audit log.
	Change Change
	// Stream is set once events are being sent.
	Stream *EventStream
	// Frame sends what would be an event over a WebSocket, if the request came by one.
	Frame func(body []byte) error
	// Bytes are what the body takes of the bytes that may be in memory.
	Bytes  *BodyBytes
	Server *Server
	Hooks  Hooks
}

// An Server is what all exchanges share.
type Server struct {
	// BodyBytesMax bounds a body, bodyWaitMax how long it may take to arrive, and
	// writeWaitMax one write to a client that does not read.
	BodyBytesMax              int64
	BodyWaitMax, WriteWaitMax time.Duration
	// KeepAlive is how long a stream stays silent before a comment is sent.
	KeepAlive time.Duration
	// Bodies bounds the bytes of requests that are in memory.
	Bodies *BodyGate
	// NoAddresses keeps the addresses of clients out of what is recorded, which proxies
	// are trusted to name.
	NoAddresses    bool
	TrustedProxies []netip.Prefix
}

// Hooks are called on the way of an exchange; each may be nil.
type Hooks struct {
	// Body is called with the body that was read, and may refuse it.
	Body func([]byte) error
	// Send is called before a whole answer is sent.
	Send func()
	// Detach lets a stream leave its handler, before it is started, and Rest runs it then.
	Detach func()
	Rest   func(rest func() error) error
	// BodyBytesMax bounds the body further, if it is not 0.
	BodyBytesMax int64
}

// unknown is the identity of all requests whose caller is not known.
var unknown = &tenant.Identity{}

// Identify notes the identity of the caller in the exchange and in its record; nil if it is not known.
func (x *Exchange) Identify(who *tenant.Identity) {
	if who == nil {
		who = unknown
	}
	x.Identity, x.Record.Who = who, who
}

// Alone returns an exchange in whose name work is done that x does not wait for, or
// that it asks for itself: as the same caller, with a context and a record of its own,
// and without a client.
func (x *Exchange) Alone(ctx context.Context, rec *record.Request) *Exchange {
	rec.Who = x.Identity
	request := x.Request
	if ctx != request.Context() {
		request = request.WithContext(ctx)
	}
	return &Exchange{
		Response: &Response{},
		Request:  request,
		Record:   rec,
		Suffix:   x.Suffix,
		Values:   x.Values,
		Identity: x.Identity,
		Bytes:    x.Bytes,
		Server:   x.Server,
	}
}

// RunStream does the rest of an exchange: after its handler if it is a stream.
func (x *Exchange) RunStream(stream bool, rest func() error) error {
	if stream {
		x.Detach()
	}
	return x.Rest(rest)
}

// Detach lets a stream continue after its handler, if its connection allows that. It
// comes before anything is started that the context of the request could end.
func (x *Exchange) Detach() {
	if x.Hooks.Detach != nil {
		x.Hooks.Detach()
	}
}

// Rest does the rest of an exchange: after its handler if it was detached, and else here.
func (x *Exchange) Rest(rest func() error) error {
	if x.Hooks.Rest == nil {
		return rest()
	}
	return x.Hooks.Rest(rest)
}

// End returns how the exchange ended, for its record.
func (x *Exchange) End() record.End {
	retries, err := strconv.Atoi(x.Request.Header.Get("X-Stainless-Retry-Count"))
	return record.End{
		Status:  x.Status,
		Stream:  x.Stream != nil,
		Remote:  x.Remote(),
		Retried: err == nil && retries > 0,
	}
}

// A Response remembers the status that was sent.
type Response struct {
	http.ResponseWriter
	Status int
	// BeforeStatus, if not nil, is called once, before the status is sent.
	BeforeStatus func(status int)
	// limits go into the headers with the status; nil if none are known.
	limits *limit.Verdict
}

// set remembers the first status.
func (r *Response) set(status int) {
	if r.Status != 0 {
		return
	}
	r.Status = status
	if v := r.limits; v != nil {
		tellLimits(r.Header(), v)
		r.limits = nil
	}
	if r.BeforeStatus != nil {
		r.BeforeStatus(status)
	}
}

// WriteHeader sends the status and remembers it.
func (r *Response) WriteHeader(status int) {
	r.set(status)
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body.
func (r *Response) Write(p []byte) (int, error) {
	r.set(http.StatusOK)
	return r.ResponseWriter.Write(p)
}

// Unwrap lets an [http.ResponseController] reach the connection.
func (r *Response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Body reads the request's body. It must be declared as JSON: a web page may
// send other types to any server without asking, and those are refused.
func (x *Exchange) Body() ([]byte, error) {
	if !IsJSON(x.Request.Header.Get("Content-Type")) {
		return nil, parley.Invalid("",
			"The body must be JSON, declared with the header 'Content-Type: application/json'.")
	}
	if encoding := x.Request.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, parley.Invalid("", "The body must not be compressed: leave out the header 'Content-Encoding'.")
	}
	limit := x.Server.BodyBytesMax
	if most := x.Hooks.BodyBytesMax; most > 0 {
		limit = min(limit, most)
	}
	if x.Request.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	if err := x.holdBytes(limit); err != nil {
		return nil, err
	}
	control := http.NewResponseController(x.Response)
	_ = control.SetReadDeadline(time.Now().Add(x.Server.BodyWaitMax)) // not every connection has one
	body, err := readBody(x.Response, x.Request, limit)
	if err != nil {
		return nil, x.bodyError(err)
	}
	x.Bytes.Shrink(int64(len(body)))
	_ = control.SetReadDeadline(time.Time{})
	if x.Hooks.Body != nil {
		err = x.Hooks.Body(body)
	}
	return body, err
}

// holdBytes waits until the body, of at most limit bytes, may be read into memory.
// What did not come over the network is there already.
func (x *Exchange) holdBytes(limit int64) (err error) {
	if x.Record.Background {
		return nil
	}
	bytes := x.Request.ContentLength
	if bytes < 0 {
		bytes = limit
	}
	x.Bytes, err = x.Server.Bodies.Take(x.Request.Context(), x.Identity.KeyAccount(), bytes)
	return err
}

// readBody reads a body of at most limit bytes, which its length is not above if that is known.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength <= 0 {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, body)
	return body, err
}

// IsJSON reports whether a type is that of JSON.
func IsJSON(kind string) bool {
	if kind == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(kind)
	return err == nil && kind == "application/json"
}

func (x *Exchange) bodyError(err error) error {
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return TooLarge(big.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return parley.Invalid("", "The body did not arrive within %v.", x.Server.BodyWaitMax)
	}
	return &parley.Error{Code: parley.Cancelled, Message: "The connection ended before the body was complete."}
}

// TooLarge is the error for a body of more than limit bytes.
func TooLarge(limit int64) error {
	return parley.Errorf(parley.TooLarge, "The request body is larger than the limit of %d bytes.", limit)
}

// Reply sends v as the whole answer.
func (x *Exchange) Reply(status int, v any) error {
	body, err := openai.Encode(v)
	if err != nil {
		return err
	}
	x.Header().Set("Content-Type", "application/json")
	return x.Send(status, append(body, '\n'))
}

// Send writes a whole body. A client that does not read it is left.
func (x *Exchange) Send(status int, body []byte) error {
	control := http.NewResponseController(x.Response)
	_ = control.SetWriteDeadline(time.Now().Add(x.Server.WriteWaitMax))
	x.Header().Set("X-Content-Type-Options", "nosniff")
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.tellWait()
	if x.Hooks.Send != nil {
		x.Hooks.Send()
	}
	begun := time.Now()
	defer func() { x.Record.Wrote(time.Since(begun)) }()
	x.WriteHeader(status)
	if _, err := x.Write(body); err != nil {
		return hijack.ClientGone(err)
	}
	if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return hijack.ClientGone(err)
	}
	_ = control.SetWriteDeadline(time.Time{})
	return nil
}

// Fail sends err to the client: as a status if nothing was sent yet, as the
// last event of a stream that has begun, and not at all if the client is gone.
func (x *Exchange) Fail(err error) {
	if cause := context.Cause(x.Request.Context()); errors.Is(cause, revoke.ErrRevoked) {
		err = cause
	}
	x.Record.Fail(err)
	failure := openai.Describe(err, x.Record.ID)
	if x.left() {
		x.Record.Fail(&parley.Error{Code: parley.Cancelled, Message: err.Error()})
	}
	switch {
	case IsMessages(x.Request.URL.Path):
		x.failMessage(err)
	case IsOllama(x.Request.URL.Path):
		x.failText(&failure)
	case x.Stream != nil:
		x.Stream.fail(failure.InStream())
	case x.Status != 0:
		// The answer broke off while it was being sent: nothing can follow.
	default:
		maps.Copy(x.Header(), failure.Header)
		// Whether this arrives does not matter: the error is in the record.
		_ = x.Reply(failure.Status, failure.Body)
	}
}

// left reports whether the client is gone. A call that ends because the server
// stops still has one.
func (x *Exchange) left() bool {
	ctx := x.Request.Context()
	cause := context.Cause(ctx)
	return ctx.Err() != nil && !errors.Is(cause, ErrStopping) && !errors.Is(cause, revoke.ErrRevoked)
}

// ClientRequestID returns the client's own name for the request, made fit for
// a log: bounded and printable.
func ClientRequestID(r *http.Request) string {
	printable := func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}
	id := r.Header.Get("X-Client-Request-Id")
	return strings.Map(printable, id[:min(len(id), 128)])
}

// MessagesPath is where the Anthropic interface begins; its failures have a
// shape of their own.
const MessagesPath = "/v1/messages"

// IsMessages reports whether a path belongs to the Anthropic interface.
func IsMessages(path string) bool {
	return path == MessagesPath || strings.HasPrefix(path, MessagesPath+"/")
}

// failMessage sends an error to a client of the Anthropic interface.
func (x *Exchange) failMessage(err error) {
	status, header, body := openai.DescribeMessageError(err, x.Record.ID)
	switch {
	case x.Stream != nil:
		if raw, err := openai.Encode(body); err == nil && !x.Stream.Broken && x.Request.Context().Err() == nil {
			_ = x.Stream.write(appendNamed(nil, "error", raw)) // the error is already kept
		}
	case x.Status == 0:
		maps.Copy(x.Header(), header)
		_ = x.Reply(status, body) // the error is already kept
	}
}

// IsOllama reports whether a path belongs to Ollama's interface: streams are lines of JSON,
// and a failure is a text.
func IsOllama(path string) bool { return strings.HasPrefix(path, "/api/") }

// failText sends an error to a client of Ollama's interface.
func (x *Exchange) failText(failure *openai.Failure) {
	body := struct {
		Error string `json:"error"`
	}{failure.Body.Error.Message}
	switch {
	case x.Stream != nil:
		x.Stream.fail(body)
	case x.Status == 0:
		maps.Copy(x.Header(), failure.Header)
		_ = x.Reply(failure.Status, body) // the error is already kept
	}
}

// tellWait puts what is known of the waiting into the headers.
func (x *Exchange) tellWait() {
	if x.Record.Waiter() == nil {
		return
	}
	s, h := x.Record.Waiter().Status(), x.Header()
	if x.Record.Shared() {
		h.Set("X-Answer-Shared", "true")
	}
	h.Set("X-Queue-Wait", seconds(s.Waited))
	if s.Waiting {
		h.Set("X-Queue-Position", strconv.Itoa(s.Position))
		h.Set("X-Queue-Estimated-Wait", seconds(s.Left))
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
