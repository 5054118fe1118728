package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"iter"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"parley"
)

// heard is what a client made of an answer.
type heard struct {
	tokens []parley.Token
	code   parley.Code
	usage  *parley.Usage
}

// plainly reads what a connection says about a request in the simplest way: each
// frame by itself.
func plainly(said []byte, id uint64) (h heard) {
	broken := func() heard { return heard{h.tokens, parley.Unavailable, nil} }
	frames, room := bufio.NewReader(bytes.NewReader(said)), []byte(nil)
	for {
		f, err := readFrame(frames, frameMax, &room)
		if err != nil {
			return broken()
		}
		if f.id != id {
			continue
		}
		d := &parley.Delta{}
		switch f.kind {
		case kindTokens:
			tokens := decoder{rest: f.payload}
			if d.Tokens = tokens.appendTokens(nil); tokens.bad || len(f.payload) == 0 {
				return broken()
			}
		case kindDelta:
			if d, err = parseDelta(f.payload); err != nil {
				return broken()
			}
		case kindError:
			fault, _, err := parseError(f.payload)
			if err != nil {
				return broken()
			}
			return heard{h.tokens, parley.CodeOf(fault.Err()), nil}
		default:
			return broken()
		}
		h.tokens = append(h.tokens, d.Tokens...)
		if d.Usage != nil {
			return heard{h.tokens, "", d.Usage}
		}
	}
}

// TestAWorkerThatIgnoresTheWindow and sends on what is not read loses its connection
// before the answer takes more memory than it may, and with it all answers there.
func TestAWorkerThatIgnoresTheWindow(t *testing.T) {
	const most = 1 << 10
	near, far := net.Pipe()
	l := newLink(near, time.Minute)
	l.most = most
	l.out.to = deaf{}
	unread, other := l.open(), l.open()
	go func() {
		for {
			if _, err := far.Write(shortFrame(kindTokens, 1, 5)); err != nil {
				return
			}
		}
	}()
	l.listen()
	if kept := len(unread.in); kept == 0 || kept > 6*most { // with their heads
		t.Errorf("%d bytes wait, of %d that may", kept, most)
	}
	for frames := 0; ; frames++ {
		if _, err := unread.read(); errors.Is(err, errUnbidden) && frames > 0 {
			break
		} else if err != nil {
			t.Fatalf("after %d frames: %v", frames, err)
		}
	}
	if _, err := other.read(); !errors.Is(err, errUnbidden) {
		t.Errorf("the other answer ends with %v", err)
	}
	if l.open() != nil {
		t.Error("the link takes one more answer")
	}
}

// FuzzLink has a worker say anything on a connection with two requests. Each ends,
// with what the simplest reader finds, but for what came after the connection was
// found to be broken.
func FuzzLink(f *testing.F) {
	last := must(appendDelta(beginFrame(nil, kindDelta, 1), &parley.Delta{Tokens: []parley.Token{7},
		Finish: parley.FinishStop, Usage: &parley.Usage{OutputTokens: 2}}))
	full := appendError(beginFrame(nil, kindError, 2), &Fault{Code: parley.Overloaded, Message: "full"}, nil)
	for _, said := range [][][]byte{
		{shortFrame(kindTokens, 1, 5), shortFrame(kindTokens, 2, 6), endFrame(last, 0), endFrame(full, 0)},
		{shortFrame(kindPong, 0), shortFrame(kindTokens, 1, 5, 6), shortFrame(kindDelta, 3, 0)},
		{shortFrame(kindTokens, 1, 5), shortFrame(kindTokens, 1, 0x80), shortFrame(kindTokens, 1, 6)},
		{shortFrame(kindTokens, 1, 5), shortFrame(kindDelta, 1, 0xff, 0xff), {0}},
		{shortFrame(kindTokens, 1), shortFrame('?', 2), {0, 0, 0, 1, 'T'}},
		{shortFrame(kindDelta, 1, 0), {0xff, 0xff, 0xff, 0xff}},
	} {
		f.Add(bytes.Join(said, nil))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		r := dial(t, "http://worker", ClientConfig{Silence: time.Minute})
		l := newLink(near, time.Minute)
		streams := []*recvStream{l.open(), l.open()}
		l.out.to = deaf{} // what the client says is another target's matter
		go func() { _, _ = far.Write(said); far.Close() }()
		l.listen()
		for i, in := range streams {
			var got heard
			r.readAnswer(t.Context(), l, in, func(d parley.Delta, err error) bool {
				got.tokens, got.usage = append(got.tokens, d.Tokens...), d.Usage
				if err != nil {
					got.code = parley.CodeOf(err)
				}
				return true
			})
			if want := plainly(said, uint64(i+1)); !slices.Equal(got.tokens, want.tokens) || got.code != want.code ||
				!reflect.DeepEqual(got.usage, want.usage) {
				t.Errorf("request %d of %q: %+v, and read plainly %+v", i+1, said, got, want)
			}
			l.drop(in, true)
		}
	})
}

// deaf takes everything.
type deaf struct{}

func (deaf) Write(b []byte) (int, error) { return len(b), nil }

// An echoing worker says the prompt again.
type echoing struct{}

func (echoing) Models() []parley.Model { return nil }

func (echoing) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		for _, id := range r.Prompt {
			if ctx.Err() != nil || !yield(parley.Delta{Tokens: []parley.Token{id}}, nil) {
				return
			}
		}
		yield(parley.Delta{Finish: parley.FinishStop, Usage: &parley.Usage{OutputTokens: len(r.Prompt)}}, nil)
	}
}

// FuzzServer has a client say anything to a worker. The connection ends with it, nothing
// of it stays, and every frame that goes out is one of the wire, about a request
// that was heard of.
func FuzzServer(f *testing.F) {
	for _, said := range [][][]byte{
		{asks(1, 9, 2, 5, 6, 7), shortFrame(kindPing, 0), shortFrame(kindAck, 1, 2), shortFrame(kindAck, 1, 9)},
		{asks(1, 9, 1, 5, 6, 7), asks(1, 9, 1, 5), shortFrame(kindCancel, 1)},
		{asks(1, 9, 0), shortFrame(kindRequest, 2, 1, 5, '{'), shortFrame(kindRequest, 3, 9)},
		{asks(1, 9, 1, 1), shortFrame(kindAck, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 1)},
		{asks(1, 9, 2, 5, 6), shortFrame(kindWithdraw, 1), shortFrame(kindWithdraw, 7)},
		{shortFrame(kindCancel, 7), shortFrame(kindAck, 7, 3), asks(0, 1, 1), shortFrame(kindPong, 0)},
		{{'x'}},
	} {
		f.Add(bytes.Join(said, nil))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		server := &Server{To: echoing{}}
		v := &serverConn{server: server, conn: far, out: outbox{to: far}, answers: map[uint64]*serverRequest{}}
		server.enter(v)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer server.leave(v)
			v.listen(t.Context(), bufio.NewReader(far))
		}()
		go func() {
			_, _ = near.Write(said)
			near.Close()
		}()
		frames, room := bufio.NewReader(near), []byte(nil)
		for {
			f, err := readFrame(frames, frameMax, &room)
			if err != nil {
				break
			}
			checkSent(t, f, said)
		}
		<-ended
		if len(v.answers) != 0 || len(server.conns) != 0 {
			t.Errorf("%q: %d answers and %d connections stay", said, len(v.answers), len(server.conns))
		}
	})
}

// checkSent checks a frame that a server sent to a client that said something.
func checkSent(t *testing.T, f frame, said []byte) {
	t.Helper()
	asked, err := kindRequest, error(nil)
	switch f.kind {
	case kindPong:
		asked = kindPing
	case kindTokens:
		d := decoder{rest: f.payload}
		d.appendTokens(nil)
		err = d.end()
	case kindDelta:
		_, err = parseDelta(f.payload)
	case kindError:
		_, _, err = parseError(f.payload)
	default:
		err = errMalformed
	}
	if err == nil && !bytes.Contains(said, []byte{asked}) {
		err = errors.New("no request asked for it")
	}
	if err != nil {
		t.Errorf("%c %q was sent to %q: %v", f.kind, f.payload, said, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
