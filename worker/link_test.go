package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
// line by itself, as any JSON.
func plainly(said []byte, id uint64) (h heard) {
	lines := bytes.Split(said, []byte{'\n'})
	for _, line := range lines[:len(lines)-1] {
		of, rest, ok := cutID(line)
		if !ok {
			return heard{h.tokens, parley.Unavailable, nil}
		}
		if of != id {
			continue
		}
		var f frame
		if err := json.Unmarshal(rest, &f); err != nil || (f.Delta == nil) == (f.Error == nil) {
			return heard{h.tokens, parley.Unavailable, nil}
		}
		if f.Error != nil {
			return heard{h.tokens, parley.CodeOf(f.Error.err()), nil}
		}
		h.tokens = append(h.tokens, f.Delta.Tokens...)
		if f.Delta.Usage != nil {
			return heard{h.tokens, "", f.Delta.Usage}
		}
	}
	return heard{h.tokens, parley.Unavailable, nil}
}

// TestAWorkerThatIgnoresTheWindow and sends on what nobody reads loses its connection
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
			if _, err := far.Write([]byte("1 {\"delta\":{\"tokens\":[5]}}\n")); err != nil {
				return
			}
		}
	}()
	l.listen()
	if kept := len(unread.in); kept == 0 || kept > most+1 {
		t.Errorf("%d bytes wait, of %d that may", kept, most)
	}
	for frames := 0; ; frames++ {
		if _, err := unread.frame(); errors.Is(err, errUnbidden) && frames > 0 {
			break
		} else if err != nil {
			t.Fatalf("after %d frames: %v", frames, err)
		}
	}
	if _, err := other.frame(); !errors.Is(err, errUnbidden) {
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
	for _, said := range []string{
		"1 {\"delta\":{\"tokens\":[5]}}\n2 {\"delta\":{\"tokens\":[6]}}\n1 " +
			"{\"delta\":{\"tokens\":[7],\"finish\":\"stop\",\"usage\":{\"OutputTokens\":2}}}\n2 " +
			"{\"error\":{\"code\":\"overloaded\",\"message\":\"full\"}}\n",
		"0 !\n1 {\"delta\":{\"tokens\":[5,6]}}\n3 {\"delta\":{}}\n",
		"1 {\"delta\":{\"tokens\":[5]}}\n1 nonsense\n1 {\"delta\":{\"tokens\":[6]}}\n",
		"1 {\"delta\":{\"tokens\":[5]},\"error\":{\"code\":\"internal\"}}\nno line\n",
		"18446744073709551617 {}\n1 {\"delta\":{\"choice\":3,\"text\":\"x\"}}\n1",
		"1 \n2 {\"delta\":null}\n",
	} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		r, err := Dial(Config{URL: "http://worker", Kind: Parley, Silence: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		l := newLink(near, time.Minute)
		streams := []*inflow{l.open(), l.open()}
		l.out.to = deaf{} // what the client says is another target's matter
		go func() { _, _ = far.Write(said); far.Close() }()
		l.listen()
		for i, in := range streams {
			var got heard
			r.readFrames(t.Context(), in, func(d parley.Delta, err error) bool {
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

// FuzzDoor has a client say anything to a worker. The visit ends with it, nothing
// of it stays, and every line that goes out is one of the wire, about a request
// that was heard of.
func FuzzDoor(f *testing.F) {
	for _, said := range []string{
		"1 {\"Prompt\":[5,6,7],\"Window\":2}\n0 ?\n1 2\n1 9\n",
		"1 {\"Prompt\":[5,6,7],\"Window\":1}\n1 {\"Prompt\":[5],\"Window\":1}\n1 -\n",
		"1 {\"Window\":0}\n2 {\"Prompt\":\"x\"}\n3 {\"Window\":1,\"Left\":1,\"Trace\":\"00-1-2-3\"}\n",
		"1 {\"Prompt\":[1],\"Window\":1}\n1 99999999999\n",
		"7 -\n7 3\n0 {\"Window\":1}\n0 !\n",
		"x\n",
	} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		door := &Door{To: echoing{}}
		v := &visit{door: door, conn: far, out: outbox{to: far}, answers: map[uint64]*answering{}}
		door.enter(v)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer door.leave(v)
			v.listen(t.Context(), bufio.NewReader(far))
		}()
		go func() {
			_, _ = near.Write(said)
			near.Close()
		}()
		lines, room := bufio.NewReader(near), []byte(nil)
		for {
			line, err := readLine(lines, lineMax, &room)
			if err != nil {
				break
			}
			checkSaid(t, line, said)
		}
		<-ended
		if len(v.answers) != 0 || len(door.visits) != 0 {
			t.Errorf("%q: %d answers and %d visits stay", said, len(v.answers), len(door.visits))
		}
	})
}

// checkSaid checks a line that a door sent to a client that said something.
func checkSaid(t *testing.T, line, said []byte) {
	t.Helper()
	id, rest, ok := cutID(line)
	if ok && id == 0 && string(rest) == string(pongMark) && bytes.Contains(said, []byte{pingMark}) {
		return
	}
	_, err := parseFrame(rest)
	if !ok {
		err = errors.New("no id")
	}
	if err == nil && !bytes.Contains(said, []byte(`{`)) {
		err = errors.New("nobody asked")
	}
	if err != nil {
		t.Errorf("%q was said to %q: %v", line, said, err)
	}
}
