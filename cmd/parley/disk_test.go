package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTheDiskTierSurvivesAKill asks a long question, kills the server without
// warning, and asks again in the next one: the prompt's blocks come from the
// disk and the answer is the same. Then the file is damaged, and the answer is
// still the same.
func TestTheDiskTierSurvivesAKill(t *testing.T) {
	data := t.TempDir()
	question := strings.Repeat("The moon is bright tonight. ", 60) + "What is bright?"
	life := func() (answer string, cached int) {
		s := startServerIn(t, data, "--kv-disk", "200MiB", "--model", "polly", "--kv-tokens", "4096")
		defer func() {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}()
		answer, cached = s.ask(t, question)
		s.awaitCopies(t)
		return answer, cached
	}
	first, cached := life()
	if cached != 0 {
		t.Errorf("%d tokens were cached on an empty disk", cached)
	}
	again, cached := life()
	if cached < 300 || again != first {
		t.Errorf("after the kill %d tokens were found; %q, want %q", cached, again, first)
	}
	damageFile(t, filepath.Join(data, "kv", "polly.blocks"))
	if damaged, _ := life(); damaged != first {
		t.Errorf("with a damaged file: %q, want %q", damaged, first)
	}
}

var copiedToDisk = regexp.MustCompile(
	`(?m)^parley_engine_copied_bytes_total\{from="device",model_name="polly",to="disk"\} (\S+)$`)

// awaitCopies waits until the server has nothing more to copy to the disk.
func (s *server) awaitCopies(t *testing.T) {
	t.Helper()
	before := ""
	for range 100 {
		now := string(copiedToDisk.FindSubmatch(s.metrics(t))[1])
		if now == before {
			return
		}
		before = now
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatal("copying to the disk does not end")
}

// damageFile changes a byte of every page behind the first few.
func damageFile(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, _ := f.Seek(0, 2)
	for at := int64(1 << 20); at < size; at += 4096 {
		if _, err := f.WriteAt([]byte{0xa5}, at); err != nil {
			t.Fatal(err)
		}
	}
}

// ask returns the greedy answer to a question, and how many of its tokens were cached.
func (s *server) ask(t *testing.T, question string) (answer string, cached int) {
	t.Helper()
	body := fmt.Sprintf(`{"temperature":0,"max_tokens":24,"messages":[{"role":"user","content":%q}]}`, question)
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || len(got.Choices) != 1 {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return got.Choices[0].Message.Content, got.Usage.Details.Cached
}
