package gateway

import (
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/gateway/batch"
	"parley/gateway/hijack"
	"parley/gateway/limit"
	"parley/gateway/openai"
	"parley/gateway/record"
	"parley/gateway/tenant"
)

// A call is one HTTP exchange on its way through the gateway: what came, what
// was answered, and the story that its log line will tell.
type call struct {
	*response
	request *http.Request
	gateway *Gateway
	// record is what is kept of the call; suffix is the random part of its id.
	record *record.Request
	suffix string
	// access is the access class of the route.
	access access
	// values are what stands for the braces of the route.
	values map[string]string
	// identity is who makes the call, and so all that it may.
	identity tenant.Identity
	// round is that of the revocations in which the caller was identified; revoke
	// is set while the call's work can be ended by one.
	round  uint64
	revoke *revocable
	// change is what the call changed, for the audit log.
	change change
	// author is in whose name a call is made that did not come over the network.
	author *batch.Author
	// beside calls are questions of our own, such as for a title.
	beside bool
	// socket is where the answer goes if the request came by a WebSocket.
	socket *socket
	// detached is set if the call can continue after its handler, and rest is what is
	// left to do then.
	detached *hijack.DetachedStream
	rest     func() error
	// stream is set once events are being sent.
	stream *stream
	// seeded calls name their own seed; public ones open with a prompt that the
	// operator made public.
	seeded, public bool
	// screening is the safety policy of the call, once its prompt was judged.
	screening screening
	// slot is the call's place in its caller's limits of requests, accounts what is
	// charged for it; light calls only touch what is stored.
	slot     *slot
	accounts []limit.Account
	light    bool
	// bytes are what the body takes of the bytes that may be in memory.
	bytes *bytesHeld
	// bill is that of the newest generation, of bills.
	bill  *bill
	bills int
}

// A response remembers the status that was sent.
type response struct {
	http.ResponseWriter
	status int
	// beforeStatus, if not nil, is called once, before the status is sent.
	beforeStatus func(status int)
}

// set remembers the first status.
func (r *response) set(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	if r.beforeStatus != nil {
		r.beforeStatus(status)
	}
}

// WriteHeader sends the status and remembers it.
func (r *response) WriteHeader(status int) {
	r.set(status)
	r.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body.
func (r *response) Write(p []byte) (int, error) {
	r.set(http.StatusOK)
	return r.ResponseWriter.Write(p)
}

// Unwrap lets an [http.ResponseController] reach the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// body reads the request's body. It must be declared as JSON: a web page may
// send other types to any server without asking, and those are refused.
func (c *call) body() ([]byte, error) {
	if !isJSON(c.request.Header.Get("Content-Type")) {
		return nil, parley.Invalid("",
			"The body must be JSON, declared with the header 'Content-Type: application/json'.")
	}
	if encoding := c.request.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, parley.Invalid("", "The body must not be compressed: leave out the header 'Content-Encoding'.")
	}
	limit := c.gateway.config.BodyBytesMax
	if c.light {
		limit = min(limit, lightBodyBytesMax)
	}
	if c.request.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if err := c.holdBytes(limit); err != nil {
		return nil, err
	}
	control := http.NewResponseController(c.response)
	_ = control.SetReadDeadline(time.Now().Add(c.gateway.config.BodyWaitMax)) // not every connection has one
	body, err := readBody(http.MaxBytesReader(c.response, c.request.Body, limit), c.request.ContentLength)
	if err != nil {
		return nil, c.bodyError(err)
	}
	c.bytes.shrink(int64(len(body)))
	_ = control.SetReadDeadline(time.Time{})
	return body, c.countEndUser(body)
}

// holdBytes waits until the body, of at most limit bytes, may be read into memory.
// What did not come over the network is there already.
func (c *call) holdBytes(limit int64) (err error) {
	if c.record.Background {
		return nil
	}
	bytes := c.request.ContentLength
	if bytes < 0 {
		bytes = limit
	}
	c.bytes, err = c.gateway.bodies.take(c.request.Context(), keyAccount(&c.identity), bytes)
	return err
}

// readBody reads a body whose length is known if it is positive.
func readBody(from io.Reader, length int64) ([]byte, error) {
	if length <= 0 {
		return io.ReadAll(from)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(from, body)
	return body, err
}

// isJSON reports whether a type is that of JSON.
func isJSON(kind string) bool {
	if kind == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(kind)
	return err == nil && kind == "application/json"
}

func (c *call) bodyError(err error) error {
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(big.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return parley.Invalid("", "The body did not arrive within %v.", c.gateway.config.BodyWaitMax)
	}
	return &parley.Error{Code: parley.Cancelled, Message: "The connection ended before the body was complete."}
}

func tooLarge(limit int64) error {
	return parley.Errorf(parley.TooLarge, "The request body is larger than the %d bytes this server reads.", limit)
}

// reply sends v as the whole answer.
func (c *call) reply(status int, v any) error {
	body, err := openai.Encode(v)
	if err != nil {
		return err
	}
	c.Header().Set("Content-Type", "application/json")
	return c.send(status, append(body, '\n'))
}

// send writes a whole body. A client that does not read it is left.
func (c *call) send(status int, body []byte) error {
	control := http.NewResponseController(c.response)
	_ = control.SetWriteDeadline(time.Now().Add(c.gateway.config.WriteWaitMax))
	c.Header().Set("X-Content-Type-Options", "nosniff")
	c.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.tellWait()
	c.slot.release()
	begun := time.Now()
	defer func() { c.record.Wrote(time.Since(begun)) }()
	c.WriteHeader(status)
	if _, err := c.Write(body); err != nil {
		return hijack.ClientGone(err)
	}
	if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return hijack.ClientGone(err)
	}
	_ = control.SetWriteDeadline(time.Time{})
	return nil
}

// fail tells the client of err: as a status if nothing was sent yet, as the
// last event of a stream that has begun, and not at all if the client is gone.
func (c *call) fail(err error) {
	if cause := context.Cause(c.request.Context()); errors.Is(cause, errRevoked) {
		err = cause
	}
	c.record.Fail(err)
	failure := openai.Describe(err, c.record.ID)
	if c.left() {
		c.record.Fail(&parley.Error{Code: parley.Cancelled, Message: err.Error()})
	}
	switch {
	case isMessages(c.request.URL.Path):
		c.failMessage(err)
	case c.stream != nil:
		c.stream.fail(failure.InStream())
	case c.status != 0:
		// The answer broke off while it was being sent: nothing can follow.
	default:
		maps.Copy(c.Header(), failure.Header)
		// Whether this arrives is no news: the error is already kept.
		_ = c.reply(failure.Status, failure.Body)
	}
}

// left reports whether the client is gone. A call that ends because the server
// stops still has one.
func (c *call) left() bool {
	ctx := c.request.Context()
	cause := context.Cause(ctx)
	return ctx.Err() != nil && !errors.Is(cause, errStopping) && !errors.Is(cause, errRevoked)
}

// clientRequestID returns the client's own name for the request, made fit for
// a log: bounded and printable.
func clientRequestID(r *http.Request) string {
	printable := func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}
	id := r.Header.Get("X-Client-Request-Id")
	return strings.Map(printable, id[:min(len(id), 128)])
}
