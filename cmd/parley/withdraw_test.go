package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/supervise"
)

// TestHeldRequestsAreTakenBack fills the two seats of a worker with answers that never
// end, and has it hold a third request. A second worker starts: the gateway takes the
// request back from the first and has it answered there, once, and charged for once.
// Then free answers fill all seats of both: a paid request is answered all the same.
func TestHeldRequestsAreTakenBack(t *testing.T) {
	second, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	i := startIsolated(t, `
pools:
  - {name: all, purpose: any, workers: [{worker}, {url: "http://`+second+`"}]}
`, append([]string{"--first-token-max", "10m", "--queue-wait", "10m"}, freely...)...)
	i.organizations()
	ctx, calm := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer calm()
	long := func(n int) {
		crowd.Go(func() {
			_, _ = i.ask(ctx, "free", "/v1/chat/completions", fmt.Sprintf(
				`{"ignore_eos":true,"max_tokens":1000000,"attention_sink_tokens":4,"messages":[{"role":"user","content":"Client %d: a long story."}]}`, n))
		})
	}
	long(1)
	long(2)
	i.until("the seats are full", func() bool { return i.metric("parley_fleet_worker_answering", "") == 2 })
	held := make(chan asked, 1)
	crowd.Go(func() {
		a, err := i.ask(ctx, "free", "/v1/chat/completions",
			`{"ignore_eos":true,"max_tokens":4,"messages":[{"role":"user","content":"A short one."}]}`)
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		held <- a
	})
	i.until("a request is held", func() bool { return i.metric("parley_fleet_worker_waiting", "") == 1 })
	h := &hand{addr: second, data: t.TempDir()}
	if h.log, err = os.Create(h.data + "/log"); err != nil {
		t.Fatal(err)
	}
	i.start(h, "--seqs", "2")
	select {
	case a := <-held:
		if a.status != http.StatusOK {
			t.Fatalf("the held request: %d %s", a.status, a.body)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the held request waits for answers that never end, beside an idle worker")
	}
	if n, moves := i.metric("parley_fleet_withdrawn_total", ""), i.metric("parley_fleet_moves_total", ""); n != 1 ||
		moves != 0 {
		t.Errorf("%v requests were withdrawn, and %v moved: want 1 and 0", n, moves)
	}
	if rows := ledgerRows(t, i.data); len(rows) != 1 {
		t.Errorf("the ledger has %+v: want the held request, once", rows)
	} else {
		for _, row := range rows {
			if row.Output != 4 {
				t.Errorf("it was charged for %+v", row)
			}
		}
	}
	told := i.get("/admin/api/requests?tenant=free")
	for _, text := range []string{`"wait to begin"`, "withdrawn before it had begun"} {
		if !strings.Contains(told, text) {
			t.Errorf("%s is not in its timeline: %s", text, told)
		}
	}
	for n := range 46 {
		long(n + 3)
	}
	i.until("the queue fills", func() bool { return i.waiting() > 0 })
	for n := range 5 {
		a, err := i.ask(t.Context(), "paid", "/v1/chat/completions",
			fmt.Sprintf(`{"max_tokens":4,"messages":[{"role":"user","content":"%d"}]}`, n))
		if err != nil || a.status != http.StatusOK {
			t.Errorf("paid request %d: %d after %v: %v %s", n, a.status, a.queued, err, a.body)
		}
	}
}

// until waits for something that must come.
func (i *isolated) until(what string, ok func() bool) {
	i.t.Helper()
	for until := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			i.t.Fatalf("waited a minute until %s", what)
		}
	}
}

// get returns what an operator reads at a path.
func (i *isolated) get(path string) string {
	i.t.Helper()
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, i.front.url+path, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+i.keys["operator"])
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	text := string(bodyOf(i.t, response))
	if response.StatusCode != http.StatusOK {
		i.t.Fatalf("%s: %s: %s", path, response.Status, text)
	}
	return text
}
