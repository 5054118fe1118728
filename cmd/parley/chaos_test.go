package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/cli/fleetctl"
	"parley/cli/remote"
	"parley/fleet"
	"parley/internal/supervise"
)

// chaosBriefly is how long workers are killed unless a test is asked for more.
const chaosBriefly = 3 * time.Second

var chaosFor = flag.Duration("chaos", chaosBriefly, "how long workers are killed, stopped and restarted under load")

// leftToChaos skips a test that keeps all processors busy for long. What it shows of whole processes, the packages
// fleet, worker/wire and worker/kvwire test in parts.
func leftToChaos(t *testing.T) {
	t.Helper()
	if *chaosFor == chaosBriefly {
		t.Skip("NOT RUN: takes long: make chaos")
	}
}

// chaosStreams is how many answers are written at any time.
const chaosStreams = 64

// A crew is a gateway and workers, each a process of its own.
type crew struct {
	t       *testing.T
	exe     string
	front   *server
	args    []string // of the gateway
	workers []*hand
}

// A hand is a worker that is killed and started again at one address.
type hand struct {
	addr, data string
	via        string   // where gateways and other workers find it, if not at addr
	within     []string // a command that runs it elsewhere
	more       []string // settings of its own
	cmd        *exec.Cmd
	log        *os.File
}

func startCrew(t *testing.T, n int, args ...string) *crew {
	c := newCrew(t)
	for range n {
		addr, err := supervise.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		c.workers = append(c.workers, &hand{addr: addr})
	}
	return c.open(append(slices.Clone(calmly), args...))
}

// calmly are the settings of gateways here. Nobody is turned away for being too
// many: that is another matter.
var calmly = []string{"--model", "polly-mini", "--share", "off", "--titles", "off", "--log-level", "warn",
	"--shed-start", "off", "--queue-wait", "1h", "--first-token-max", "1h", "--worker-wait", "5m"}

func newCrew(t *testing.T) *crew {
	t.Helper()
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	return &crew{t: t, exe: exe}
}

// open starts the workers and the gateway.
func (c *crew) open(args []string) *crew {
	c.t.Helper()
	for _, h := range c.workers {
		var err error
		h.data = c.t.TempDir()
		if h.log, err = os.Create(h.data + "/log"); err != nil {
			c.t.Fatal(err)
		}
		c.start(h)
		args = append(args, "--worker", "http://"+cmp.Or(h.via, h.addr))
	}
	for _, h := range c.workers {
		c.await(h)
	}
	c.args = args
	c.front = c.gateway()
	c.ready(len(c.workers))
	return c
}

// gateway starts a gateway in front of the workers.
func (c *crew) gateway() *server {
	c.t.Helper()
	s := startServer(c.t, c.args...)
	go func() {
		for range s.lines {
		}
	}()
	return s
}

// start runs a worker.
func (c *crew) start(h *hand, more ...string) {
	command := append(slices.Clone(h.within), c.exe)
	h.cmd = exec.Command(command[0], append(append(command[1:], "worker", "--model", "polly-mini", "--addr", h.addr,
		"--data", h.data, "--threads", "1", "--drain", "2s", "--log-level", "warn"), slices.Concat(h.more, more)...)...)
	h.cmd.Stdout, h.cmd.Stderr = h.log, h.log
	if err := h.cmd.Start(); err != nil {
		c.t.Error(err)
		return
	}
	cmd := h.cmd
	c.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// up reports whether a worker answers.
func (h *hand) up() bool {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + h.addr + "/health")
	if err == nil {
		resp.Body.Close()
	}
	return err == nil && resp.StatusCode == http.StatusOK
}

func (c *crew) await(h *hand) {
	for until := time.Now().Add(time.Minute); !h.up(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			text, _ := os.ReadFile(h.log.Name())
			c.t.Fatalf("a worker did not start: %s", text)
		}
	}
}

// ready waits until the gateway has so many workers at work.
func (c *crew) ready(n int) {
	c.t.Helper()
	for until := time.Now().Add(time.Minute); c.count("up") < n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			c.t.Fatalf("the gateway sees %d workers, want %d", c.count("up"), n)
		}
	}
}

func (c *crew) standings() []fleet.Standing {
	c.t.Helper()
	k, err := fleetctl.Client(&remote.Command{Address: c.front.url})
	if err != nil {
		c.t.Fatal(err)
	}
	list, err := fleetctl.Standings(context.Background(), k)
	if err != nil {
		c.t.Fatal(err)
	}
	return list
}

func (c *crew) count(state string) (n int) {
	for _, s := range c.standings() {
		if string(s.State) == state {
			n++
		}
	}
	return n
}

func (c *crew) moved() (n uint64) {
	for _, s := range c.standings() {
		n += s.Moved
	}
	return n
}

// wishes are requests of all kinds. Each is repeatable.
func wishes() (bodies []string) {
	const schema = `{"type":"object","properties":{"names":{"type":"array","items":{"type":"string","maxLength":12},"minItems":8,"maxItems":20},"sum":{"type":"integer"}},"required":["names","sum"],"additionalProperties":false}`
	kinds := []string{
		`"temperature":0`,
		`"temperature":1,"seed":%[1]d`,
		`"temperature":0.8,"seed":%[1]d,"n":3`,
		`"temperature":1,"seed":%[1]d,"logprobs":true,"top_logprobs":3`,
		`"temperature":1,"seed":%[1]d,"frequency_penalty":0.5,"presence_penalty":0.3,"stop":["the w","ing t","and s"]`,
		`"temperature":1,"seed":%[1]d,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":` + schema + `}}`,
	}
	for i := range 24 {
		extra := kinds[i%len(kinds)]
		if strings.Contains(extra, "%") {
			extra = fmt.Sprintf(extra, 100+i)
		}
		bodies = append(bodies,
			fmt.Sprintf(
				`{"model":"polly-mini","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"Tell me a long story about number %d, a ship and the sea."}],%s}`, 120+10*i, i, extra))
	}
	return bodies
}

// A heardStream is all that a client sees of an answer but for ids and times.
type heardStream struct {
	Text, Logprobs, Finish map[int]string
	Done                   bool
}

// hearAll reads a whole stream.
func hearAll(ctx context.Context, url, body string) (heardStream, error) {
	return hearAt(ctx, url+"/v1/chat/completions", body)
}

// hearAt reads a whole stream from a route.
func hearAt(ctx context.Context, url, body string) (h heardStream, err error) {
	h = heardStream{Text: map[int]string{}, Logprobs: map[int]string{}, Finish: map[int]string{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return h, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return h, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		switch {
		case resp.StatusCode != http.StatusOK:
			return h, fmt.Errorf("%s: %s", resp.Status, lines.Text())
		case string(data) == "[DONE]":
			h.Done = true
		case ok:
			if err := h.add(data); err != nil {
				return h, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return h, err
	}
	if !h.Done {
		return h, fmt.Errorf("the stream ended early")
	}
	return h, nil
}

func (h *heardStream) add(data []byte) error {
	var chunk struct {
		Error   json.RawMessage
		Choices []struct {
			Index        int
			Delta        struct{ Content string }
			Logprobs     *struct{ Content []json.RawMessage }
			FinishReason string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(data, &chunk); err != nil || chunk.Error != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	for _, c := range chunk.Choices {
		h.Text[c.Index] += c.Delta.Content
		h.Finish[c.Index] += c.FinishReason
		if c.Logprobs != nil {
			for _, l := range c.Logprobs.Content {
				h.Logprobs[c.Index] += string(l)
			}
		}
	}
	return nil
}

// heardBefore has what was heard undisturbed, by what was asked: every crew has the same model, so it is heard once for
// all tests.
var heardBefore sync.Map

// undisturbed returns what hear returns for a question before anything is done to workers.
func undisturbed[T any](t *testing.T, question string, hear func() (T, error)) T {
	t.Helper()
	if heard, ok := heardBefore.Load(question); ok {
		return heard.(T)
	}
	heard, err := hear()
	if err != nil {
		t.Fatal(err)
	}
	heardBefore.Store(question, heard)
	return heard
}

// under keeps 64 streams and some conversations going while something is done to the
// workers, and wants every one of them to be what it is in peace.
func (c *crew) under(what string, do func()) {
	c.t.Helper()
	bodies := wishes()
	want := make([]heardStream, len(bodies))
	for i, body := range bodies {
		want[i] = undisturbed(c.t, body, func() (heardStream, error) {
			return hearAll(c.t.Context(), c.front.url, body)
		})
	}
	conversations := c.rehearse()
	before := c.moved()
	ended := make(chan struct{})
	var wrong, whole atomic.Int64
	var streams sync.WaitGroup
	conversations.hold(c, &streams, ended)
	for n := range chaosStreams {
		streams.Go(func() {
			for i := n; ; i++ {
				body := i % len(bodies)
				got, err := hearAll(c.t.Context(), c.front.url, bodies[body])
				if err != nil || !reflect.DeepEqual(got, want[body]) {
					if wrong.Add(1) <= 3 {
						c.t.Errorf("%s: %v\n%s\ngot  %+v\nwant %+v", what, err, bodies[body], got, want[body])
					}
				}
				whole.Add(1)
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	do()
	close(ended)
	streams.Wait()
	c.t.Logf(
		"%s: %d streams, %d failed or altered; %d conversations, %d failed or altered; %d attempts "+
			"continued on another worker", what, whole.Load(), wrong.Load(), conversations.held, conversations.wrong,
		c.moved()-before)
	if c.moved() == before {
		c.t.Errorf("%s: nothing had to move, so nothing was shown", what)
	}
}

// TestKilledWorkers kills a worker every second under 64 streams, without and with
// a second worker asked where the first takes long.
func TestKilledWorkers(t *testing.T) {
	t.Run("plain", func(t *testing.T) { killEverySecond(startCrew(t, 3)) })
	t.Run("hedged", func(t *testing.T) {
		leftToChaos(t)
		killEverySecond(startCrew(t, 3, "--hedge-after", "500ms"))
	})
}

func killEverySecond(c *crew) {
	c.under("kill -9", func() {
		kills := 0
		for end, i := time.Now().Add(*chaosFor), 0; time.Now().Before(end); i++ {
			victim, others := c.workers[i%3], []*hand{c.workers[(i+1)%3], c.workers[(i+2)%3]}
			if others[0].up() || others[1].up() { // one must live
				kills++
				_ = victim.cmd.Process.Kill()
				_ = victim.cmd.Wait()
				c.start(victim)
			}
			time.Sleep(time.Second)
		}
		c.t.Logf("%d kills", kills)
	})
}

// TestStoppedWorkers has a worker stand still for a while, again and again.
func TestStoppedWorkers(t *testing.T) {
	leftToChaos(t)
	c := startCrew(t, 3)
	c.under("SIGSTOP", func() {
		for end, i := time.Now().Add(*chaosFor), 0; time.Now().Before(end); i++ {
			p := c.workers[i%3].cmd.Process
			_ = p.Signal(syscall.SIGSTOP)
			time.Sleep(6 * time.Second)
			_ = p.Signal(syscall.SIGCONT)
			time.Sleep(time.Second)
		}
	})
}

// TestRollingRestart restarts all workers, one after the other, as an operator
// would: drained first.
func TestRollingRestart(t *testing.T) {
	c := startCrew(t, 3)
	k, err := remote.New(c.front.url)
	if err != nil {
		t.Fatal(err)
	}
	c.under("rolling restart", func() {
		for _, h := range c.workers {
			resp, err := k.Send(t.Context(), http.MethodPost, "/fleet/workers/"+h.addr+"/drain?within=200ms", []byte{})
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			_ = h.cmd.Process.Signal(syscall.SIGTERM)
			_ = h.cmd.Wait()
			c.start(h)
			c.await(h)
			resp, err = k.Send(t.Context(), http.MethodPost, "/fleet/workers/"+h.addr+"/resume", []byte{})
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			c.ready(3)
		}
	})
}
