package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// A spoken is a stream of an answer, read as it comes.
type spoken struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
	text     strings.Builder
}

func (s *server) speaks(t *testing.T, header, body string) *spoken {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Cache-Control", header)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
	return &spoken{t: t, response: response, lines: bufio.NewScanner(response.Body)}
}

// listen reads on until so many bytes of text have come, or to the end, and reports
// whether that is it.
func (s *spoken) listen(bytes int) (ended bool) {
	s.t.Helper()
	for s.text.Len() < bytes {
		if !s.lines.Scan() {
			s.t.Fatalf("the stream broke off after %d bytes of text: %v", s.text.Len(), s.lines.Err())
		}
		line, isData := strings.CutPrefix(s.lines.Text(), "data: ")
		if line == "[DONE]" {
			return true
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
			Error   any
		}
		if !isData {
			continue
		}
		if err := json.Unmarshal([]byte(line), &chunk); err != nil || chunk.Error != nil {
			s.t.Fatalf("%v: %s", err, line)
		}
		for _, c := range chunk.Choices {
			s.text.WriteString(c.Delta.Content)
		}
	}
	return false
}

// TestTwoServersShareAnAnswer has two servers with one Redis and one store asked the
// same. The second streams what the first computes, and when the first is killed it
// computes the rest: its client reads the text that it would have read anyway.
func TestTwoServersShareAnAnswer(t *testing.T) {
	redis := testkit.StartRedis(t)
	store := filepath.Join(t.TempDir(), "store.db")
	var pair [2]*server
	for i := range pair {
		pair[i] = startServer(t, "--model", "polly-mini", "--store", store, "--redis", redis.URL, "--titles", "off",
			"--log-level", "warn", "--speculate", "off")
		go func() {
			for range pair[i].lines {
			}
		}()
	}
	ask := func(n int) string {
		return fmt.Sprintf(
			`{"model":"polly-mini","stream":true,"temperature":0,"ignore_eos":true,"max_tokens":%d,"messages":[{"role":"user","content":"Tell me about rivers."}]}`, n)
	}
	const tokens = 1500
	alone := pair[1].speaks(t, "no-store", ask(tokens))
	for !alone.listen(1 << 20) {
	}
	first := pair[0].speaks(t, "max-age=0", ask(tokens))
	first.listen(10)
	second := pair[1].speaks(t, "max-age=0", ask(tokens))
	second.listen(10)
	if second.response.Header.Get("X-Answer-Shared") != "true" {
		t.Error("the second server does not say that its answer is shared")
	}
	if err := pair[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	had := second.text.Len()
	for !second.listen(1 << 20) {
	}
	if second.text.String() != alone.text.String() {
		t.Errorf("the second server's client had %d bytes when the first was killed, then read\n%s\nwant\n%s", had,
			&second.text, &alone.text)
	}
	if first.text.Len() >= second.text.Len() {
		t.Error("the answer was complete before the first server was killed: this tests nothing")
	}
}
