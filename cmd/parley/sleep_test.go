package main

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"parley/cli/remote"
)

// TestSleepingWorkers puts both workers of a gateway to sleep, one while it
// writes. A request wakes one of them, waits for it, and is answered as before;
// the other one sleeps on until an operator wakes it.
func TestSleepingWorkers(t *testing.T) {
	c := startCrew(t, 2)
	body := wishes()[3]
	want, err := hearAll(t.Context(), c.front.url, body)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan heardStream)
	go func() {
		h, err := hearAll(t.Context(), c.front.url, body)
		if err != nil {
			t.Error(err)
		}
		heard <- h
	}()
	for _, h := range c.workers {
		c.tell(h, "sleep?within=100ms")
	}
	if got := <-heard; !reflect.DeepEqual(got, want) {
		t.Errorf("an answer that was under way became %+v, want %+v", got, want)
	}
	c.settle("asleep", 1) // the answer may have woken one
	for _, h := range c.workers {
		c.tell(h, "sleep")
	}
	c.settle("asleep", 2)
	got, err := hearAll(t.Context(), c.front.url, body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: woken, it says %+v, want %+v", err, got, want)
	}
	if up, asleep := c.count("up"), c.count("asleep"); up != 1 || asleep != 1 {
		t.Errorf("%d are up and %d asleep after one was needed", up, asleep)
	}
	for _, h := range c.workers {
		c.tell(h, "wake")
	}
	c.settle("up", 2)
}

// tell has the gateway do something to a worker.
func (c *crew) tell(h *hand, verb string) {
	c.t.Helper()
	k, err := remote.New(c.front.url)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := k.Send(c.t.Context(), http.MethodPost, "/fleet/workers/"+h.addr+"/"+verb, []byte{})
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body.Close()
}

// settle waits until so many workers are in a state.
func (c *crew) settle(state string, n int) {
	c.t.Helper()
	for until := time.Now().Add(time.Minute); c.count(state) < n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			c.t.Fatalf("%d workers are %s, want %d: %+v", c.count(state), state, n, c.standings())
		}
	}
}
