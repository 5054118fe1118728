package zmq

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l, "tcp://" + l.Addr().String()
}

func connect(t *testing.T, endpoint string, as Role) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), endpoint, as)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// subscribed waits until the publisher's messages arrive.
func subscribed(t *testing.T, p *Publisher, c *Conn, topic string) {
	t.Helper()
	if err := c.Send(append([]byte{1}, topic...)); err != nil {
		t.Fatal(err)
	}
	got := make(chan bool)
	go func() {
		m, err := c.Receive()
		got <- err == nil && string(m[1]) == "hello"
	}()
	for {
		p.Publish([]byte(topic), []byte("hello"))
		select {
		case ok := <-got:
			if !ok {
				t.Fatal("no greeting")
			}
			for len(p.first().queue) > 0 {
				time.Sleep(time.Millisecond)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func (p *Publisher) first() *subscriber {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.conns {
		return s
	}
	return nil
}

// after passes over greetings.
func after(t *testing.T, c *Conn) [][]byte {
	t.Helper()
	for {
		m, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if len(m) < 2 || string(m[1]) != "hello" {
			return m
		}
	}
}

func TestSubscribersGetTheirTopics(t *testing.T) {
	l, endpoint := listen(t)
	p := NewPublisher(l, 1000)
	defer p.Close()
	c := connect(t, endpoint, Sub)
	subscribed(t, p, c, "kv@")
	big := bytes.Repeat([]byte("0123456789"), 300_000)
	p.Publish([]byte("other"), []byte("not for us"))
	p.Publish([]byte("kv@a"), []byte{}, big)
	m := after(t, c)
	if len(m) != 3 || string(m[0]) != "kv@a" || len(m[1]) != 0 || !bytes.Equal(m[2], big) {
		t.Errorf("%d frames, the first %q", len(m), m[0])
	}
	for i := range 500 {
		p.Publish([]byte("kv@a"), fmt.Append(nil, i))
	}
	for i := range 500 {
		if m := after(t, c); string(m[1]) != fmt.Sprint(i) {
			t.Fatalf("message %q came in place of %d", m[1], i)
		}
	}
	if p.Dropped() != 0 {
		t.Errorf("%d messages were dropped", p.Dropped())
	}
}

// TestSlowSubscribersLoseMessages has a subscriber that reads nothing: the
// publisher must not wait, and must count what is lost.
func TestSlowSubscribersLoseMessages(t *testing.T) {
	l, endpoint := listen(t)
	p := NewPublisher(l, 4)
	defer p.Close()
	c := connect(t, endpoint, Sub)
	subscribed(t, p, c, "")
	big := make([]byte, 1<<20)
	for range 200 { // far more than sockets hold
		p.Publish(nil, big)
	}
	if p.Dropped() < 100 {
		t.Errorf("%d of 200 were dropped", p.Dropped())
	}
}

func TestQuestionsAreAnswered(t *testing.T) {
	l, endpoint := listen(t)
	r := NewResponder(l, func(question [][]byte, send func(frames ...[]byte) error) {
		for i := range 3 {
			_ = send(nil, question[1], fmt.Append(nil, i))
		}
		_ = send(nil, nil)
	})
	defer r.Close()
	c := connect(t, endpoint, Dealer)
	for _, q := range []string{"one", "two"} {
		if err := c.Send(nil, []byte(q)); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			m, err := c.Receive()
			if err != nil || len(m) != 3 || string(m[1]) != q || string(m[2]) != fmt.Sprint(i) {
				t.Fatalf("%q, %v", m, err)
			}
		}
		if m, err := c.Receive(); err != nil || len(m) != 2 {
			t.Fatalf("%q, %v", m, err)
		}
	}
}

func TestWrongPartnersAreRefused(t *testing.T) {
	l, endpoint := listen(t)
	p := NewPublisher(l, 4)
	defer p.Close()
	if c, err := Dial(t.Context(), endpoint, Dealer); err == nil {
		c.Close()
		t.Error("a dealer was connected to a publisher")
	}
	if _, err := Dial(t.Context(), "ipc:///x", Sub); err == nil {
		t.Error("an endpoint that is not TCP was taken")
	}
}

// deadless is a pipe that takes deadlines after its other end was closed.
type deadless struct{ net.Conn }

func (deadless) SetDeadline(time.Time) error { return nil }

// play gives a connection bytes from a stranger.
func play(data []byte) *Conn {
	ours, theirs := net.Pipe()
	go func() {
		go io.Copy(io.Discard, theirs)
		_, _ = theirs.Write(data)
		theirs.Close()
	}()
	c, err := Greet(deadless{ours}, Sub)
	if err != nil {
		ours.Close()
		return nil
	}
	return c
}

// greeting is what libzmq 4.3 sends: ZMTP 3.1 and a PUB socket.
func greeting() []byte {
	var hello [64]byte
	hello[0], hello[8], hello[9], hello[10], hello[11] = 0xff, 1, 0x7f, 3, 1
	copy(hello[12:], "NULL")
	return append(hello[:], "\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB\x08Identity\x00\x00\x00\x00"...)
}

func TestHostileLengths(t *testing.T) {
	for name, data := range map[string]string{
		"long":     "\x02\xff\xff\xff\xff\xff\xff\xff\xff",
		"command":  "\x06\x00\x00\x00\x00\x10\x00\x00\x00",
		"flags":    "\xf0\x00",
		"cut":      "\x02\x00\x00\x00\x00\x03\x00\x00\x00half",
		"property": "",
	} {
		c := play(append(greeting(), data...))
		if c == nil {
			t.Fatalf("%s: not greeted", name)
		}
		if m, err := c.Receive(); err == nil {
			t.Errorf("%s gave %q", name, m)
		} else if name == "long" && !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x02hi"))
	f.Add([]byte("\x04\x07\x04PING\x00\x0actx\x00\x01x"))
	f.Add([]byte("\x04\x0b\x09SUBSCRIBEa"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := play(append(greeting(), data...))
		if c == nil {
			t.Fatal("not greeted")
		}
		defer c.Close()
		for {
			m, err := c.Receive()
			if err != nil {
				return
			}
			if len(m) == 0 || len(m) > framesMax {
				t.Fatalf("%d frames", len(m))
			}
		}
	})
}

func FuzzGreet(f *testing.F) {
	f.Add(greeting())
	f.Add(append(greeting()[:64], "\x04\x10\x05READY\xff"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c := play(data); c != nil {
			c.Close()
		}
	})
}
