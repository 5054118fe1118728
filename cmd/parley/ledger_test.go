package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/gateway/db"
	"parley/limit"
)

// A charged is what a client knows that it used, or the ledger.
type charged struct{ Input, Cached, Output, Cost int64 }

// TestLedgerSurvivesCrashes kills a server under load, over and over. Every
// answer that a client has in full is in the ledger once, with the client's own
// numbers; nothing is there that nobody asked; and the sums are those of the rows.
func TestLedgerSurvivesCrashes(t *testing.T) {
	data := t.TempDir()
	acknowledged, sent := map[string]charged{}, 0
	for round := range 3 {
		s := startServerIn(t, data, "--model", "polly-mini", "--prices", "polly-mini=100/10/300", "--share", "off")
		var mu sync.Mutex
		var clients sync.WaitGroup
		for i := range 8 {
			clients.Go(func() {
				for n := 0; ; n++ {
					mu.Lock()
					sent++
					mu.Unlock()
					id, used, err := s.charge(i, n)
					if err != nil {
						return // the server is gone
					}
					mu.Lock()
					acknowledged[id] = used
					mu.Unlock()
				}
			})
		}
		for enough := false; !enough; {
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			enough = len(acknowledged) >= 30*(round+1)
			mu.Unlock()
		}
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		clients.Wait()
		_ = s.cmd.Wait()
		checkLedger(t, data, acknowledged, sent)
	}
	checkUsage(t, data)
}

// charge has a question answered, whole or as a stream, and returns what the
// answer says of its use.
func (s *server) charge(client, n int) (id string, used charged, err error) {
	stream := n%2 == 1
	body := fmt.Sprintf(
		`{"model":"polly-mini","max_tokens":%d,"stream":%v,"messages":[{"role":"user","content":"%d and %d"}]`, 2+n%7,
		stream, client, n)
	if stream {
		body += `,"stream_options":{"include_usage":true}`
	}
	r, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body+"}"))
	if err != nil {
		return "", used, err
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	text := string(all)
	if err != nil || r.StatusCode != http.StatusOK || stream && !strings.Contains(text, "data: [DONE]") {
		return "", used, fmt.Errorf("%d, %w", r.StatusCode, err)
	}
	if stream {
		lines := strings.Split(strings.TrimSpace(text), "\n\n")
		text = strings.TrimPrefix(lines[len(lines)-2], "data: ")
	}
	var said struct {
		Usage struct {
			Prompt  int64 `json:"prompt_tokens"`
			Output  int64 `json:"completion_tokens"`
			Details struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
		Timings struct {
			Cost int64 `json:"cost_micros"`
		}
	}
	err = json.Unmarshal([]byte(text), &said)
	u := &said.Usage
	return r.Header.Get("X-Request-Id"), charged{u.Prompt, u.Details.Cached, u.Output, said.Timings.Cost}, err
}

// ledgerRows reads the ledger as it is on the disk.
func ledgerRows(t *testing.T, data string) map[string]charged {
	d, err := db.Open(t.Context(), filepath.Join(data, "conversations.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rows := map[string]charged{}
	err = d.Read(t.Context(), func(tx *db.Tx) error {
		_, err := db.All(tx, func(r db.Row, _ *struct{}) error {
			var id string
			var c charged
			err := r.Scan(&id, &c.Input, &c.Cached, &c.Output, &c.Cost)
			rows[id] = c // the id is the table's key: it is there once
			return err
		}, `SELECT id, input, cached, output, cost_micros FROM ledger`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func checkLedger(t *testing.T, data string, acknowledged map[string]charged, sent int) {
	t.Helper()
	rows := ledgerRows(t, data)
	if len(rows) < len(acknowledged) || len(rows) > sent {
		t.Errorf("%d rows for %d answers and %d requests", len(rows), len(acknowledged), sent)
	}
	for id, want := range acknowledged {
		if got, ok := rows[id]; !ok || got != want {
			t.Errorf("%s: the ledger has %+v (%v), its client %+v", id, got, ok, want)
		}
	}
	t.Logf("%d requests, %d answers, %d rows", sent, len(acknowledged), len(rows))
}

// checkUsage compares what parley usage says with the rows.
func checkUsage(t *testing.T, data string) {
	var want charged
	rows := ledgerRows(t, data)
	for _, c := range rows {
		want.Input, want.Cached, want.Output, want.Cost = want.Input+c.Input, want.Cached+c.Cached, want.Output+
			c.Output, want.Cost+c.Cost
	}
	s := startServerIn(t, data, "--model", "polly-mini")
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"model", "org", "key", "day"} {
		out, err := exec.CommandContext(t.Context(), exe, "usage", "--url", s.url, "--by", by, "--json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var told struct {
			Total struct {
				Requests int64        `json:"requests"`
				Input    int64        `json:"input_tokens"`
				Cached   int64        `json:"cached_tokens"`
				Output   int64        `json:"output_tokens"`
				Cost     limit.Micros `json:"cost"`
			}
		}
		if err := json.Unmarshal(out, &told); err != nil {
			t.Fatal(err)
		}
		got := charged{told.Total.Input, told.Total.Cached, told.Total.Output, int64(told.Total.Cost)}
		if got != want || told.Total.Requests != int64(len(rows)) {
			t.Errorf("by %s: %+v of %d requests, want %+v of %d", by, got, told.Total.Requests, want, len(rows))
		}
	}
	table, err := exec.CommandContext(t.Context(), exe, "usage", "--url", s.url).Output()
	if err != nil || !strings.Contains(string(table), "polly-mini") || !strings.Contains(string(table), "total") {
		t.Errorf("%v: %s", err, table)
	}
	t.Logf("%s", table)
}
