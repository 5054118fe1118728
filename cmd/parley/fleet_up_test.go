package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cli/fleetctl"
	"parley/cli/remote"
	"parley/fleet"
	"parley/internal/supervise"
)

// fleetUp is the command that starts a fleet whose gateway listens on an address.
func fleetUp(t *testing.T, addr string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), exe, append([]string{"fleet", "up", "--addr", addr}, args...)...)
}

func unused(t *testing.T) string {
	t.Helper()
	addr, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// TestFleetUp starts a fleet as people do, sees its workers come up, and ends it.
// Nothing is left behind.
func TestFleetUp(t *testing.T) {
	cmd := fleetUp(t, unused(t), "--workers", "2")
	temporary := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer hangs.Stop()
	lines := bufio.NewScanner(out)
	for up := 0; up < 2 && lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "WORKER"):
			up = 0
		case strings.Contains(line, " up ") && strings.Contains(line, " exact "):
			up++
			if ready := strings.Fields(line)[5]; !strings.HasSuffix(ready, "s") {
				t.Errorf("a worker that is up was ready in %q: %s", ready, line)
			}
		}
	}
	_ = cmd.Process.Signal(os.Interrupt)
	rest := 0
	for lines.Scan() {
		rest++
	}
	if err := cmd.Wait(); err != nil || rest > 100 {
		t.Errorf("it ended with %v, after %d more lines", err, rest)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("it left %v behind; %v", left, err)
	}
}

// TestFleetUpScales starts a fleet whose size follows the load: its workers register by
// themselves, and it says how many are wanted and why. The budget pays for fewer than the minimum.
func TestFleetUpScales(t *testing.T) {
	cmd := fleetUp(t, unused(t), "--min", "3", "--max", "3", "--price", "2", "--budget", "5")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer hangs.Stop()
	lines := bufio.NewScanner(out)
	up, wanted := 0, false
	for !(up == 2 && wanted) && lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "WORKER"):
			up = 0
		case strings.Contains(line, " up ") && strings.Contains(line, " local "):
			up++
		case strings.HasPrefix(line, "Workers wanted: 2, because 2 is what 5 an hour pays for; 3 are wanted"):
			wanted = true
		}
	}
	_ = cmd.Process.Signal(os.Interrupt)
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil || up != 2 || !wanted {
		t.Errorf("it ended with %v; %d workers were up, and two were wanted: %v", err, up, wanted)
	}
}

// A scaledFleet is a fleet that follows its load, and what is asked of it.
type scaledFleet struct {
	*remote.Client
	t *testing.T
}

// workers returns those that the gateway knows.
func (f *scaledFleet) workers() []fleet.Standing {
	workers, err := fleetctl.Standings(f.t.Context(), f.Client)
	if err != nil {
		f.t.Fatal(err)
	}
	return workers
}

// up counts the workers that take requests.
func (f *scaledFleet) up() (n int) {
	for _, w := range f.workers() {
		if w.State == fleet.Up {
			n++
		}
	}
	return n
}

// ask begins an answer that is always the same, computed anew, and long.
func (f *scaledFleet) ask() *http.Response {
	const body = `{"model":"polly-mini","stream":true,"ignore_eos":true,"max_tokens":800,"temperature":0,` +
		`"messages":[{"role":"user","content":"Tell me a story."}]}`
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.Root+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		f.t.Error(err)
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Cache-Control", "no-store")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Error(err)
		return nil
	}
	return resp
}

// text reads an answer to its end.
func (f *scaledFleet) text(resp *http.Response) (text string) {
	if resp == nil {
		return ""
	}
	defer resp.Body.Close()
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			f.t.Errorf("an answer broke off after %d bytes: %v", len(text), err)
			return text
		}
		event, _ := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if event == "[DONE]" {
			return text
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if json.Unmarshal([]byte(event), &chunk) == nil && len(chunk.Choices) > 0 {
			text += chunk.Choices[0].Delta.Content
		}
	}
}

// wave asks several times at once, and returns the answers when all are there.
func (f *scaledFleet) wave() []string {
	texts := make([]string, 8)
	var all sync.WaitGroup
	for i := range texts {
		all.Go(func() { texts[i] = f.text(f.ask()) })
	}
	all.Wait()
	return texts
}

// TestFleetUpFollowsItsLoad has a fleet without a worker wake for requests, which wait for that, and become smaller
// while answers are under way, none of which fails or changes.
func TestFleetUpFollowsItsLoad(t *testing.T) {
	addr := unused(t)
	cmd := fleetUp(t, addr, "--min", "0", "--max", "2", "--idle", "2s", "--steady", "8s", "--day", "5m")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	client, err := remote.New("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	f := &scaledFleet{client, t}
	until(t, "a worker starts", func() bool {
		_, err := fleetctl.Standings(t.Context(), client)
		return err == nil && f.up() > 0
	})
	var texts []string
	var two bool
	for !two && !t.Failed() { // a machine that is slow may end what it started before that is ready
		until(t, "no worker is left, because no request comes", func() bool { return len(f.workers()) == 0 })
		answered := make(chan []string, 1)
		go func() { answered <- f.wave() }()
		until(t, "workers start", func() bool { two = two || f.up() == 2; return f.up() > 0 })
		texts = append(texts, <-answered...)
		until(t, "there are two, or fewer again", func() bool { two = two || f.up() == 2; return two || f.up() == 0 })
	}
	var rest sync.WaitGroup
	var mutex sync.Mutex
	live, asked := 0, time.Time{}
	until(t, "one of the workers leaves, while few requests come", func() bool {
		if time.Since(asked) > 1500*time.Millisecond { // two thirds of what one worker is believed to serve at first
			asked = time.Now()
			rest.Go(func() {
				text := f.text(f.ask())
				mutex.Lock()
				defer mutex.Unlock()
				texts = append(texts, text)
			})
		}
		up := 0
		for _, w := range f.workers() {
			if w.State == fleet.Up {
				up++
			} else {
				live = max(live, w.Answering)
			}
		}
		return up == 1
	})
	rest.Wait()
	t.Logf("%d answers of the worker that left were under way", live)
	for i, text := range texts {
		if text != texts[0] || len(text) < 100 {
			t.Errorf("answer %d of %d is %.60q…, the first %.60q…", i, len(texts), text, texts[0])
		}
	}
	for _, w := range f.workers() {
		if w.Failed+w.Lost > 0 {
			t.Errorf("worker %s failed %d requests and was lost with %d", w.Name, w.Failed, w.Lost)
		}
	}
}

// TestFleetUpWithoutItsModel tells why no worker starts.
func TestFleetUpWithoutItsModel(t *testing.T) {
	text, err := fleetUp(t, unused(t), "--workers", "2", "--model", "nobody.gguf", "--dir",
		t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "nobody.gguf") || !strings.Contains(string(text), ".log") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestFleetUpWhereSomebodyIs tells at once that the address is taken.
func TestFleetUpWhereSomebodyIs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text, err := fleetUp(t, l.Addr().String(), "--workers", "1", "--dir", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "is in use") || !strings.Contains(string(text), "gateway.log") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestFleetStatusSaysWhatIsMissing asks servers that have no fleet, no worker yet, or
// want the fleet's token.
func TestFleetStatusSaysWhatIsMissing(t *testing.T) {
	alone := startServerIn(t, t.TempDir(), "--model", "polly-mini")
	if _, err := invoke(t, "fleet", "status", "--url", alone.url); !errors.Is(err, remote.ErrNoFleet) {
		t.Errorf("of a server without a fleet: %v", err)
	}
	data := t.TempDir()
	key, err := invoke(t, "keys", "create", "me", "--admin", "--data", data)
	if err != nil {
		t.Fatal(err)
	}
	empty := startServerIn(t, data, "--model", "polly-mini", "--worker", "http://127.0.0.1:9", "--fleet-operate-token",
		"0123456789abcdef")
	if _, err := invoke(t, "fleet", "status", "--url", empty.url); err == nil ||
		!strings.Contains(err.Error(), "PARLEY_FLEET_OPERATE_TOKEN") {
		t.Errorf("without the token: %v", err)
	}
	t.Setenv("PARLEY_API_KEY", key)
	until(t, "with an admin key the command says why the worker is absent", func() bool {
		out, err := invoke(t, "fleet", "status", "--url", empty.url)
		return err == nil && strings.Contains(out, "127.0.0.1:9 cannot join: ")
	})
	t.Setenv("PARLEY_FLEET_OPERATE_TOKEN", "0123456789abcdef")
	if out, err := invoke(t, "fleet", "status", "--url", empty.url); err != nil ||
		!strings.Contains(out, "127.0.0.1:9 cannot join: ") {
		t.Errorf("with the token: %q, %v", out, err)
	}
	until(t, "the server says that nobody can be answered", func() bool {
		out, err := invoke(t, "top", "--once", "--url", empty.url)
		return err == nil && strings.Contains(out, "No worker has joined")
	})
}
