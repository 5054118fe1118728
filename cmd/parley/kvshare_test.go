package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestTenantsKeepTheirShareOfMemory floods a server with prompts of one tenant
// after a prompt of another one of its tier. Where tenants of the tier may keep a
// part of the memory, the flood evicts itself; where each may keep all of it, the
// other's prompt is evicted.
func TestTenantsKeepTheirShareOfMemory(t *testing.T) {
	for share, kept := range map[string]bool{"0.3": true, "1": false} {
		t.Run("share "+share, func(t *testing.T) {
			data := t.TempDir()
			quiet := makeKey(t, "quiet", "--org", "quiet", "--tier", "pro", "--data", data)
			loud := makeKey(t, "loud", "--org", "loud", "--tier", "pro", "--data", data)
			s := startServerIn(t, data, "--model", "polly-mini", "--kv-tokens", "4096", "--share", "off",
				"--tiers", "pro.kv-share=1", "--tiers", "pro.organisation-kv-share="+share)
			s.cachedOf(t, quiet, "a quiet prompt")
			for n := range 24 { // six prompts, again and again: more than the pool's 4,096 tokens
				s.cachedOf(t, loud, fmt.Sprintf("loud prompt %d", n%6))
			}
			if cached := s.cachedOf(t, quiet, "a quiet prompt"); cached > 0.9 != kept {
				t.Errorf("%.2f of the quiet prompt is still cached", cached)
			}
		})
	}
}

// cachedOf asks about a long text that begins with words, and returns which part of its
// tokens was cached.
func (s *server) cachedOf(t *testing.T, key, words string) float64 {
	t.Helper()
	text := strings.Repeat(words+" and so on; ", 90)
	body := fmt.Sprintf(`{"model":"polly-mini","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, text)
	status, answer := outsider{url: s.url}.ask(t, "POST", "/v1/chat/completions", body, "Authorization", "Bearer "+key)
	var said struct {
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &said); err != nil || status != http.StatusOK || said.Usage.Prompt < 600 {
		t.Fatalf("%d %v: %.300s", status, err, answer)
	}
	return float64(said.Usage.Details.Cached) / float64(said.Usage.Prompt)
}
