package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/gateway/relay"
	"parley/gateway/tenant"
	"parley/internal/testkit"
)

// startPair starts two gateways with a worker of its own each, which share a Redis.
func startPair(t *testing.T, redis *testkit.Redis, workers [2]*worker) (pair [2]*server) {
	t.Helper()
	for i := range pair {
		r, err := relay.Open(t.Context(),
			relay.Config{URL: redis.URL, Secret: []byte("the salt of both of them"), Lease: 600 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		pair[i] = start(t, workers[i], func(c *Config) { c.Share.Relay = r })
		pair[i].gateway.who = byKey
	}
	return pair
}

const spoken = "one two three four five six seven eight"

// bothSpeak returns workers that say the same.
func bothSpeak(t *testing.T, each time.Duration) [2]*worker {
	script := func(r *parley.Request) []say { return speech(t, r, each, spoken, "six five four") }
	return [2]*worker{{script: script}, {script: script}}
}

// listens opens a stream and returns when its first token has come.
func (s *server) listens(ctx context.Context, key, extra string) (body *http.Response, first *bufio.Reader) {
	s.t.Helper()
	response := s.open(ctx, "POST", "/v1/chat/completions", chatBody(extra+`,"stream":true`), "Authorization",
		"Bearer "+key)
	read := bufio.NewReader(response.Body)
	for {
		line, err := read.Peek(1)
		if err != nil || len(line) == 0 {
			s.t.Fatalf("no token came: %v", err)
		}
		all, _ := read.Peek(read.Buffered())
		if strings.Contains(string(all), `"content":"o`) || strings.Contains(string(all), `"content":"one`) {
			return response, read
		}
		if _, err := read.ReadString('\n'); err != nil {
			s.t.Fatalf("no token came: %v", err)
		}
	}
}

// TestOneGenerationForTwoGateways has clients of two gateways ask the same. The one that
// comes later streams what the other gateway computes, while it is computed.
func TestOneGenerationForTwoGateways(t *testing.T) {
	redis := testkit.StartRedis(t)
	for _, extra := range []string{`,"temperature":0`, `,"seed":5,"temperature":1`, `,"temperature":0,"n":3`,
		`,"temperature":0,"logprobs":true,"top_logprobs":1`} {
		t.Run(extra, func(t *testing.T) {
			workers := bothSpeak(t, 100*time.Millisecond)
			pair := startPair(t, redis, workers)
			extra += fmt.Sprintf(`,"max_tokens":%d`, 40+len(extra)/2) // not what another test asked
			leader, rest := pair[0].listens(t.Context(), "a", extra)
			defer leader.Body.Close()
			follower, others := pair[1].listens(t.Context(), "a", extra)
			defer follower.Body.Close()
			if follower.Header.Get("X-Answer-Shared") != "true" || leader.Header.Get("X-Answer-Shared") != "" {
				t.Error("it is not said who computes")
			}
			if workers[0].active.Load() != 1 {
				t.Error("the answer was complete before the second gateway had its first token")
			}
			texts := [2]string{}
			var group sync.WaitGroup
			for i, r := range []io.Reader{rest, others} {
				group.Go(func() {
					all, err := io.ReadAll(r)
					if err != nil {
						t.Error(err)
					}
					texts[i] = streamedText(string(all))
				})
			}
			group.Wait()
			if texts[0] != texts[1] || !strings.Contains(texts[0], "eight") {
				t.Errorf("one reads %q, the other %q", texts[0], texts[1])
			}
			if _, body := pair[1].ask("a", extra); !strings.Contains(body, "eight") {
				t.Errorf("what was followed is not kept: %s", body)
			}
			if n := [2]int{workers[0].times(), workers[1].times()}; n != [2]int{1, 0} {
				t.Errorf("the workers were asked %v times", n)
			}
			if n := pair[1].metric("parley_share_relayed_total"); n != "1" {
				t.Errorf("counted as followed: %s", n)
			}
		})
	}
}

// TestAnotherGatewayContinues has the only client of the gateway that computes leave, and
// that of the other gateway hear the whole answer, each token once.
func TestAnotherGatewayContinues(t *testing.T) {
	redis := testkit.StartRedis(t)
	workers := bothSpeak(t, 60*time.Millisecond)
	pair := startPair(t, redis, workers)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	const extra = `,"temperature":0,"logprobs":true`
	leader, _ := pair[0].listens(ctx, "a", extra)
	follower, rest := pair[1].listens(t.Context(), "a", extra)
	defer follower.Body.Close()
	leave()
	leader.Body.Close()
	all, err := io.ReadAll(rest)
	if err != nil {
		t.Fatal(err)
	}
	if got := streamedText(string(all)); got != spoken {
		t.Errorf("the follower reads %q", got)
	}
	if n := [2]int{workers[0].times(), workers[1].times()}; n != [2]int{1, 1} {
		t.Errorf("the workers were asked %v times", n)
	}
}

// TestAnAnswerThatDiffersIsNotContinued has the second gateway's worker say something
// else: its client is told, and reads no mixture of both.
func TestAnAnswerThatDiffersIsNotContinued(t *testing.T) {
	redis := testkit.StartRedis(t)
	workers := bothSpeak(t, 60*time.Millisecond)
	workers[1].script = func(r *parley.Request) []say { return speech(t, r, 0, "six five four three two one") }
	pair := startPair(t, redis, workers)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	leader, _ := pair[0].listens(ctx, "a", `,"temperature":0`)
	follower, rest := pair[1].listens(t.Context(), "a", `,"temperature":0`)
	defer follower.Body.Close()
	leave()
	leader.Body.Close()
	all, err := io.ReadAll(rest)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(all); !strings.Contains(text, "Send the request again") || strings.Contains(text, "three two") {
		t.Errorf("the follower reads %s", text)
	}
}

// TestWhatGatewaysDoNotShare has requests that each gateway computes.
func TestWhatGatewaysDoNotShare(t *testing.T) {
	redis := testkit.StartRedis(t)
	for name, c := range map[string]struct {
		keys   [2]string
		extra  string
		header []string
		broken bool
	}{
		"other tenants": {keys: [2]string{"a", "b"}, extra: `,"temperature":0,"max_tokens":50`},
		"no seed":       {keys: [2]string{"a", "a"}, extra: `,"temperature":1,"max_tokens":51`},
		"no-store": {keys: [2]string{"a", "a"}, extra: `,"temperature":0,"max_tokens":52`,
			header: []string{"Cache-Control", "no-store"}},
		"no-cache": {keys: [2]string{"a", "a"}, extra: `,"temperature":0,"max_tokens":53`,
			header: []string{"Cache-Control", "no-cache"}},
		"Redis is away": {keys: [2]string{"a", "a"}, extra: `,"temperature":0,"max_tokens":54`, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			workers := bothSpeak(t, 30*time.Millisecond)
			pair := startPair(t, redis, workers)
			if c.broken {
				redis.Pause(t)
				defer redis.Resume(t)
			}
			var group sync.WaitGroup
			for i, s := range pair {
				group.Go(func() {
					if _, body := s.ask(c.keys[i], c.extra, c.header...); !strings.Contains(body, spoken) {
						t.Errorf("client %d reads %s", i, body)
					}
				})
			}
			group.Wait()
			if n := [2]int{workers[0].times(), workers[1].times()}; n != [2]int{1, 1} {
				t.Errorf("the workers were asked %v times", n)
			}
		})
	}
}

// TestGatewaysShareWithinAScope has two users of an organisation ask the same of two
// gateways at the same time, with the default scope of caches: a user's second request
// follows the first one through Redis, and another user's is computed for itself.
func TestGatewaysShareWithinAScope(t *testing.T) {
	redis, store := testkit.StartRedis(t), newStoreName(t)
	workers := bothSpeak(t, 100*time.Millisecond)
	pro := parley.Pro
	var pair [2]*server
	var rigs [2]*tenantRig
	secret := []byte("the salt of both of them")
	for i := range pair {
		r, err := relay.Open(t.Context(), relay.Config{URL: redis.URL, Secret: secret, Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		share := func(c *Config) { c.Share.Relay, c.SaltKey = r, secret }
		pair[i], rigs[i] = startGuarded(t, workers[i], store, share)
	}
	alice, _ := rigs[0].key(tenant.NewKey{Organization: "acme", User: "alice", Tier: &pro})
	adam, _ := rigs[0].key(tenant.NewKey{Organization: "acme", User: "adam", Tier: &pro})
	if err := rigs[1].ring.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	const extra = `,"temperature":0`
	leader, _ := pair[0].listens(t.Context(), alice, extra)
	defer leader.Body.Close()
	follower, followed := pair[1].listens(t.Context(), alice, extra)
	defer follower.Body.Close()
	other, computed := pair[1].listens(t.Context(), adam, extra)
	defer other.Body.Close()
	if follower.Header.Get("X-Answer-Shared") == "" || other.Header.Get("X-Answer-Shared") != "" {
		t.Errorf("the same user: %v, another user: %v", follower.Header, other.Header)
	}
	for _, rest := range []io.Reader{followed, computed} {
		if all, err := io.ReadAll(rest); err != nil || !strings.Contains(streamedText(string(all)), "eight") {
			t.Errorf("%v: %.300s", err, all)
		}
	}
	if n := [2]int{workers[0].times(), workers[1].times()}; n != [2]int{1, 1} {
		t.Errorf("the workers were asked %v times", n)
	}
}
