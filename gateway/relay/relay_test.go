package relay

import (
	"crypto/sha256"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"

	"go.uber.org/goleak"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = []byte("a secret that gateways share")

// open returns one gateway's end.
func open(t *testing.T, config Config) *Redis {
	t.Helper()
	if config.Secret == nil {
		config.Secret = secret
	}
	r, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// joins joins an answer and wants to lead it, or to follow.
func joins(t *testing.T, r *Redis, name string, class parley.Class) (*Lead, *Follow) {
	t.Helper()
	lead, follow, err := r.Join(t.Context(), sha256.Sum256([]byte(name)), class)
	if err != nil {
		t.Fatal(err)
	}
	return lead, follow
}

// all reads an answer to its end.
func all(t *testing.T, f *Follow) (deltas []parley.Delta, s State) {
	t.Helper()
	for s == Going {
		more, state, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		deltas, s = append(deltas, more...), state
	}
	return deltas, s
}

func said(n int) parley.Delta {
	return parley.Delta{Tokens: []parley.Token{parley.Token(n)},
		Logprobs: []parley.Logprob{{Token: parley.Token(n), Logprob: -0.25}}}
}

// TestFollowersHaveAllOfAnAnswer has two gateways follow a third, one from the start and
// one that comes when the answer is complete.
func TestFollowersHaveAllOfAnAnswer(t *testing.T) {
	redis := testkit.StartRedis(t)
	a, b, c := open(t, Config{URL: redis.URL}), open(t, Config{URL: redis.URL}), open(t, Config{URL: redis.URL})
	lead, _ := joins(t, a, "x", parley.Free)
	_, follow := joins(t, b, "x", parley.Free)
	if lead == nil || follow == nil {
		t.Fatalf("the first leads: %v, the second follows: %v", lead != nil, follow != nil)
	}
	defer follow.Close()
	var want []parley.Delta
	for i := range 50 {
		want = append(want, said(i))
		lead.Add(want[i])
		if i == 0 { // it comes while the answer goes on
			if deltas, s, err := follow.Next(t.Context()); err != nil || s != Going ||
				!reflect.DeepEqual(deltas, want) {
				t.Fatalf("first came %v, %q, %v", deltas, s, err)
			}
		}
	}
	want = append(want,
		parley.Delta{Finish: parley.FinishStop, StopString: "a needle", Usage: &parley.Usage{PromptTokens: 3}})
	lead.Add(want[50])
	lead.End(Complete)
	if got, s := all(t, follow); s != Complete || !reflect.DeepEqual(got, want[1:]) {
		t.Errorf("the follower has %d deltas, %s", len(got), s)
	}
	_, late := joins(t, c, "x", parley.Free)
	if late == nil {
		t.Fatal("a complete answer is not followed")
	}
	defer late.Close()
	if got, s := all(t, late); s != Complete || !reflect.DeepEqual(got, want) {
		t.Errorf("the late follower has %d deltas, %s", len(got), s)
	}
	checkExpires(t, a)
}

// checkExpires wants every key to expire by itself, and to be unreadable.
func checkExpires(t *testing.T, r *Redis) {
	t.Helper()
	keys := r.client.(*redis.Client).Keys(t.Context(), "*").Val()
	if len(keys) != 2 {
		t.Errorf("Redis has the keys %v", keys)
	}
	for _, key := range keys {
		if ttl := r.client.(*redis.Client).PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > keptFor {
			t.Errorf("%s lives for %v", key, ttl)
		}
		for _, m := range r.client.(*redis.Client).XRange(t.Context(), key, "-", "+").Val() {
			if strings.Contains(m.Values["e"].(string), "needle") {
				t.Error("Redis can read what is said")
			}
		}
	}
}

// TestAnotherLeadsInPlaceOfTheLost lets a leader die, and another give up.
func TestAnotherLeadsInPlaceOfTheLost(t *testing.T) {
	redis := testkit.StartRedis(t)
	config := Config{URL: redis.URL, Lease: 300 * time.Millisecond}
	dying, b := open(t, config), open(t, config)
	lead, _ := joins(t, dying, "x", parley.Free)
	lead.Add(said(1))
	_, follow := joins(t, b, "x", parley.Free)
	defer follow.Close()
	if deltas, _, err := follow.Next(t.Context()); err != nil || len(deltas) != 1 {
		t.Fatalf("%v, %v", deltas, err)
	}
	_ = dying.client.Close() // its process is gone
	began := time.Now()
	if _, s := all(t, follow); s != Lost {
		t.Errorf("the answer of one that died is %q", s)
	}
	if waited := time.Since(began); waited > 10*time.Second {
		t.Errorf("that took %v", waited)
	}
	second, _ := joins(t, b, "x", parley.Free)
	if second == nil {
		t.Fatal("nobody leads in its place")
	}
	_, other := joins(t, b, "x", parley.Free)
	defer other.Close()
	second.End(Lost)
	if _, s := all(t, other); s != Lost {
		t.Errorf("an answer that was given up is %q", s)
	}
	if third, _ := joins(t, b, "x", parley.Free); third == nil {
		t.Error("nobody leads in place of one that gave up")
	} else {
		third.End(Lost)
	}
	lead.End(Lost)
}

// TestWhoDoesNotFollow has requests that compute for themselves.
func TestWhoDoesNotFollow(t *testing.T) {
	redis := testkit.StartRedis(t)
	a, b := open(t, Config{URL: redis.URL}), open(t, Config{URL: redis.URL, Follows: 1})
	lead, _ := joins(t, a, "x", parley.Free)
	if l, f := joins(t, b, "x", parley.Pro); l != nil || f != nil {
		t.Error("a pro request waits for the turn of a free one")
	}
	lead.Add(said(1))
	_, first := joins(t, b, "x", parley.Free)
	if _, _, err := first.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Join(t.Context(), sha256.Sum256([]byte("x")), parley.Free); !errors.Is(err, ErrBusy) {
		t.Errorf("two are followed where one may be: %v", err)
	}
	first.Close()
	_, begun := joins(t, b, "x", parley.Pro)
	if begun == nil {
		t.Error("a pro request does not follow an answer that has begun")
	} else {
		begun.Close()
	}
	stranger := open(t, Config{URL: redis.URL, Secret: []byte("another secret of theirs")})
	if l, _ := joins(t, stranger, "x", parley.Free); l == nil {
		t.Error("a gateway with another secret finds the answer")
	} else {
		l.End(Lost)
	}
	lead.End(Complete)
}

// TestLongAnswersAreNotShared bounds what is written.
func TestLongAnswersAreNotShared(t *testing.T) {
	server := testkit.StartRedis(t)
	a := open(t, Config{URL: server.URL, AnswerBytes: 10_000})
	lead, _ := joins(t, a, "x", parley.Free)
	_, follow := joins(t, a, "x", parley.Free)
	defer follow.Close()
	for range 2000 {
		lead.Add(said(1))
		if lead.ended() {
			break
		}
		time.Sleep(100 * time.Microsecond) // as tokens come
	}
	if _, s := all(t, follow); s != Alone {
		t.Errorf("it ended %q", s)
	}
	if n := a.client.(*redis.Client).MemoryUsage(t.Context(), follow.place.stream).Val(); n > 10*10_000 {
		t.Errorf("Redis holds %d bytes of it", n)
	}
	lead.End(Complete)
}

func (l *Lead) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state != Going
}

// TestWithoutRedisNobodyWaits stops Redis: the first request waits a moment, those
// after it not at all.
func TestWithoutRedisNobodyWaits(t *testing.T) {
	redis := testkit.StartRedis(t)
	a := open(t, Config{URL: redis.URL})
	redis.Pause(t)
	defer redis.Resume(t)
	for i := range 3 {
		began := time.Now()
		_, _, err := a.Join(t.Context(), sha256.Sum256([]byte("x")), parley.Free)
		if !errors.Is(err, ErrDown) || i > 0 && time.Since(began) > joinFor {
			t.Errorf("request %d waited %v: %v", i, time.Since(began), err)
		}
	}
}
