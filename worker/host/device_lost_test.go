package host

import (
	"bufio"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/compute"
	"parley/fleet"
	"parley/fleet/discover"
	"parley/gateway"
	"parley/gateway/models"
	"parley/gateway/record"
)

// A mortal backend computes until its device is lost, as CUDA's does: from then on
// every result is a panic, and Err says why.
type mortal struct {
	compute.Backend
	lost *atomic.Bool
	// fuse, if above 0, is how many results all devices compute before the one that is asked next is lost.
	fuse *atomic.Int32
}

var errLost = errors.New("cuda: NVIDIA H200: GPU is lost")

func (m *mortal) Err() error {
	if m.lost.Load() {
		return errLost
	}
	return nil
}

func (m *mortal) Logits(dst []float32, src compute.Buffer, table compute.Weight) {
	if m.fuse.Load() > 0 && m.fuse.Add(-1) == 0 {
		m.lost.Store(true)
	}
	if err := m.Err(); err != nil {
		panic(err)
	}
	m.Backend.Logits(dst, src, table)
}

// pair is one model served by two workers behind a gateway. lost says whose device is
// lost, fuse makes it so.
type pair struct {
	front *httptest.Server
	fleet *fleet.Fleet
	urls  [2]string
	lost  [2]atomic.Bool
	fuse  atomic.Int32
}

func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{}
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", KVTokens: 512})
	served := models.Config{
		ID:            "polly-mini",
		Tokenizer:     h.Tokenizer,
		Template:      h.Template,
		ContextTokens: h.Models()[0].ContextTokens,
		Default:       true,
	}
	f, err := fleet.New(fleet.Config{
		Models:     h.Models(),
		Pools:      []fleet.Pool{fleet.DefaultPool()},
		ProbeEvery: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for i := range p.urls {
		wrap := func(b compute.Backend) compute.Backend { return &mortal{b, &p.lost[i], &p.fuse} }
		_, p.urls[i] = startWorker(t, ServerConfig{}, Config{KVTokens: 2048, NoSpeculation: true, wrap: wrap})
		at := discover.Address{Name: string(rune('a' + i)), URL: p.urls[i]}
		member, err := fleet.Dialer{Pool: fleet.DefaultPool().Name}.Connect(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Join(member); err != nil {
			t.Fatal(err)
		}
	}
	served.Worker = f
	g, err := gateway.New(gateway.Config{
		Models:   []models.Config{served},
		Registry: record.NewRegistry(),
		Log:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.fleet, p.front = f, httptest.NewServer(g)
	t.Cleanup(func() {
		p.front.Close()
		g.Close(t.Context())
	})
	return p
}

// ask reads the stream of an answer.
func (p *pair) ask(t *testing.T) string {
	t.Helper()
	body := `{"model":"polly-mini","stream":true,"temperature":0,"max_tokens":80,
		"messages":[{"role":"user","content":"` + longQuestion + `"}]}`
	url := p.front.URL + "/v1/chat/completions"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Cache-Control", "no-cache") // it is to be computed
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		line, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData || line == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
			Error   any
		}
		if err := json.Unmarshal([]byte(line), &chunk); err != nil || chunk.Error != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
		}
	}
	return text.String()
}

// TestALostDeviceMovesItsStreams loses the device of a worker in the middle of an
// answer: the client reads the same text from the other one, the worker's health says
// why it is out, and the fleet gives it nothing more.
func TestALostDeviceMovesItsStreams(t *testing.T) {
	p := startPair(t)
	calm := p.ask(t)
	if len(calm) < 20 {
		t.Fatalf("the answer is %q", calm)
	}
	p.fuse.Store(6)
	got := p.ask(t)
	victim := 0
	if p.lost[1].Load() {
		victim = 1
	}
	if !p.lost[victim].Load() || got != calm {
		t.Fatalf("worker %d was lost, and the client read\n%q\nnot\n%q", victim, got, calm)
	}
	response, err := http.Get(p.urls[victim] + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the health of the worker is %d", response.StatusCode)
	}
	within := time.Now().Add(10 * time.Second)
	for p.fleet.Standings()[victim].State == fleet.Up {
		if time.Now().After(within) {
			t.Fatalf("the fleet still sends to it: %+v", p.fleet.Standings()[victim])
		}
		time.Sleep(10 * time.Millisecond) // until the next probe
	}
	if again := p.ask(t); again != calm {
		t.Errorf("without the lost worker the answer is %q", again)
	}
}
