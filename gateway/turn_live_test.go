package gateway

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// untilText reads a stream until it has said text.
func untilText(t *testing.T, body io.Reader, text string) {
	t.Helper()
	var read strings.Builder
	for lines := bufio.NewScanner(body); lines.Scan(); {
		read.WriteString(lines.Text() + "\n")
		if strings.Contains(streamedText(read.String()), text) {
			return
		}
	}
	t.Fatalf("the stream ended before it said %q: %s", text, read.String())
}

func newest(o object) object { return object(o["data"].([]any)[0].(map[string]any)) }

// TestTurnGoesOnAlone loses its client in mid-stream. Two others follow it, one
// at once and one after its end; both read all of it.
func TestTurnGoesOnAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four<|im_end|>", time.Second)}
		s := startKept(t, w, untitled)
		path := s.converse("")
		ctx, cancel := context.WithCancel(t.Context())
		response := s.open(ctx, "POST", path+"/messages",
			`{"model":"`+modelID+`","content":"Hi","stream":true,"background":true}`)
		untilText(t, response.Body, "one two")
		cancel()
		response.Body.Close()
		_, o := s.call("GET", path+"/items", "")
		item := newest(o)
		if item.text("status") != "in_progress" {
			t.Fatalf("got %v", item)
		}
		stream := path + "/messages/" + item.text("id") + "/stream"
		for _, counted := range []string{`"completion_tokens":4,`, `"completion_tokens":5,`} {
			_, body := s.do("GET", stream, "")
			if streamedText(body) != "one two three four" || !strings.Contains(body, counted) ||
				!strings.HasSuffix(body, "data: [DONE]\n\n") || !strings.Contains(body, `"prompt_tokens"`) ||
				!strings.Contains(body, `"worker":"local"`) {
				t.Errorf("got %s", body)
			}
		}
		_, item = s.call("GET", path+"/items/"+item.text("id"), "")
		if item.text("status") != "completed" || item.text("content", "text") != "one two three four" ||
			item.at("timings", "ttft_ms").(float64) != 1000 {
			t.Errorf("got %v", item)
		}
		s.settled(w)
		s.wantLog("status=499", "finish=stop shared=false cancelled=false")
	})
}

func TestStopTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four<|im_end|>", time.Second)}
		s := startKept(t, w, untitled)
		path := s.converse("")
		following := make(chan string, 1)
		go func() {
			_, body := s.do("POST", path+"/messages",
				`{"model":"`+modelID+`","content":"Hi","stream":true,"background":true}`)
			following <- body
		}()
		time.Sleep(2500 * time.Millisecond)
		_, o := s.call("GET", path+"/items", "")
		id := newest(o).text("id")
		status, item := s.call("POST", path+"/messages/"+id+"/cancel", "")
		if status != 200 || item.text("status") != "incomplete" || item.text("outcome") != "cancelled" ||
			item.text("content", "text") != "one two" || item.text("error", "message") != "The answer was stopped." {
			t.Errorf("%d %v", status, item)
		}
		usage, timings := item["usage"].(map[string]any), item["timings"].(map[string]any)
		if usage["prompt_tokens"].(float64) < 3 || usage["completion_tokens"].(float64) < 2 ||
			timings["prefill_ms"] != 1000.0 || timings["decode_ms"] != 1000.0 {
			t.Errorf("what was stopped cost %v and took %v", usage, timings)
		}
		if body := <-following; streamedText(body) != "one two" || !strings.Contains(body, "The answer was stopped.") {
			t.Errorf("got %s", body)
		}
		s.settled(w)
		if status, _ := s.call("POST", path+"/messages/"+id+"/cancel", ""); status != 200 {
			t.Errorf("stopping again gives %d", status)
		}
		w.script = speak(t, " and on<|im_end|>", 0)
		_, body := s.do("POST", path+"/messages/"+id+"/resume",
			`{"model":"`+modelID+`","stream":true,"background":true}`)
		if streamedText(body) != "one two and on" {
			t.Errorf("going on gives %s", body)
		}
		wantTexts(t, s.spoken(path), "Hi", "one two and on")
		for _, item := range []string{"nobody", newest(o).text("parent_id")} {
			if status, _ := s.call("POST", path+"/messages/"+item+"/cancel", ""); status < 400 || status > 404 {
				t.Errorf("stopping %s gives %d", item, status)
			}
		}
	})
}

// TestBackgroundTurnWhole asks for one document, and for what is refused.
func TestBackgroundTurnWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", time.Second)}
		s := startKept(t, w, untitled)
		path := s.converse("")
		if o := s.tell(path, "Hi", `,"background":true,"instructions":"Be brief."`); o.text("choices", "message",
			"content") != "Yes" {
			t.Errorf("got %v", o)
		}
		if got := w.askedText(0); !strings.Contains(got, "Be brief.") {
			t.Errorf("the prompt is %q", got)
		}
		status, o := s.call("POST", s.converse(`,"context_policy":"refuse"`)+"/messages",
			`{"model":"`+modelID+`","content":"`+strings.Repeat("long ", 200)+`","background":true,"stream":true}`)
		if status != 400 || o.text("error", "code") != "context_length_exceeded" {
			t.Errorf("%d %v", status, o)
		}
		w.script = func(r *parley.Request) []say {
			return append(speech(t, r, 0, "A B C")[:1:1], say{after: time.Second, panic: "secret"})
		}
		status, o = s.call("POST", path+"/messages", `{"model":"`+modelID+`","content":"Hi","background":true}`)
		if status != 500 || strings.Contains(o.text("error", "message"), "secret") {
			t.Errorf("%d %v", status, o)
		}
		s.settled(w)
	})
}

// TestProgressInStreams shows how far the prompt is, to those who ask.
func TestProgressInStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			said := speech(t, r, time.Second, "Yes<|im_end|>")
			if !r.Progress {
				return said
			}
			return append([]say{
				{delta: parley.Delta{Progress: &parley.Progress{Waiting: true, Ahead: 3, Wait: 2 * time.Second,
					PromptTokens: 50}}},
				{after: time.Second, delta: parley.Delta{Progress: &parley.Progress{PromptTokens: 50, CachedTokens: 16,
					DoneTokens: 32, Spent: 500 * time.Millisecond}}},
			}, said...)
		}}
		s := startKept(t, w, untitled)
		path := s.converse("")
		for _, r := range []struct{ path, body string }{
			{"/v1/chat/completions", chatBody(`,"stream":true,"return_progress":true`)},
			{path + "/messages", `{"model":"` + modelID + `","content":"Hi","stream":true,"return_progress":true}`},
			{path + "/messages",
				`{"model":"` + modelID + `","content":"Hi","stream":true,"background":true,"return_progress":true}`},
		} {
			_, body := s.do("POST", r.path, r.body)
			for _, want := range []string{
				`"prompt_progress":{"total":50,"cache":0,"processed":0,"time_ms":0,"waiting":true,"ahead":3,"wait_ms":2000}`,
				`"prompt_progress":{"total":50,"cache":16,"processed":32,"time_ms":500}`,
			} {
				if strings.Count(body, want) != 1 || streamedText(body) != "Yes" {
					t.Errorf("%s has not %s:\n%s", r.body, want, body)
				}
			}
		}
		if _, body := s.do("POST", "/v1/chat/completions", chatBody(`,"stream":true`)); strings.Contains(body,
			"progress") {
			t.Errorf("got %s", body)
		}
	})
}

// TestWaitingInStreams tells those who ask for progress how many go before them
// and how long that may take, while they wait for their turn.
func TestWaitingInStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slots(t, 2, "one two three four five", 2*time.Second)
		s := startKept(t, w, narrow, untitled)
		path := s.converse("")
		for _, r := range []struct{ path, body string }{
			{"/v1/chat/completions", chatBody(`,"stream":true,"return_progress":true`)},
			{path + "/messages", `{"model":"` + modelID + `","content":"Hi","stream":true,"return_progress":true}`},
			{path + "/messages",
				`{"model":"` + modelID + `","content":"Hi","stream":true,"background":true,"return_progress":true}`},
		} {
			var group sync.WaitGroup
			s.occupy(&group, "free-busy", 2, 2*time.Second)
			_, body := s.do("POST", r.path, r.body)
			if n := strings.Count(body, `"waiting":true`); n < 2 || strings.Contains(body, ": queue position") ||
				streamedText(body) != "one two three four five" {
				t.Errorf("%s was told %d times:\n%s", r.body, n, body)
			}
			group.Wait()
		}
		s.settled(&w.worker)
	})
}

// TestHeldIsNotBegun: a request that lies with a worker and is told so is not
// taken to be begun, neither by the queue nor by the bound on the first token.
func TestHeldIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := parley.Delta{Progress: &parley.Progress{Waiting: true, Ahead: 1, PromptTokens: 9}}
		w := &worker{script: func(r *parley.Request) []say {
			return append([]say{{delta: waits}, {after: time.Hour, delta: waits}}, speech(t, r, 0, "Yes<|im_end|>")...)
		}}
		s := start(t, w, func(c *Config) { c.Admission.FirstTokenMax = time.Minute })
		over := make(chan string)
		go func() {
			_, body := s.do("POST", "/v1/chat/completions", chatBody(`,"stream":true,"return_progress":true`))
			over <- body
		}()
		time.Sleep(time.Second)
		if held := s.metric(`parley_queue_held_tokens{model="` + modelID + `",pool="local"}`); held == "0" ||
			held == "absent" {
			t.Errorf("the queue counts %s tokens that are not begun", held)
		}
		if body := <-over; !strings.Contains(body, "did not come within 1m0s") {
			t.Errorf("got %s", body)
		}
		s.settled(w)
	})
}

func TestPagesForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "page "+r.URL.Path)
		})
		s := start(t, &worker{}, func(c *Config) { c.Pages = pages })
		for _, r := range []struct{ path, accept, want string }{
			{"/", "text/html,application/xhtml+xml", "page /"}, {"/", "*/*", "Parley serves"},
			{"/", "", "Parley serves"},
			{"/c/conv_1", "text/html", "page /c/conv_1"}, {"/assets/a-1.js", "*/*", "page /assets/a-1.js"},
			{"/assets/a/b", "*/*", "Unknown request URL"},
			{"/nope", "text/html", "Page not found"}, {"/v1/nope", "application/json", "Unknown request URL"},
		} {
			if _, body := s.do("GET", r.path, "", "Accept", r.accept); !strings.Contains(body, r.want) {
				t.Errorf("%s for %q gives %s", r.path, r.accept, body)
			}
		}
		without := start(t, &worker{})
		if _, body := without.do("GET", "/", "", "Accept", "text/html"); !strings.Contains(body, "Parley serves") {
			t.Errorf("got %s", body)
		}
	})
}
