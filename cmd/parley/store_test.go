package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fetch sends a request to the server and reads the whole answer as JSON.
func (s *server) fetch(t *testing.T, method, path, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	var answer map[string]any
	if err != nil || json.Unmarshal(raw, &answer) != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return response.StatusCode, answer
}

// kill ends the server as a crash or a power cut would.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// lastItem returns the newest item of a conversation.
func (s *server) lastItem(t *testing.T, path string) map[string]any {
	t.Helper()
	_, list := s.fetch(t, "GET", path+"/items?limit=1", "")
	return list["data"].([]any)[0].(map[string]any)
}

func textOf(item map[string]any) string {
	var texts []string
	for _, part := range item["content"].([]any) {
		texts = append(texts, part.(map[string]any)["text"].(string))
	}
	return strings.Join(texts, "")
}

// TestKilledInMidTurn kills the server while it answers. The next one shows
// what there was of the answer, and goes on with it.
func TestKilledInMidTurn(t *testing.T) {
	data := t.TempDir()
	s := startServerIn(t, data, "--titles", "off")
	_, made := s.fetch(t, "POST", "/v1/conversations", `{"model":"polly"}`)
	path := "/v1/conversations/" + made["id"].(string)
	_, later := s.fetch(t, "POST", "/v1/responses",
		`{"model":"polly","input":"Tell me a story.","background":true,"ignore_eos":true,"max_output_tokens":1900}`)
	response, err := http.Post(s.url+path+"/messages", "application/json", strings.NewReader(
		`{"content":"Tell me a story.","stream":true,"temperature":0,"ignore_eos":true,"max_tokens":1900}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for textOf(s.lastItem(t, path)) == "" {
		if !lines.Scan() {
			t.Fatal("the answer ended before anything of it was kept")
		}
	}
	s.kill()

	s = startServerIn(t, data, "--titles", "off")
	kept := s.lastItem(t, path)
	if kept["role"] != "assistant" || textOf(kept) == "" {
		t.Fatalf("after the crash: %v", kept)
	}
	for kept["status"] == "in_progress" { // until the dead process is missed
		time.Sleep(200 * time.Millisecond)
		kept = s.lastItem(t, path)
	}
	if kept["status"] != "incomplete" {
		t.Errorf("after the crash: %v", kept)
	}
	status, whole := s.fetch(t, "POST", path+"/messages/"+kept["id"].(string)+"/resume",
		`{"temperature":0,"max_tokens":20,"ignore_eos":true}`)
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, whole)
	}
	last := s.lastItem(t, path)
	if got := textOf(last); !strings.HasPrefix(got, textOf(kept)) || len(got) <= len(textOf(kept)) ||
		last["id"] != kept["id"] {
		t.Errorf("resumed: %q after %q", got, textOf(kept))
	}
	_, lost := s.fetch(t, "GET", "/v1/responses/"+later["id"].(string), "")
	if lost["status"] != "failed" || lost["error"] == nil {
		t.Errorf("the response in the background: %v", lost)
	}
}
