//go:build unix

package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// socketPair is a connection of this machine, seen from both ends.
func socketPair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if there, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if here, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}

// fill writes events until the connection takes no more, and returns how many.
func fill(t *testing.T, w *wireResponse, event []byte) (events int) {
	t.Helper()
	for w.swift() {
		_, err := w.Write(event)
		if err = errors.Join(err, w.FlushError()); err != nil {
			t.Fatal(err)
		}
		if events++; events > 1_000_000 {
			t.Fatal("a connection that nobody reads takes everything")
		}
	}
	return events
}

// TestFlushNeverWaitsForTheFirstTime fills the connection to a client that does
// not read: no flush waits until one was not taken, the next does, and all arrives.
func TestFlushNeverWaitsForTheFirstTime(t *testing.T) {
	here, there := socketPair(t)
	w := &wireResponse{conn: here, header: http.Header{}, now: newWriteNow(here)}
	event := []byte("data: " + strings.Repeat("x", 1000) + "\n\n")
	events := fill(t, w, event)
	arrived := make(chan []byte)
	go func() {
		response, err := io.ReadAll(there)
		if err != nil {
			t.Error(err)
		}
		arrived <- response
	}()
	_, err := w.Write(event)
	if err = errors.Join(err, w.FlushError(), w.end()); err != nil {
		t.Fatal(err)
	}
	here.Close()
	if got := bytes.Count(<-arrived, event); got != events+1 {
		t.Errorf("%d events of %d arrived", got, events+1)
	}
}

// TestFlushGivesAClientUp lets a client read nothing until its time is over.
func TestFlushGivesAClientUp(t *testing.T) {
	here, _ := socketPair(t)
	w := &wireResponse{conn: here, header: http.Header{}, now: newWriteNow(here)}
	fill(t, w, bytes.Repeat([]byte("x"), 8<<10))
	_ = w.SetWriteDeadline(time.Now().Add(time.Millisecond))
	_, err := w.Write([]byte("more"))
	if err = errors.Join(err, w.FlushError()); err == nil || w.swift() {
		t.Errorf("a client that does not read: %v, swift %v", err, w.swift())
	}
	if again := w.end(); again == nil {
		t.Error("an answer that did not arrive ended well")
	}
}
