package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley/internal/supervise"
	"parley/internal/testkit"
)

// startLlama starts llama-server with polly-mini and returns where it is.
func startLlama(t *testing.T) string {
	t.Helper()
	return startLlamaWith(t, "-m", testkit.Root()+"/internal/builtin/polly-mini.gguf", "-c", "4096", "-np", "4", "-t",
		"1", "--alias", "polly-mini")
}

// startLlamaWith starts llama-server, which PARLEY_LLAMA_SERVER names, and returns
// where it is.
func startLlamaWith(t *testing.T, args ...string) string {
	t.Helper()
	program := os.Getenv("PARLEY_LLAMA_SERVER")
	if program == "" {
		t.Skip(
			"NOT RUN: a foreign real engine. Build llama-server (github.com/ggml-org/llama.cpp) and name it in " +
				"PARLEY_LLAMA_SERVER")
	}
	addr, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append(args, "--host", "127.0.0.1", "--port", addr[strings.LastIndex(addr, ":")+1:],
		"--metrics", "--no-warmup")...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s", text[max(0, len(text)-4000):])
		}
	})
	return "http://" + addr
}

// TestLlamaServersInAFleet has two llama-servers as the members of a pool: people
// talk to them, streams come through, one who leaves frees the engine, and a server
// that is lost is gone on from, before the first word and after it.
func TestLlamaServersInAFleet(t *testing.T) {
	routes := []string{"/health", "/props", "/metrics", "/v1/models", "/completion"}
	at := startLlama(t)
	doors := []*door{newDoor(t, at, routes...), newDoor(t, startLlama(t), routes...)}
	c := frontOf(t, `model: polly-mini
pools:
  - name: foreign
    purpose: any
    workers: [{url: "`+doors[0].URL+`", kind: llamacpp}, {url: "`+doors[1].URL+`", kind: llamacpp}]
`)
	c.ready(2)
	status, text := post(t, c.front.url+"/v1/chat/completions",
		`{"model":"polly-mini","temperature":0,"messages":[{"role":"user","content":"What is the capital of France?"}]}`)
	if status != http.StatusOK || !strings.Contains(text, "Paris") {
		t.Errorf("%d: %s", status, text)
	}
	body := wishes()[0]
	want, err := hearAll(t.Context(), c.front.url, body)
	if err != nil || len(want.Text[0]) < 200 {
		t.Fatalf("%v: %+v", err, want)
	}
	leave(t, c.front.url+"/v1/chat/completions", body)
	for until := time.Now().Add(time.Minute); doors[0].left.Load()+doors[1].left.Load() == 0; time.Sleep(
		10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("nobody noticed that the client left")
		}
	}
	for _, cut := range []int64{0, 6000} { // before the first word, and after some
		for _, d := range doors {
			d.cutAfter.Store(-1)
		}
		c.settle("up", 2)
		doors[0].cutAfter.Store(cut)
		before := c.moved()
		for i := 0; i < 20 && c.moved() == before; i++ {
			got, err := hearAll(t.Context(), c.front.url, body)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("cut after %d bytes, %v: got %+v, want %+v", cut, err, got, want)
			}
			c.settle("up", 2)
		}
		if c.moved() == before {
			t.Errorf("cut after %d bytes: nothing had to move, so nothing was shown", cut)
		}
		t.Logf("cut after %d bytes: %d answers went on elsewhere", cut, c.moved()-before)
	}
}
