package zmq

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// ends reports whether the other side closes the connection, within a time.
func ends(t *testing.T, c *Conn) bool {
	t.Helper()
	_ = c.raw.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		if _, err := c.Receive(); err != nil {
			timeout, ok := err.(interface{ Timeout() bool })
			return !ok || !timeout.Timeout()
		}
	}
}

// TestSubscriptionsTakeNoMemory has subscribers send topics of 60 MiB, as messages of
// ZMTP 3.0 and split into frames: each ends its connection, and no memory grows.
func TestSubscriptionsTakeNoMemory(t *testing.T) {
	l, endpoint := listen(t)
	p := NewPublisher(l, 4)
	defer p.Close()
	topic := make([]byte, 60<<20)
	topic[0] = 1
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 10 {
		c := connect(t, endpoint, Sub)
		_ = c.Send(topic) // it may be cut while it is sent
		if !ends(t, c) {
			t.Fatal("a subscription of 60 MiB was accepted")
		}
		c.Close()
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("10 subscriptions of 60 MiB had %d MiB allocated", grown>>20)
	}
}

func TestTopicsAndQuestionsAreShort(t *testing.T) {
	l, endpoint := listen(t)
	p := NewPublisher(l, 4)
	defer p.Close()
	c := connect(t, endpoint, Sub)
	subscribed(t, p, c, string(bytes.Repeat([]byte("t"), topicBytesMax)))
	if err := c.Send(append([]byte{1}, make([]byte, topicBytesMax+1)...)); err != nil {
		t.Fatal(err)
	}
	if !ends(t, c) {
		t.Errorf("a topic of %d bytes was accepted", topicBytesMax+1)
	}
	c = connect(t, endpoint, Sub)
	c.wmu.Lock()
	c.writeFrame(append([]byte("\x09SUBSCRIBE"), make([]byte, topicBytesMax+1)...), flagCommand) // ZMTP 3.1
	err := c.flush()
	c.wmu.Unlock()
	if err != nil || !ends(t, c) {
		t.Errorf("a topic of %d bytes in a command was accepted, %v", topicBytesMax+1, err)
	}

	asked, endpoint := listen(t)
	r := NewResponder(asked, func(_ [][]byte, send func(frames ...[]byte) error) { _ = send(nil, []byte("answer")) })
	defer r.Close()
	c = connect(t, endpoint, Dealer)
	if err := c.Send(nil, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	if m, err := c.Receive(); err != nil {
		t.Errorf("a question of 64 bytes: %q, %v", m, err)
	}
	if err := c.Send(nil, make([]byte, 65)); err != nil {
		t.Fatal(err)
	}
	if !ends(t, c) {
		t.Error("a question of 65 bytes was answered")
	}
}

// TestConnectionsAreBounded opens more connections than a socket keeps: those beyond
// the bound are closed, and there is room again when one has left.
func TestConnectionsAreBounded(t *testing.T) {
	l, endpoint := listen(t)
	p := NewPublisher(l, 4)
	defer p.Close()
	var all []*Conn
	for range connectionsMax {
		all = append(all, connect(t, endpoint, Sub))
	}
	if c, err := Dial(t.Context(), endpoint, Sub); err == nil {
		c.Close()
		t.Fatalf("connection %d was accepted", connectionsMax+1)
	}
	all[0].Close()
	for until := time.Now().Add(time.Minute); ; {
		c, err := Dial(t.Context(), endpoint, Sub)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(until) {
			t.Fatalf("no connection is accepted after one has left: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
}
