package main

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestViralPrompt lets a thousand clients ask the same of the real engine, half
// of them streaming. It computes one answer, and all of them get it.
func TestViralPrompt(t *testing.T) {
	s := startServer(t, "--model", "polly-mini", "--log-level", "warn")
	body := func(stream bool) string {
		return `{"messages":[{"role":"user","content":"Tell me a story."}],"temperature":0,"max_tokens":120,"ignore_eos":true,"stream":` + strconv.FormatBool(stream) + `}`
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200, MaxConnsPerHost: 200}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	answers := map[string]int{}
	var group sync.WaitGroup
	for i := range 1000 {
		group.Go(func() {
			response, err := client.Post(s.url+"/v1/chat/completions", "application/json",
				strings.NewReader(body(i%2 == 0)))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Errorf("%d, %v: %s", response.StatusCode, err, text)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[said(string(text))]++
		})
	}
	group.Wait()
	if len(answers) != 1 || answers[""] > 0 {
		t.Errorf("there were %d different answers", len(answers))
	}
	text := string(s.metrics(t))
	for _, want := range []string{
		`parley_engine_output_tokens_total{model_name="polly-mini"} 120`,
		`vllm:generation_tokens_total{model_name="polly-mini"} 120`,
		`parley_engine_answers_total{finished_reason="length",model_name="polly-mini"} 1`,
		`parley_output_tokens_total 120`,
		`parley_share_output_tokens_total ` + strconv.Itoa(999*120),
		`parley_share_requests_total{result="led"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("/metrics does not say %s", want)
		}
	}
}

var contents = regexp.MustCompile(`"content":("(?:[^"\\]|\\.)*")`)

// said returns the text of an answer, streamed or whole.
func said(body string) string {
	var out strings.Builder
	for _, m := range contents.FindAllStringSubmatch(body, -1) {
		text, _ := strconv.Unquote(m[1])
		out.WriteString(text)
	}
	return out.String()
}
