package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A crowded is a server with few seats, and keys of two tenants.
type crowded struct {
	*server
	t                 *testing.T
	admin, free, paid string
}

const crowdedSeats = 4

func startCrowded(t *testing.T) *crowded {
	t.Helper()
	data := t.TempDir()
	c := &crowded{t: t}
	for key, args := range map[*string][]string{
		&c.admin: {"me", "--admin"},
		&c.free:  {"many", "--org", "many", "--tier", "free"},
		&c.paid:  {"payer", "--org", "payer", "--tier", "pro"},
	} {
		made, err := invoke(t, append([]string{"keys", "create", "--data", data}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		*key = made
	}
	config := filepath.Join(t.TempDir(), "parley.yaml")
	none := "{requests_per_second: none, requests_per_minute: none, input_tokens_per_minute: none, " +
		"output_tokens_per_minute: none, concurrent_requests: none}"
	if err := os.WriteFile(config, []byte("tiers:\n  free: "+none+"\n  pro: "+none+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.server = startServerIn(t, data, "--config", config, "--model", "polly-mini", "--seqs", strconv.Itoa(crowdedSeats),
		"--share", "off", "--titles", "off", "--log-level", "warn", "--shed-start", "10m")
	go func() {
		for line := range c.lines {
			t.Log(line)
		}
	}()
	return c
}

// An answered is what a request brought.
type answered struct {
	ID      string
	Choices []struct {
		Message struct{ Content string }
	}
	Timings struct {
		QueuedMs  float64 `json:"queued_ms"`
		PrefillMs float64 `json:"prefill_ms"`
	}
	Usage struct {
		CompletionTokens int `json:"completion_tokens"`
	}
	header http.Header
}

func (c *crowded) ask(ctx context.Context, key, question string, tokens int) (a answered, err error) {
	body := fmt.Sprintf(
		`{"model":"polly-mini","temperature":0,"ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, tokens, question)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	a.header = response.Header
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

// metric returns the sum of a metric's values.
func (c *crowded) metric(name string) (sum float64) {
	c.t.Helper()
	for line := range strings.Lines(c.get("/metrics")) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			_, value, _ := strings.Cut(rest, "} ")
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				c.t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// get returns what the operator sees at a path.
func (c *crowded) get(path string) string {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.admin)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s, %v: %s", path, response.Status, err, text)
	}
	return string(text)
}

// TestPaidGoesBeforeFullSeats fills the seats of a server with free answers, with more
// that wait. Paid requests have their first token within a few steps; none of them
// waits until a free answer ends. Free answers that gave up their seats end with the
// text that they have alone, and the timeline says what they waited for.
func TestPaidGoesBeforeFullSeats(t *testing.T) {
	c := startCrowded(t)
	question := func(i int) string { return fmt.Sprintf("Client %d wants a long story about a river.", i) }
	const clients, tokens = 3 * crowdedSeats, 600
	alone := make([]answered, 2)
	for i := range alone {
		var err error
		if alone[i], err = c.ask(t.Context(), c.free, question(i), tokens); err != nil {
			t.Fatal(err)
		}
	}
	ctx, calm := context.WithCancel(t.Context())
	defer calm()
	var crowd sync.WaitGroup
	together := make([]answered, len(alone))
	for i := range clients {
		crowd.Go(func() {
			a, err := c.ask(ctx, c.free, question(i), tokens)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			if i < len(together) {
				together[i] = a
			}
		})
	}
	for until := time.Now().Add(time.Minute); c.metric("parley_engine_running") < crowdedSeats; time.Sleep(
		5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the seats do not fill")
		}
	}
	steps, took := c.metric("parley_engine_step_seconds_count"), c.metric("parley_engine_step_seconds_sum")
	var waits []float64
	for i := range 40 {
		a, err := c.ask(t.Context(), c.paid, fmt.Sprintf("Question %d?", i), 4)
		if err != nil {
			t.Fatal(err)
		}
		queued, _ := strconv.ParseFloat(a.header.Get("X-Queue-Wait"), 64)
		waits = append(waits, 1000*queued+a.Timings.QueuedMs+a.Timings.PrefillMs)
	}
	step := 1000 * (c.metric("parley_engine_step_seconds_sum") - took) / (c.metric(
		"parley_engine_step_seconds_count") - steps)
	slices.Sort(waits)
	t.Logf("steps of %.2f ms, first tokens after %.2f ms (median), %.2f ms (most); %v seats were given up",
		step, waits[len(waits)/2], waits[len(waits)-1], c.metric("parley_engine_seat_preemptions_total"))
	if yielded := c.metric("parley_engine_seat_preemptions_total"); yielded == 0 || waits[len(waits)-1] > 30_000 {
		t.Errorf("%v seats were given up, and a first token took %.2f ms", yielded, waits[len(waits)-1])
	}
	crowd.Wait()
	for i := range alone {
		if together[i].Choices[0].Message.Content != alone[i].Choices[0].Message.Content {
			t.Errorf("client %d reads another text than alone", i)
		}
	}
	paid, free := c.get("/admin/api/requests?tenant=payer"), c.get("/admin/api/requests?tenant=many")
	for _, text := range []string{`"wait for a seat"`, `"wait for memory"`} {
		if strings.Contains(paid, text) {
			t.Errorf("a paid request has a stage %s", text)
		}
	}
	if !strings.Contains(free, `"wait for a seat"`) || strings.Contains(free, `"wait for memory"`) ||
		!strings.Contains(free, `"note":"preempted `) {
		t.Errorf("free requests waited for seats alone, and gave up theirs; told is %s", free)
	}
}
