package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/supervise"
	"parley/internal/testkit"
)

// chaosTalks is how many conversations are held beside the streams.
const chaosTalks = 4

// talk holds a conversation that is kept by the gateway: three turns, of which each
// builds on the answers before. It is the same whenever it is held.
func talk(ctx context.Context, url string, seed int) (turns []heardStream, err error) {
	post := func(path, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		return http.DefaultClient.Do(req)
	}
	resp, err := post("/v1/conversations", `{"model":"polly-mini"}`)
	if err != nil {
		return nil, err
	}
	var made struct{ ID string }
	err = json.NewDecoder(resp.Body).Decode(&made)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	for turn := range 3 {
		body := fmt.Sprintf(
			`{"content":"Tell me part %d of the story of ship %d.","stream":true,"temperature":1,"seed":%d,"ignore_eos":true,"max_tokens":90}`, turn+1, seed, seed+turn)
		said, err := hearAt(ctx, url+"/v1/conversations/"+made.ID+"/messages", body)
		if err != nil {
			return turns, fmt.Errorf("turn %d: %w", turn, err)
		}
		turns = append(turns, said)
	}
	return turns, nil
}

// talks are conversations held again and again until something has ended. Each must
// be what it is in peace.
type talks struct {
	want  [chaosTalks][]heardStream
	mu    sync.Mutex
	held  int
	wrong int
}

// rehearse holds each conversation once, in peace.
func (c *crew) rehearse() *talks {
	c.t.Helper()
	s := &talks{}
	for i := range s.want {
		s.want[i] = undisturbed(c.t, fmt.Sprint("conversation ", i), func() ([]heardStream, error) {
			return talk(c.t.Context(), c.front.url, 300+10*i)
		})
		if text := s.want[i][2].Text[0]; len(text) < 20 {
			c.t.Fatalf("the last turn says no more than %q", text)
		}
	}
	return s
}

// hold has the conversations held.
func (s *talks) hold(c *crew, group *sync.WaitGroup, ended <-chan struct{}) {
	for i := range s.want {
		group.Go(func() {
			for over := false; !over; {
				got, err := talk(c.t.Context(), c.front.url, 300+10*i)
				same := err == nil && reflect.DeepEqual(got, s.want[i])
				if s.count(same); !same {
					c.t.Errorf("conversation %d: %v\ngot  %+v\nwant %+v", i, err, got, s.want[i])
				}
				select {
				case <-ended:
					over = true
				default:
				}
			}
		})
	}
}

func (s *talks) count(same bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held++; !same {
		s.wrong++
	}
}

// TestLimitsOfGatewaysSideBySide has clients take what they can with one key at two
// gateways that share a database and a Redis: what one has given, the other has no
// more.
func TestLimitsOfGatewaysSideBySide(t *testing.T) {
	const perMinute, asked = 40, 120
	redis := testkit.StartRedis(t)
	c := startCrew(t, 1, "--store", testkit.PostgresDSN(t), "--redis", redis.URL, "--tiers",
		"pro.requests-per-second=1000")
	other := &crew{t: t, front: c.gateway()}
	other.ready(1)
	key, err := invoke(t, "keys", "create", "site", "--org", "acme", "--tier", "pro", "--requests-per-minute",
		strconv.Itoa(perMinute), "--url", c.front.url)
	if err != nil {
		t.Fatal(err)
	}
	// Until a gateway knows that there are keys, this machine needs none.
	for until := time.Now().Add(time.Minute); statusWith(t, other.front.url,
		"") != http.StatusUnauthorized; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the other gateway does not know the key")
		}
	}
	began := time.Now()
	status := takeAll(t, key, asked, c.front.url, other.front.url)
	most := perMinute + int(perMinute*time.Since(began).Minutes()) + 1 // it fills again meanwhile
	// A slow machine may turn some away as overloaded, which were counted before.
	given, overloaded := status[http.StatusOK], status[http.StatusServiceUnavailable]
	if given+overloaded < perMinute || given > most || given+overloaded+status[http.StatusTooManyRequests] != asked {
		t.Errorf("of %d a minute there were %v: want %d to %d", perMinute, status, perMinute, most)
	}
	t.Logf("%d a minute are allowed: %v in %v at two gateways", perMinute, status,
		time.Since(began).Round(time.Millisecond))
}

// takeAll sends short requests with a key, some at once, to each of the gateways in
// turn, and counts the statuses.
func takeAll(t *testing.T, key string, asked int, gateways ...string) map[int]int {
	t.Helper()
	var clients sync.WaitGroup
	var mu sync.Mutex
	status := map[int]int{}
	for client := range 8 {
		clients.Go(func() {
			for i := range asked / 8 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
					gateways[(client+i)%len(gateways)]+"/v1/completions",
					strings.NewReader(`{"model":"polly-mini","prompt":"x","max_tokens":1}`))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+key)
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				mu.Lock()
				status[resp.StatusCode]++
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return status
}

// TestWorkersHoldLittle asks for much more than a worker can do at once: what waits,
// waits at the gateway, where the order is decided, and not at the worker.
func TestWorkersHoldLittle(t *testing.T) {
	c := newCrew(t)
	addr, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	c.workers = []*hand{{addr: addr, more: []string{"--seqs", "4", "--step-tokens", "256", "--speculate", "off"}}}
	c.open(append([]string{}, calmly...))
	const asked = 48
	var clients sync.WaitGroup
	for i := range asked {
		clients.Go(func() {
			body := fmt.Sprintf(
				`{"model":"polly-mini","max_tokens":60,"ignore_eos":true,"messages":[{"role":"user","content":"%d %s"}]}`, i, strings.Repeat("a ship and the sea ", 30))
			resp, err := http.Post(c.front.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.Body.Close(); resp.StatusCode != http.StatusOK {
				t.Error(resp.Status)
			}
		})
	}
	ended := make(chan struct{})
	go func() { clients.Wait(); close(ended) }()
	there, here := 0, 0
	for over := false; !over; {
		there = max(there, gauge(t, "http://"+addr, "vllm:num_requests_waiting"))
		here = max(here, gauge(t, c.front.url, "parley_queue_waiting"))
		select {
		case <-ended:
			over = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	if there > 8 || here < asked/2 {
		t.Errorf("of %d requests up to %d waited at the worker and %d at the gateway", asked, there, here)
	}
	t.Logf("of %d requests up to %d waited at the worker, and %d at the gateway", asked, there, here)
}

// gauge adds up all series of a gauge.
func gauge(t *testing.T, url, name string) (sum int) {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(
		string(bodyOf(t, resp)), -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Error(err)
		}
		sum += int(v)
	}
	return sum
}
