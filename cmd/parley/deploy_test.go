package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/cli/remote"
	"parley/cli/serve"
	"parley/cli/settings"
	"parley/gateway"
	"parley/gateway/record"
	"parley/internal/testkit"

	"github.com/goccy/go-yaml"
)

// A ruleFile is what is read of the alert rules.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) (rules ruleFile) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testkit.Root(), "deploy/alerts/parley.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) != 1 || len(rules.Groups[0].Rules) < 10 {
		t.Fatalf("rules %+v", rules)
	}
	return rules
}

// expressions are all that alerts and dashboards ask Prometheus, by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, r := range readRules(t).Groups[0].Rules {
		found["alert "+r.Alert] = r.Expr
	}
	boards, err := filepath.Glob(filepath.Join(testkit.Root(), "deploy/grafana/*.json"))
	if err != nil || len(boards) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range boards {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil || len(board.Panels) < 10 {
			t.Fatalf("%s: %d panels, %v", file, len(board.Panels), err)
		}
		for _, p := range board.Panels {
			for i, target := range p.Targets {
				found[fmt.Sprintf("%s, panel %s, %d", filepath.Base(file), p.Title, i)] = target.Expr
			}
		}
	}
	return found
}

var metricName = regexp.MustCompile(`\b(?:parley|process|vllm)[_:][a-z0-9_:]+`)

// TestEveryMetricOfTheDashboardsMoves runs a server under every kind of load, and
// wants each metric that an alert or a dashboard names to be there and not 0.
func TestEveryMetricOfTheDashboardsMoves(t *testing.T) {
	s := startServer(t, "--model", "polly", "--kv-tokens", "1024", "--seqs", "3", "--queue-depth", "12", "--slo-tpot",
		"12ms", "--log-level", "error")
	seen := map[string]bool{}
	look := func() {
		for _, m := range remote.ParseMetrics(s.metrics(t)) {
			seen[m.Name] = seen[m.Name] || m.Value != 0
		}
	}
	for _, more := range []map[string]bool{failingMetrics(t), guessedMetrics(t), fleetMetrics(t), budgetMetrics(t)} {
		for name, moved := range more {
			seen[name] = seen[name] || moved
		}
	}
	wanted := expressions(t)
	s.storm(t, func() (more bool) { // how long a wait is takes a while to know
		look()
		return someStill(seen, wanted)
	})
	for where, expr := range wanted {
		names := metricName.FindAllString(expr, -1)
		if len(names) == 0 && !strings.HasPrefix(expr, "up{") {
			t.Errorf("%s names no metric of ours: %s", where, expr)
		}
		for _, name := range names {
			switch moved, exists := seen[name]; {
			case !exists:
				t.Errorf("%s names %s, which there is not", where, name)
			case !moved:
				t.Errorf("%s names %s, which stayed 0 under load", where, name)
			}
		}
	}
}

// someStill reports whether a metric that is wanted has not moved.
func someStill(seen map[string]bool, wanted map[string]string) bool {
	for _, expr := range wanted {
		for _, name := range metricName.FindAllString(expr, -1) {
			if !seen[name] {
				return true
			}
		}
	}
	return false
}

// storm lets many ask at once, again and again as long as look wants more, but for two minutes
// at most: long and short, alike and not, some for the second time, some who leave.
func (s *server) storm(t *testing.T, look func() (more bool)) {
	var group sync.WaitGroup
	wanted, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	ask := func(i int) {
		prompt := strings.Repeat("Tell me the same story again and again. ", 4)
		if i%3 == 0 {
			prompt = fmt.Sprintf("Story %d: %s", i, strings.Repeat("once upon a time ", 40))
		}
		ctx, cancel := context.WithTimeout(wanted, time.Minute)
		if i%8 == 7 {
			ctx, cancel = context.WithTimeout(wanted, 300*time.Millisecond)
		}
		defer cancel()
		s.askOnce(ctx, t,
			fmt.Sprintf(
				`{"messages":[{"role":"user","content":%q}],"ignore_eos":true,"temperature":0,"max_tokens":%d}`,
				prompt, 240+5*i), i%4)
	}
	for i := range 40 {
		group.Go(func() {
			for wanted.Err() == nil {
				ask(i)
				time.Sleep(20 * time.Millisecond) // rejected requests are retried after a pause
			}
		})
	}
	for look() && wanted.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	group.Wait()
}

func (s *server) askOnce(ctx context.Context, t *testing.T, body string, retry int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Stainless-Retry-Count", fmt.Sprint(retry))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return // it left, as some should
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
}

// A failingWorker answers nobody.
type failingWorker struct{ models []parley.Model }

func (f failingWorker) Models() []parley.Model { return f.models }

func (f failingWorker) Generate(context.Context, *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		yield(parley.Delta{}, parley.Errorf(parley.Internal, "out of order"))
	}
}

// failingMetrics are what a gateway counts whose worker is out of order: that
// opens breakers, which no healthy server does.
func failingMetrics(t *testing.T) map[string]bool {
	set := settings.Default()
	set.Models = []settings.Model{{Path: "polly"}}
	log := set.Logger()
	served, err := serve.Fronts(set, log)
	if err != nil {
		t.Fatal(err)
	}
	served[0].Worker = failingWorker{[]parley.Model{{ID: served[0].ID, ContextTokens: served[0].ContextTokens}}}
	registry := record.NewRegistry()
	front, err := gateway.New(gateway.Config{Models: served, Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close(t.Context())
	for range 50 {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions",
			strings.NewReader(`{"messages":[{"role":"user","content":"x"}]}`))
		r.Header.Set("Content-Type", "application/json")
		front.ServeHTTP(httptest.NewRecorder(), r)
	}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	moved := map[string]bool{}
	for _, f := range gathered {
		for _, m := range f.GetMetric() {
			if f.GetName() == "parley_breaker_state" && m.GetGauge().GetValue() == 2 {
				moved[f.GetName()] = true
			}
		}
	}
	return moved
}

// TestEveryAlertIsInTheRunbook wants a section for each, where its annotation points.
func TestEveryAlertIsInTheRunbook(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testkit.Root(), "docs/runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	var alerts []string
	for _, r := range readRules(t).Groups[0].Rules {
		alerts = append(alerts, r.Alert)
		if want := "docs/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
			t.Errorf("%s points to %q, not to %q", r.Alert, r.Annotations["runbook"], want)
		}
		_, section, ok := strings.Cut(string(text), "\n### "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		for _, part := range []string{"**Means.**", "**Look.**", "**Do.**"} {
			if !ok || !strings.Contains(section, part) {
				t.Errorf("the runbook does not say under %s what it %s", r.Alert, part)
			}
		}
	}
	for _, found := range regexp.MustCompile(`\n### (Parley\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains(alerts, found[1]) {
			t.Errorf("the runbook has %s, which is no alert", found[1])
		}
	}
}
