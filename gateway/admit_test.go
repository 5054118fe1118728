package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/infer"
	"parley/gateway/tenant"
	"parley/queue"
)

// slots is a worker that writes so many answers at once, and lets the others
// wait in the order they came.
func slots(t *testing.T, n int, text string, step time.Duration) *crowd {
	return &crowd{worker: worker{script: speak(t, text, step)}, slots: make(chan struct{}, n)}
}

// narrow bounds what the worker holds to one request beside those that it has
// begun, so that a few clients are enough to make a queue.
func narrow(c *Config) { c.Admission.Queue.Hold = time.Nanosecond }

// byKey tells tenants and tiers apart by their key, such as "pro-anna".
func byKey(c *call) (*tenant.Identity, error) {
	key := strings.TrimPrefix(c.Request.Header.Get("Authorization"), "Bearer ")
	tier, _, _ := strings.Cut(key, "-")
	for class := range parley.Class(parley.Classes) {
		if class.String() == tier {
			return &tenant.Identity{Organization: key, Tier: class}, nil
		}
	}
	return &tenant.Identity{Organization: key}, nil
}

// send asks for an answer in the name of a key, and hands over what came.
func (s *server) send(ctx context.Context, key, extra string) (*http.Response, string, error) {
	r := mustRequest(s.t, ctx, chatBody(extra))
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("X-Client-Request-Id", "name-"+key)
	response, err := s.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

// heldByNarrow is how many short requests lie with a worker that begins none.
const heldByNarrow = 4

// occupy fills the slots of a worker whose first token takes so long, and what
// may lie with it besides.
func (s *server) occupy(group *sync.WaitGroup, key string, slots int, step time.Duration) {
	ask := func(n int) {
		for range n {
			group.Go(func() {
				if _, _, err := s.send(s.t.Context(), key, `,"stream":true`); err != nil {
					s.t.Error(err)
				}
			})
		}
		synctest.Wait()
	}
	ask(slots)
	time.Sleep(step)
	ask(heldByNarrow)
}

func TestWaitingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slots(t, 2, "one two three four five", 2*time.Second)
		s := start(t, w, narrow)
		s.gateway.who = byKey
		var group sync.WaitGroup
		s.occupy(&group, "pro-busy", 2, 2*time.Second)
		r := mustRequest(t, t.Context(), chatBody(`,"stream":true`))
		r.Header.Set("Authorization", "Bearer pro-anna")
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		lines := bufio.NewReader(response.Body)
		line, _ := lines.ReadString('\n')
		if !strings.HasPrefix(line, ": queue position=1 wait=") {
			t.Errorf("the client is told %q", line)
		}
		if h := response.Header; h.Get("X-Queue-Position") != "1" || h.Get("X-Queue-Wait") == "" ||
			h.Get("X-Queue-Estimated-Wait") == "" {
			t.Errorf("the headers say %v", h)
		}
		id := response.Header.Get("X-Request-Id")
		place, _ := s.place("pro-anna", id)
		if place.Status != "waiting" || place.Position != 1 || place.Tier != "pro" || place.Waited < 2 {
			t.Errorf("the place is %+v", place)
		}
		if _, status := s.place("pro-other", id); status != 404 {
			t.Errorf("another tenant gets %d", status)
		}
		_, list := s.do("GET", "/v1/queue", "", bearer("pro-anna")...)
		if !strings.Contains(list, `"waiting":1`) ||
			!strings.Contains(list, `{"tier":"pro","waiting":1,"shedding":0}`) {
			t.Errorf("the queue is %s", list)
		}
		s.wantMetric(`parley_queue_waiting{model="tiny/llama:1",pool="local",tier="pro"}`, "1")
		rest, _ := io.ReadAll(lines)
		if got := streamedText(string(rest)); got != "one two three four five" {
			t.Errorf("the answer is %q", got)
		}
		group.Wait()
		s.settled(&w.worker)
		if _, status := s.place("pro-anna", id); status != 404 {
			t.Errorf("a complete request has the status %d", status)
		}
		s.wantMetric(`parley_queue_wait_seconds_count{pool="local",tier="pro"}`, "7")
		for i, r := range w.asked { // the engine subtracts the wait from what was promised
			if waited := r.Waited >= 2*time.Second; waited != (r.Tenant == "pro-anna") || !waited && r.Waited != 0 {
				t.Errorf("request %d of %s is sent with a wait of %v", i, r.Tenant, r.Waited)
			}
		}
	})
}

// place asks where a request stands.
func (s *server) place(key, id string) (p infer.QueuePlace, status int) {
	response, body := s.do("GET", "/v1/queue/"+id, "", "Authorization", "Bearer "+key)
	if response.StatusCode == 200 {
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			s.t.Error(err)
		}
	}
	return p, response.StatusCode
}

func TestLeavingTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slots(t, 1, "one", 10*time.Second)
		s := start(t, w, narrow)
		s.gateway.who = byKey
		var group sync.WaitGroup
		s.occupy(&group, "free-busy", 1, 10*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			if _, _, err := s.send(ctx, "free-anna", ""); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		if p, _ := s.place("free-anna", "name-free-anna"); p.Position != 1 {
			t.Errorf("the place by the client's own name is %+v", p)
		}
		cancel()
		synctest.Wait()
		s.wantMetric(`parley_queue_waiting{model="tiny/llama:1",pool="local",tier="free"}`, "0")
		if n := w.came.Load(); n != 1+heldByNarrow {
			t.Errorf("the worker was asked %d times", n)
		}
		group.Wait()
	})
}

// TestTurnedAway fills a queue of two and sees who must go.
func TestTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slots(t, 1, "one two", 3*time.Second)
		s := start(t, w, narrow, func(c *Config) {
			c.Admission.Queue.DepthMax = 2
			c.Admission.Queue.Tiers[parley.Free] = queue.Tier{DepthMax: 2, WaitMax: 2 * time.Second}
		})
		s.gateway.who = byKey
		var group sync.WaitGroup
		s.occupy(&group, "pro-busy", 1, 3*time.Second) // free ones may not wait so long, wherever they are
		expect := func(key string, status int, text string) {
			group.Go(func() {
				response, body, err := s.send(t.Context(), key, "")
				if err != nil || response.StatusCode != status || !strings.Contains(body, text) {
					t.Errorf("%s: %v, %s", key, err, body)
				}
				if status != 200 && (response.Header.Get("Retry-After") == "" ||
					response.Header.Get("X-Queue-Wait") == "") {
					t.Errorf("%s: %v", key, response.Header)
				}
			})
			synctest.Wait()
		}
		expect("free-anna", 503, "reached the longest wait")
		expect("free-ben", 503, "was displaced")
		expect("free-carl", 503, "queue is full")
		expect("pro-dora", 200, "one two")
		group.Wait()
		s.settled(&w.worker)
		s.wantMetric(`parley_shed_total{pool="local",reason="expired",tier="free"}`, "1")
		s.wantMetric(`parley_shed_total{pool="local",reason="displaced",tier="free"}`, "1")
		s.wantMetric(`parley_shed_total{pool="local",reason="full",tier="free"}`, "1")
	})
}

func TestBoundsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "late", time.Hour)}
		s := start(t, w)
		before := time.Now()
		status, body := s.chat("")
		wantBody(t, body,
			`{"error":{"message":"The first token of the answer did not come within 1m0s.","type":"server_error","param":null,"code":"deadline_exceeded"}}`)
		if waited := time.Since(before); status != 504 || waited != time.Minute {
			t.Errorf("%d after %v", status, waited)
		}
		s.settled(w)
		w.script = speak(t, "one two three four", 20*time.Minute/3)
		s = start(t, w, func(c *Config) { c.Admission.FirstTokenMax = time.Hour })
		before = time.Now()
		_, body = s.chat(`,"stream":true`)
		if !strings.Contains(body, `"content":" two"`) ||
			!strings.Contains(body, "whole answer did not come within 15m0s") {
			t.Errorf("got %s", body)
		}
		if waited := time.Since(before); waited != 15*time.Minute {
			t.Errorf("it ended after %v", waited)
		}
		s.settled(w)
	})
}

// TestBreaker breaks the worker and mends it.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		w := &worker{}
		w.script = func(r *parley.Request) []say {
			if broken {
				return []say{{err: errors.New("out of order")}}
			}
			return speech(t, r, time.Second, "fine")
		}
		s := start(t, w)
		for range 5 {
			if status, body := s.chat(""); status != 500 {
				t.Fatalf("%d: %s", status, body)
			}
		}
		response, body := s.do("POST", "/v1/chat/completions", chatBody(""))
		if response.StatusCode != 503 || response.Header.Get("Retry-After") != "1" ||
			!strings.Contains(body, "was not tried") {
			t.Errorf("%d %v: %s", response.StatusCode, response.Header, body)
		}
		if n := len(w.asked); n != 5 {
			t.Errorf("the worker was asked %d times", n)
		}
		s.wantMetric(`parley_breaker_state{kind="model",model="tiny/llama:1",pool="local"}`, "2")
		s.wantMetric(`parley_shed_total{pool="local",reason="breaker",tier="enterprise"}`, "1")
		time.Sleep(time.Second)
		broken = false
		// One tries, the others wait for what comes of it.
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if _, err := s.request(t.Context(), ""); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := w.active.Load(); n != 1 {
			t.Errorf("%d requests try at once", n)
		}
		group.Wait()
		s.wantMetric(`parley_breaker_state{kind="worker",model="tiny/llama:1",pool="local"}`, "0")
		s.wantMetric(`parley_http_requests_total{code="200",route="/v1/chat/completions"}`, "4")
		// A client that leaves, or asks for nonsense, shows nothing.
		w.script = func(*parley.Request) []say { return []say{{err: parley.Invalid("n", "no")}} }
		for range 10 {
			if status, _ := s.chat(""); status != 400 {
				t.Errorf("status %d", status)
			}
		}
	})
}

// TestWaitInsideAWorkerCounts lets a worker take requests and begin them late: one
// that is not begun within the longest wait is refused, one that is goes on.
func TestWaitInsideAWorkerCounts(t *testing.T) {
	for _, stream := range []string{"", `,"stream":true`} {
		synctest.Test(t, func(t *testing.T) {
			first := 4 * time.Second
			w := &worker{}
			w.script = func(r *parley.Request) []say {
				said := speech(t, r, 10*time.Second, "Hello there")
				said[0].after = first
				return said
			}
			s := start(t, w, func(c *Config) {
				for class := range c.Admission.Queue.Tiers {
					c.Admission.Queue.Tiers[class].WaitMax = 5 * time.Second
				}
			})
			if status, body := s.chat(stream); status != 200 || !strings.Contains(body, "here") {
				t.Errorf("begun in time: %d: %s", status, body)
			}
			first = time.Hour
			begun := time.Now()
			status, body := s.chat(stream)
			if took := time.Since(begun); status != 429 && status != 503 ||
				!strings.Contains(body, "reached the longest wait") || took != 5*time.Second {
				t.Errorf("after %v: %d: %s", took, status, body)
			}
			if w.active.Load() != 0 {
				t.Error("the worker still has it")
			}
		})
	}
}
