package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/cli/remote"
	"parley/fleet"
	"parley/route/kvindex"
)

// fleetMetrics are what a gateway counts of its workers while one is killed, one
// sleeps, nobody is there, and somebody's prompts change near their beginning.
func fleetMetrics(t *testing.T) map[string]bool {
	c := startCrew(t, 2)
	seen := map[string]bool{}
	look := func() {
		for _, m := range remote.ParseMetrics(c.front.metrics(t)) {
			if strings.HasPrefix(m.Name, "parley_fleet_") || strings.HasPrefix(m.Name, "parley_prefix_") {
				seen[m.Name] = seen[m.Name] || m.Value != 0
			}
		}
	}
	until := func(names ...string) {
		for end := time.Now().Add(time.Minute); !all(seen, names); time.Sleep(50 * time.Millisecond) {
			if look(); time.Now().After(end) {
				t.Errorf("%v stayed 0", names)
				return
			}
		}
	}
	c.changePrompts()
	until("parley_prefix_breaks_total")
	c.tell(c.workers[1], "sleep")
	until("parley_fleet_worker_asleep")
	c.tell(c.workers[1], "wake")
	for _, h := range c.workers { // they come back with few seats, so that some wait in them
		c.restart(h, "--seqs", "2")
	}
	c.settle("up", 2)
	var streams sync.WaitGroup
	var enough atomic.Bool
	for i := range 32 {
		streams.Go(func() {
			for more := true; more; more = !enough.Load() { // until all was seen, however quick the machine is
				if _, err := hearAll(t.Context(), c.front.url, storyBody(i, 192)); err != nil {
					t.Errorf("an answer did not go on elsewhere: %v", err)
				}
			}
		})
	}
	until("parley_fleet_worker_waiting", "parley_fleet_worker_kv_usage", "parley_fleet_worker_answering")
	for _, h := range c.workers { // with all gone, answers wait for one to come back
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	}
	until("parley_fleet_moves_total", "parley_fleet_waits_total")
	enough.Store(true)
	for _, h := range c.workers {
		c.start(h)
	}
	streams.Wait()
	look()
	return seen
}

func all(seen map[string]bool, names []string) bool {
	for _, name := range names {
		if !seen[name] {
			return false
		}
	}
	return true
}

// restart kills a worker and starts it with other flags.
func (c *crew) restart(h *hand, flags ...string) {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
	c.start(h, flags...)
	c.await(h)
}

// changePrompts sends prompts that begin alike, and then some that do not.
func (c *crew) changePrompts() {
	for i := range 160 {
		begin := ""
		if i >= 80 {
			begin = fmt.Sprintf("At %d:%d o'clock. ", 7*i, i*i)
		}
		body := fmt.Sprintf(`{"stream":true,"max_tokens":1,"messages":[{"role":"user","content":%q}]}`,
			begin+strings.Repeat("Tell me of the lighthouse and its keeper. ", 12))
		if _, err := hearAll(c.t.Context(), c.front.url, body); err != nil {
			c.t.Fatal(err)
		}
	}
}

func storyBody(i, tokens int) string {
	return fmt.Sprintf(
		`{"stream":true,"ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":"Story %d: tell me of a lighthouse."}]}`, tokens, i)
}

// guessedMetrics are what a fleet counts whose worker's events have a hole that
// nothing fills, which happens on no healthy network.
func guessedMetrics(t *testing.T) map[string]bool {
	registry := prometheus.NewRegistry()
	served := []parley.Model{{ID: "m", ContextTokens: 512}}
	f, err := fleet.New(fleet.Config{Models: served, Pools: []fleet.Pool{{Name: "a", Purpose: fleet.AnyPurpose}},
		Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	heard := make(chan struct{})
	err = f.Join(fleet.Member{Name: "w", Pool: "a", Worker: failingWorker{served}, BlockTokens: 16,
		Source: kvindex.Source{Events: true}, Follow: func(ctx context.Context, to *fleet.Feed) error {
			to.Apply(kvindex.Batch{Seq: 1})
			to.Apply(kvindex.Batch{Seq: 9})
			close(heard)
			<-ctx.Done()
			return ctx.Err()
		}})
	if err != nil {
		t.Fatal(err)
	}
	<-heard
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	moved := map[string]bool{}
	for _, family := range gathered {
		for _, m := range family.GetMetric() {
			if family.GetName() == "parley_fleet_index_degraded" && m.GetGauge().GetValue() == 1 {
				moved[family.GetName()] = true
			}
		}
	}
	return moved
}
