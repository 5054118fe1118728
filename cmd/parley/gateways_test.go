package main

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/testkit"
)

// TestGatewaysSideBySide has two gateways share a database and workers, and nothing
// else. Conversations go on at either, and find their context where the other had
// it computed. Killing one loses no turn that was acknowledged.
func TestGatewaysSideBySide(t *testing.T) {
	c := startCrew(t, 2, "--store", testkit.PostgresDSN(t), "--salt-key", "the same for both of them")
	other := &crew{t: t, front: c.gateway()}
	other.ready(2)
	both := []*server{c.front, other.front}

	path := newConversation(t, both[0])
	found := 0
	for turn := range 6 {
		status, answer := both[turn%2].fetch(t, "POST", path+"/messages",
			`{"content":"Tell me more about the sea, the ship and those who sail on it, please.","temperature":0,"max_tokens":40}`)
		if status != http.StatusOK {
			t.Fatalf("turn %d: %d %v", turn, status, answer)
		}
		for _, s := range both {
			if _, shown := s.fetch(t, "GET", path, ""); shown["message_count"] != float64(2*turn+2) {
				t.Errorf("after turn %d a gateway shows %v messages", turn, shown["message_count"])
			}
		}
		if timings, ok := both[0].lastItem(t, path)["timings"].(map[string]any); ok {
			found += int(timings["cached"].(float64))
		}
	}
	if found < 200 {
		t.Errorf("%d tokens were found in caches: gateways do not know what workers hold", found)
	}
	killOne(t, both)
}

func newConversation(t *testing.T, s *server) string {
	t.Helper()
	status, made := s.fetch(t, "POST", "/v1/conversations", `{"model":"polly-mini"}`)
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, made)
	}
	return "/v1/conversations/" + made["id"].(string)
}

// killOne has clients talk with the first gateway until it is killed, and looks
// for what it acknowledged at the second.
func killOne(t *testing.T, both []*server) {
	var clients sync.WaitGroup
	paths, acknowledged := make([]string, 4), make([]atomic.Int64, 4)
	for i := range paths {
		paths[i] = newConversation(t, both[0])
		clients.Go(func() {
			for say(both[0].url + paths[i]) {
				acknowledged[i].Add(1)
			}
		})
	}
	for i := range acknowledged {
		for until := time.Now().Add(time.Minute); acknowledged[i].Load() < 2 && time.Now().Before(until); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	both[0].kill()
	clients.Wait()
	for i, path := range paths {
		_, shown := both[1].fetch(t, "GET", path, "")
		count, said := int64(shown["message_count"].(float64)), acknowledged[i].Load()
		if t.Logf("%d turns were acknowledged before the gateway was killed, and there are %d messages", said,
			count); said == 0 || count < 2*said {
			t.Error("what was acknowledged is not there")
		}
		until := time.Now().Add(time.Minute) // the turn that was cut is open until the dead gateway is missed
		for !say(both[1].url + path) {
			if time.Now().After(until) {
				t.Fatal("the conversation does not go on at the other gateway")
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// say has a turn, and reports whether it was acknowledged: all of the answer came.
func say(at string) bool {
	response, err := http.Post(at+"/messages", "application/json",
		strings.NewReader(`{"content":"Hello!","max_tokens":8}`))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return err == nil && response.StatusCode == http.StatusOK && strings.HasSuffix(strings.TrimSpace(string(body)), "}")
}
