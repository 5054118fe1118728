package main

import (
	"encoding/json"
	"net/http"
	"syscall"
	"testing"
	"time"

	"parley/gateway/ops"
)

// TestChartsOutliveARestart answers a request, ends the server and starts it again: the
// charts of all ranges that are longer than the pause show the request once.
func TestChartsOutliveARestart(t *testing.T) {
	data := t.TempDir()
	first := startServerIn(t, data, "--model", "polly-mini")
	command(t, "", "chat", "--url", first.url, "--model", "polly-mini", "hello")
	if err := first.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := first.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	second := startServerIn(t, data, "--model", "polly-mini")
	for _, length := range []string{"15m", "1h", "6h", "24h", "7d", "30d"} {
		want := uint64(1)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			got := firstTokens(t, second.url, length)
			if got == want {
				break
			}
			if got > want || time.Now().After(deadline) {
				t.Errorf("%s: the charts count %d first tokens, want %d", length, got, want)
				break
			}
		}
	}
}

// firstTokens counts the first tokens that charts show.
func firstTokens(t *testing.T, url, length string) (n uint64) {
	t.Helper()
	resp, err := http.Get(url + "/admin/api/history?range=" + length)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var list ops.HistoryList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d: %v", resp.StatusCode, err)
	}
	for _, p := range list.Data {
		for _, count := range p.TTFTCounts {
			n += count
		}
	}
	return n
}
