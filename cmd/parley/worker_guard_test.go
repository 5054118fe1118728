package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"parley"
	"parley/internal/supervise"
	"parley/worker"
	"parley/worker/workertest"
	"parley/worker/zmq"
)

// TestWorkerPublishesNothingUnasked starts a worker as most people do: it has one port,
// and gateways learn over that, with the key, what its cache holds.
func TestWorkerPublishesNothingUnasked(t *testing.T) {
	const key = "worker-key-0123456789abcdef"
	p := startWorker(t, "--worker-key", key)
	if ports := listening(t, p.cmd.Process.Pid); len(ports) != 1 {
		t.Errorf("it listens on the ports %v, want one", ports)
	}
	for _, path := range []string{worker.EventsPath + "?from=1", worker.SnapshotPath} {
		resp, err := http.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without the key: %s", path, resp.Status)
		}
	}
	r, err := worker.Dial(worker.Config{URL: p.url, Kind: worker.Parley, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	workertest.Ask(t, r, &parley.Request{Prompt: make([]parley.Token, 64), MaxTokens: 1})
	_, events, err := r.Snapshot(t.Context())
	if err != nil || len(events) == 0 {
		t.Fatalf("%v, %v", events, err)
	}
	for _, e := range events {
		if len(e.Tokens) > 0 || len(e.Keys) == 0 {
			t.Errorf("%+v", e)
		}
	}
}

// listening returns the TCP ports that a process listens on.
func listening(t *testing.T, pid int) (ports []int64) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(links) == 0 {
		t.Skip("there is no /proc to look at")
	}
	sockets := map[string]bool{}
	for _, link := range links {
		to, _ := os.Readlink(link)
		sockets[to] = true
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && sockets["socket:["+f[9]+"]"] {
				_, port, _ := strings.Cut(f[1], ":")
				n, err := strconv.ParseInt(port, 16, 32)
				if err != nil {
					t.Fatal(err)
				}
				ports = append(ports, n)
			}
		}
	}
	return ports
}

// residentKB returns how much memory a process has.
func residentKB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("there is no /proc to look at")
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// TestEventSocketsAreBounded subscribes to topics of 60 MiB on sockets that were asked
// for: the worker's memory does not grow, no token ids come, and it still answers.
func TestEventSocketsAreBounded(t *testing.T) {
	events, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	replay, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	p := startWorker(t, "--events", events, "--events-replay", replay)
	workertest.Ask(t, p, &parley.Request{Prompt: make([]parley.Token, 64), MaxTokens: 1})
	before := residentKB(t, p.cmd.Process.Pid)
	topic := make([]byte, 60<<20)
	topic[0] = 1
	for range 10 {
		c, err := zmq.Dial(t.Context(), "tcp://"+events, zmq.Sub)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.Send(topic) // it is cut while it is sent
	}
	if grown := residentKB(t, p.cmd.Process.Pid) - before; grown > 64<<10 {
		t.Errorf("10 subscriptions of 60 MiB had the worker grow by %d MiB", grown>>10)
	}
	c, err := zmq.Dial(t.Context(), "tcp://"+replay, zmq.Dealer)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(nil, binary.BigEndian.AppendUint64(nil, 0)); err != nil {
		t.Fatal(err)
	}
	if stored, bare := replayed(t, c); stored == 0 || bare != stored {
		t.Errorf("%d of %d stored events have no token ids, want all", bare, stored)
	}
	p.status(t)
}

// replayed counts the stored events in all batches that come, and those of them whose
// list of token ids is empty.
func replayed(t *testing.T, c *zmq.Conn) (stored, bare int) {
	t.Helper()
	for {
		m, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		payload := m[len(m)-1]
		if len(payload) == 0 {
			return stored, bare
		}
		stored += bytes.Count(payload, []byte("BlockStored"))
		bare += bytes.Count(payload, []byte("\xa9token_ids\x90"))
	}
}

// TestWorkersStayOnTheirMachine refuses an address that others reach, without a key.
func TestWorkersStayOnTheirMachine(t *testing.T) {
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	worker := func(args ...string) string {
		args = append([]string{"worker", "--model", "polly-mini", "--data", t.TempDir()}, args...)
		cmd := exec.CommandContext(t.Context(), exe, args...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%q started: %s", args, out)
		}
		return string(out)
	}
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		if out := worker("--addr", addr); !strings.Contains(out, "PARLEY_WORKER_KEY") {
			t.Errorf("on %s: %s", addr, out)
		}
	}
	if out := worker("--addr", "127.0.0.1:0", "--worker-key", "short"); strings.Contains(out, `"short"`) ||
		!strings.Contains(out, "16 characters") {
		t.Errorf("a short key: %s", out)
	}
	if out := worker("--addr", "127.0.0.1:0", "--events-tokens", "on"); !strings.Contains(out, "--events") {
		t.Errorf("token ids without events: %s", out)
	}
}

// TestFleetUpGivesKeys starts a fleet: its workers refuse requests without the key, and
// the key is an argument of no process.
func TestFleetUpGivesKeys(t *testing.T) {
	dir := t.TempDir()
	cmd := fleetUp(t, unused(t), "--workers", "1", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() }()
	var url string
	until(t, "a worker starts", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "worker-1.log"))
		if m := workerLine.FindSubmatch(text); m != nil {
			url = string(m[2])
		}
		return url != ""
	})
	resp, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a worker of the fleet answers %s without its key", resp.Status)
	}
	for _, name := range []string{"worker-1.log", "gateway.log"} {
		var arguments string
		until(t, name+" has its first line", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, name))
			first, _, complete := strings.Cut(string(text), "\n")
			arguments = first
			return complete
		})
		if strings.Contains(arguments, "key") {
			t.Errorf("%s: %s", name, arguments)
		}
	}
}
