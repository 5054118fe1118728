package gateway

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/models"

	"github.com/google/go-cmp/cmp"
)

func (s *server) fim(extra string) (int, string) {
	s.t.Helper()
	response, body := s.do("POST", "/v1/fim/completions", fimBody(extra))
	return response.StatusCode, anonymous(body)
}

func fimBody(extra string) string { return `{"model":"` + modelID + `"` + extra + `}` }

func TestFIMWhole(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "b<|endoftext|>", time.Second)}
		s := start(t, w)
		status, body := s.fim(`,"prompt":"a","suffix":"c<|im_end|>"`)
		if status != 200 || !strings.Contains(body, `"message":{"role":"assistant","content":"b","refusal":null}`) {
			t.Errorf("%d: %s", status, body)
		}
		published.want(t, "CreateChatCompletionResponse", body)
		r := w.request(t)
		gap := tinyTokenizer().Special().Gap
		if !cmp.Equal(r.Prompt[:3], tokensOf(t, "<|fim_prefix|>a<|fim_suffix|>")) || len(r.Prompt) < 8 ||
			r.Prompt[len(r.Prompt)-1] != gap.Middle {
			t.Errorf("asked for %v: special tokens in a file are text", r.Prompt)
		}
		if r.Retain != models.GapRetain || r.MaxTokens != 100-len(r.Prompt) || r.Sampling.Temperature != 0.2 ||
			!cmp.Equal(r.Stop.Tokens, gap.Ends) {
			t.Errorf("asked for %+v", r)
		}
	})
}

func TestFIMOptions(t *testing.T) {
	for _, c := range []struct {
		name, extra string
		check       func(r *parley.Request) bool
	}{
		{"suffix first", `,"prompt":"a","suffix":"c","suffix_first":true`, func(r *parley.Request) bool {
			return cmp.Equal(r.Prompt, tokensOf(t, "<|fim_suffix|>c<|fim_prefix|>a<|fim_middle|>"))
		}},
		{"no suffix", `,"prompt":"a"`, func(r *parley.Request) bool {
			return cmp.Equal(r.Prompt, tokensOf(t, "a")) && r.Retain == 0 && len(r.Stop.Tokens) == 0
		}},
		{"token ids", `,"prompt":[9],"suffix":[8]`, func(r *parley.Request) bool {
			gap := tinyTokenizer().Special().Gap
			return cmp.Equal(r.Prompt, gap.Join([]parley.Token{9}, []parley.Token{8}))
		}},
		{"one line", `,"prompt":"a","suffix":"c","single_line":true,"stop":"x"`, func(r *parley.Request) bool {
			return cmp.Equal(r.Stop.Strings, []string{"x", "\n"})
		}},
		{"seed", `,"prompt":"a","suffix":"c","random_seed":5,"max_tokens":7,"temperature":1`,
			func(r *parley.Request) bool {
				return r.Sampling.Seed == 5 && r.MaxTokens == 7 && r.Sampling.Temperature == 1
			}},
		{"kept longer", `,"prompt":"a","suffix":"c","prompt_cache_key":"k"`, func(r *parley.Request) bool {
			return r.Retain == 5*time.Minute
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: speak(t, "b", 0)}
				s := start(t, w)
				if status, body := s.fim(c.extra); status != 200 || !c.check(w.request(t)) {
					t.Errorf("%d %s: asked for %+v", status, body, w.asked)
				}
			})
		})
	}
}

func TestFIMRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "b", 0)})
		for _, c := range []struct{ extra, want string }{
			{``, `"param":"prompt","code":"missing_required_parameter"`},
			{`,"prompt":["a"]`, `"param":"prompt[0]","code":"invalid_type"`},
			{`,"prompt":"a","suffix":true`, `"param":"suffix","code":"invalid_type"`},
			{`,"prompt":"a","suffix":"b","suffix_first":"yes"`, `"param":"suffix_first","code":"invalid_type"`},
			{`,"prompt":"a","suffix":[4000]`, `"param":"suffix","code":"invalid_value"`},
			{`,"prompt":"a","max_tokens":0`, `"param":"max_tokens"`},
			{`,"prompt":"` + strings.Repeat("word ", 200) + `","suffix":"a"`, `"code":"context_length_exceeded"`},
		} {
			if status, body := s.fim(c.extra); status != 400 || !strings.Contains(body, c.want) {
				t.Errorf("%.50s gives %d: %s", c.extra, status, body)
			}
		}
	})
}

// TestFIMStream reads what editors read: the deltas of a chat.
func TestFIMStream(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "one two", time.Second)})
		_, body := s.fim(`,"prompt":"a","suffix":"c","stream":true`)
		if got := streamedText(body); got != "one two" {
			t.Errorf("says %q", got)
		}
		for _, e := range streamedEvents(body) {
			published.want(t, "CreateChatCompletionStreamResponse", e)
		}
	})
}

// TestNewestOfASession sends a keystroke while the answer to the one before is
// being written.
func TestNewestOfASession(t *testing.T) {
	for _, c := range []struct{ name, path, first, second string }{
		{"fim", "/v1/fim/completions", `"prompt_cache_key":"editor"`, `"prompt_cache_key":"editor"`},
		{"user", "/v1/fim/completions", `"user":"ann"`, `"user":"ann"`},
		{"completions", "/v1/completions", `"user":"ann"`, `"user":"ann"`},
		{"another session", "/v1/fim/completions", `"user":"ann"`, `"user":"bob"`},
		{"no session", "/v1/fim/completions", `"seed":1`, `"seed":1`},
	} {
		for _, stream := range []string{"false", "true"} {
			t.Run(c.name+" "+stream, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testNewest(t, c.path, c.first, c.second, stream) })
			})
		}
	}
}

func testNewest(t *testing.T, path, first, second, stream string) {
	w := &worker{script: speak(t, "one two three", time.Second)}
	s := start(t, w)
	body := fimBody(`,"prompt":"a","suffix":"c","stream":` + stream + `,`)
	body = strings.TrimSuffix(body, "}")
	type outcome struct {
		status int
		body   string
	}
	done := make(chan outcome)
	go func() {
		response := s.open(t.Context(), "POST", path, body+first+"}")
		defer response.Body.Close()
		text, err := io.ReadAll(bufio.NewReader(response.Body))
		if err != nil {
			t.Error(err)
		}
		done <- outcome{response.StatusCode, string(text)}
	}()
	time.Sleep(1500 * time.Millisecond)
	synctest.Wait()
	response, text := s.do("POST", path, body+second+"}")
	before := <-done
	if response.StatusCode != 200 || !strings.Contains(text, "three") {
		t.Errorf("the newest gets %d: %s", response.StatusCode, text)
	}
	superseded := first == second && first != `"seed":1`
	if got := strings.Contains(before.body, `"code":"superseded"`); got != superseded ||
		strings.Contains(before.body, "three") == superseded {
		t.Errorf("the one before gets %d: %s", before.status, before.body)
	}
	if superseded && stream == "false" && before.status != 499 {
		t.Errorf("the one before gets %d", before.status)
	}
	s.settled(w)
	if n := len(s.gateway.sessions.newest); n != 0 {
		t.Errorf("%d sessions are still known", n)
	}
}

func TestCacheHints(t *testing.T) {
	for extra, want := range map[string]time.Duration{
		``: 0, `,"prompt_cache_key":"k"`: 5 * time.Minute, `,"prompt_cache_key":""`: 0,
		`,"prompt_cache_options":{"mode":"implicit","ttl":"30m"}`:      30 * time.Minute,
		`,"prompt_cache_retention":"24h"`:                              24 * time.Hour,
		`,"prompt_cache_key":"k","prompt_cache_retention":"in_memory"`: 5 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, "x", 0)}
			s := start(t, w)
			s.chat(extra)
			s.complete(`,"prompt":"x"` + extra)
			for _, r := range w.asked {
				if r.Retain != want {
					t.Errorf("%s keeps it for %v, want %v", extra, r.Retain, want)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{})
		for _, ttl := range []string{`"never"`, `"-1s"`, `"25h"`, `7`} {
			if status, body := s.chat(`,"prompt_cache_options":{"ttl":` + ttl + `}`); status != 400 ||
				!json.Valid([]byte(body)) || !strings.Contains(body, "prompt_cache_options.ttl") {
				t.Errorf("%s gives %d: %s", ttl, status, body)
			}
		}
	})
}
