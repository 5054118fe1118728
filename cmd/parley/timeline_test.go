package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/gateway/admin"
)

// lifeOf returns what the server says became of a request.
func lifeOf(t *testing.T, url, id string) (l admin.RequestRecord) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url + "/admin/api/requests/" + id)
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&l)
		resp.Body.Close()
		if err == nil && l.ID == id {
			return l
		}
	}
	t.Fatalf("nothing is known of %s", id)
	return l
}

// partsOf writes the stages of a life by the worker whose they are.
func partsOf(l *admin.RequestRecord) map[string]string {
	parts := map[string]string{}
	for _, s := range l.Stages {
		parts[s.Worker] += s.Where + ": " + s.Name + "\n"
	}
	return parts
}

func wantParts(t *testing.T, got string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

// TestTimelineOfAnAnswerThatMoved kills the worker in the middle of its answer: the
// request's life has the part of both workers, each as that worker measured it.
func TestTimelineOfAnAnswerThatMoved(t *testing.T) {
	workers := map[string]*workerProcess{}
	args := []string{"--model", "polly-mini", "--log-level", "error", "--share", "off"}
	for range 2 {
		w := startWorker(t, "--threads", "1", "--speculate", "off", "--context", "2048")
		workers[strings.TrimPrefix(w.url, "http://")] = w
		args = append(args, "--worker", w.url)
	}
	s := startServer(t, args...)
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json",
		strings.NewReader(
			`{"stream":true,"ignore_eos":true,"max_tokens":1900,"messages":[{"role":"user","content":"Tell me a story."}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	for range 20 {
		if _, err := events.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	victim := answering(t, workers)
	if err := workers[victim].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, events); err != nil {
		t.Fatal(err)
	}
	l := lifeOf(t, s.url, resp.Header.Get("X-Request-Id"))
	parts := partsOf(&l)
	wantParts(t, parts[""], "gateway: read and render")
	for name := range workers {
		wantParts(t, parts[name], "router: choose a worker", "worker: hop, there and back",
			"worker: receive and admit", "engine: decode")
	}
	wantParts(t, parts[l.Worker], "engine: prefill")
	faults := 0
	for _, stage := range l.Stages {
		if stage.Fault != "" {
			faults++
			if stage.Worker != victim || !strings.Contains(stage.Fault, "lost after") {
				t.Errorf("stage %+v, but %s was killed", stage, victim)
			}
		}
	}
	if faults != 1 || l.Worker == victim || l.Outcome != admin.OK {
		t.Errorf("%d faults, %s ended it, %s", faults, l.Worker, l.Outcome)
	}
}

// answering returns the name of the worker that answers somebody, once one does.
func answering(t *testing.T, workers map[string]*workerProcess) string {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		for name, w := range workers {
			resp, err := http.Get(w.url + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			if answersNow.Match(bodyOf(t, resp)) {
				return name
			}
		}
	}
	t.Fatal("nobody answers")
	return ""
}

var answersNow = regexp.MustCompile(`(?m)^vllm:num_requests_running\S* [1-9]`)

// TestTimelineOfForeignWorkers asks a worker as a gateway asks vLLM, and an engine
// of this process: the first does not tell its own times, the second has no hop.
func TestTimelineOfForeignWorkers(t *testing.T) {
	w := startWorker(t)
	for name, c := range map[string]struct {
		args []string
		note string
		not  string
	}{
		"vllm":       {[]string{"--worker", "vllm=" + w.url}, "a vllm worker does not tell its own times", "hop,"},
		"in-process": {nil, "in this process: no hop", "hop,"},
	} {
		s := startServer(t, append([]string{"--model", "polly-mini", "--log-level", "error"}, c.args...)...)
		_, id := askWith(t, s.url, "",
			`{"model":"polly-mini","max_tokens":8,"messages":[{"role":"user","content":"Hi"}]}`)
		l := lifeOf(t, s.url, id)
		told := false
		for _, stage := range l.Stages {
			told = told || stage.Where == "worker" && strings.Contains(stage.Note, c.note)
			if strings.Contains(stage.Name, c.not) {
				t.Errorf("%s: stage %+v", name, stage)
			}
		}
		if !told {
			t.Errorf("%s: no stage says %q: %+v", name, c.note, l.Stages)
		}
	}
}
