package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cli/remote"
	"parley/internal/testkit"
)

// A hook is a receiver of alerts.
type hook struct {
	*httptest.Server
	mu   sync.Mutex
	told []map[string]any
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var alert map[string]any
		if err := json.NewDecoder(r.Body).Decode(&alert); err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.told = append(h.told, alert)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) heard() []map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]map[string]any(nil), h.told...)
}

// spendOne has a server answer a short question, and returns how much of a budget
// its header says is used.
func (s *server) spendOne(t *testing.T, key string) (status int, used string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(
		`{"model":"polly-mini","max_tokens":4,"ignore_eos":true,"metadata":{"project":"search"},`+
			`"messages":[{"role":"user","content":"Hello!"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header.Get("X-Parley-Budget-Used")
}

// endAndRead ends a server and returns what it had said.
func (s *server) endAndRead(t *testing.T) string {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for line := range s.lines {
		said.WriteString(line + "\n")
	}
	return said.String()
}

// TestBudgetAlert spends a key's budget at a real server: it is told once, in all
// places, and not again after a restart.
func TestBudgetAlert(t *testing.T) {
	data, receiver := t.TempDir(), newHook(t)
	key := makeKey(t, "site", "--org", "acme", "--tier", "enterprise", "--monthly-budget", "0.01", "--budget-alert",
		"0.5", "--data", data)
	// an answer costs 0.0004
	args := []string{"--model", "polly-mini", "--prices", "polly-mini=0/0/100", "--budget-webhook", receiver.URL,
		"--metrics-open"}
	s := startServerIn(t, data, args...)
	answers, used := 0, ""
	for used == "" && answers < 25 {
		status := 0
		if status, used = s.spendOne(t, key); status != 200 {
			t.Fatalf("answer %d: %d", answers, status)
		}
		answers++
	}
	if answers != 14 || used != "0.52" { // 13 answers are more than half
		t.Errorf("answer %d says that %s is used", answers, used)
	}
	for status := 200; status == 200; answers++ {
		status, used = s.spendOne(t, key)
	}
	if answers != 26 || used != "1.00" {
		t.Errorf("answer %d is refused, and %s used", answers, used)
	}
	until(t, "the webhook is told", func() bool { return len(receiver.heard()) > 0 })
	if metrics := string(s.metrics(t)); !strings.Contains(metrics, `parley_budget_alerts_total{of="key"} 1`) ||
		!strings.Contains(metrics, `parley_budget_webhook_total{outcome="delivered"} 1`) {
		t.Error("the metrics do not tell the alert")
	}
	if list, err := invoke(t, "keys", "list", "--data", data); err != nil ||
		!strings.Contains(list, " 0.01 of 0.01 (100%, spent) ") {
		t.Errorf("%v: %s", err, list)
	}
	if list, err := invoke(t, "keys", "list", "--json", "--data", data); err != nil || !strings.Contains(list,
		`"used": 1,`) || !strings.Contains(list, `"state": "spent"`) || !strings.Contains(list, `"budget_alert": 0.5`) {
		t.Errorf("%v: %s", err, list)
	}
	first := s.endAndRead(t)
	line := regexp.MustCompile(
		`WARN.*budget nearly spent.* organization=acme key=site prefix=` + key[:11] +
			`… spent=0.0052 budget=0.01 used=0.52 `)
	if !line.MatchString(first) || strings.Contains(first, key) {
		t.Errorf("the log is:\n%s", first)
	}

	again := startServerIn(t, data, args...)
	if status, _ := again.spendOne(t, key); status != 429 {
		t.Errorf("after a restart: %d", status)
	}
	if said := first + again.endAndRead(t); strings.Count(said, "budget nearly spent") != 1 ||
		len(receiver.heard()) != 1 {
		t.Errorf("it is told %d times:\n%s", len(receiver.heard()), said)
	}
	told, _ := receiver.heard()[0]["text"].(string)
	if !strings.HasPrefix(told,
		"The key site ("+key[:11]+"…) of acme has spent 0.0052 of its budget of 0.01 usd for ") {
		t.Errorf("the webhook hears %q", told)
	}
}

func makeKey(t *testing.T, args ...string) string {
	t.Helper()
	key, err := invoke(t, append([]string{"keys", "create"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestBudgetAlertOfTwoGateways has two gateways share a PostgreSQL and a Redis, and
// a tenant's budget that each of them spends a part of.
func TestBudgetAlertOfTwoGateways(t *testing.T) {
	receiver, store, redis := newHook(t), testkit.PostgresDSN(t), testkit.StartRedis(t)
	key := makeKey(t, "site", "--org", "acme", "--tier", "enterprise", "--store", store)
	args := []string{"--model", "polly-mini", "--prices", "polly-mini=0/0/100", "--budget-webhook", receiver.URL,
		"--store", store, "--redis", redis.URL, "--tiers", "enterprise.monthly-budget=0.02", "--tiers",
		"enterprise.budget-alert=0.7"}
	both := []*server{startServer(t, args...), startServer(t, args...)}
	used := ""
	for i := range 50 {
		status := 0
		if status, used = both[i%2].spendOne(t, key); status != 200 {
			t.Fatalf("answer %d: %d", i, status)
		}
		if early := i < 35; (used == "") != early {
			t.Fatalf("after %d answers %q is used", i, used)
		}
	}
	until(t, "the webhook is told", func() bool { return len(receiver.heard()) > 0 })
	said := both[0].endAndRead(t) + both[1].endAndRead(t)
	if strings.Count(said, "budget nearly spent") != 1 || len(receiver.heard()) != 1 {
		t.Errorf("it is told %d times:\n%s", len(receiver.heard()), said)
	}
	if told := receiver.heard()[0]; told["id"] != "acme@"+time.Now().UTC().Format("2006-01") || told["key"] != nil {
		t.Errorf("the webhook hears %v", told)
	}
}

// budgetMetrics are what a server counts when a budget is nearly spent.
func budgetMetrics(t *testing.T) map[string]bool {
	data, receiver := t.TempDir(), newHook(t)
	key := makeKey(t, "site", "--tier", "enterprise", "--monthly-budget", "0.001", "--budget-alert", "0.3", "--data",
		data)
	s := startServerIn(t, data, "--model", "polly-mini", "--prices", "polly-mini=0/0/100", "--budget-webhook",
		receiver.URL, "--metrics-open")
	if status, _ := s.spendOne(t, key); status != 200 {
		t.Fatalf("status %d", status)
	}
	moved := map[string]bool{}
	until(t, "the webhook is told", func() bool {
		for _, m := range remote.ParseMetrics(s.metrics(t)) {
			if strings.HasPrefix(m.Name, "parley_budget_") && m.Value != 0 {
				moved[m.Name] = true
			}
		}
		return len(moved) == 2
	})
	return moved
}
