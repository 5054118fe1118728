package book

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"
	"parley/limit"

	"github.com/redis/go-redis/v9"
)

func TestCrashedGatewayGivesBack(t *testing.T) {
	server := testkit.StartRedis(t)
	c := newClock()
	config := RedisConfig{URL: server.URL, Now: c.Now, Lease: time.Minute}
	dead, alive := openRedis(t, config), openRedis(t, config)
	a := account("a", limit.Limits{OutputTokensPerMinute: 600, ConcurrentRequests: 1, MonthlyBudget: 100})
	h := hold(1, limit.Use{Requests: 1, Concurrent: 1, Output: 600, Cost: 100}, a)
	reserve(t, dead, h)
	dead.mu.Lock()
	delete(dead.held, h) // it renews nothing any more
	dead.mu.Unlock()
	next := hold(2, limit.Use{Requests: 1, Concurrent: 1, Output: 600, Cost: 100}, a)
	c.pass(59 * time.Second)
	if v := reserve(t, alive, next); v.Refused == "" {
		t.Fatal("the reservation of a living gateway was given away")
	}
	c.pass(time.Second)
	if v := reserve(t, alive, next); v.Refused != "" {
		t.Fatalf("after the lease: %+v", v)
	}
	// The gateway was not dead at all. What it tells late counts, once.
	dead.Settle(h, limit.Use{Requests: 1, Output: 30, Cost: 10})
	dead.Settle(h, limit.Use{Requests: 1, Output: 30, Cost: 10})
	alive.Settle(next, limit.Use{Requests: 1, Output: 600, Cost: 50})
	v := reserve(t, alive, hold(3, limit.Use{Requests: 1, Cost: 41}, a))
	if v.Refused != limit.Budget || v.Left != 40 {
		t.Fatalf("10 and 50 of 100 are spent: %+v", v)
	}
}

func TestLeasesAreRenewed(t *testing.T) {
	server := testkit.StartRedis(t)
	c := newClock()
	r := openRedis(t, RedisConfig{URL: server.URL, Lease: 900 * time.Millisecond, Now: c.Now})
	a := account("a", limit.Limits{ConcurrentRequests: 1})
	h := hold(1, limit.Use{Requests: 1, Concurrent: 1}, a)
	reserve(t, r, h)
	for range 3 { // two leases long
		c.pass(600 * time.Millisecond)
		until(t, "the lease is renewed", func() bool {
			leases, err := r.client.(*redis.Client).ZRangeWithScores(t.Context(), r.keys(h)[3], 0, -1).Result()
			return err == nil && len(leases) == 1 &&
				int64(leases[0].Score) == c.Now().Add(900*time.Millisecond).UnixMicro()
		})
		if v := reserve(t, r, hold(2, limit.Use{Requests: 1, Concurrent: 1}, a)); v.Refused != limit.Concurrency {
			t.Fatalf("a long answer lost its reservation: %+v", v)
		}
	}
}

func TestRedisDownFailsClosed(t *testing.T) {
	server := testkit.StartRedis(t)
	var log strings.Builder
	r := openRedis(t, RedisConfig{URL: server.URL, Log: slog.New(slog.NewTextHandler(&syncWriter{w: &log}, nil))})
	a := account("a", limit.Limits{RequestsPerMinute: 1000, MonthlyBudget: 1000})
	h := hold(1, limit.Use{Requests: 1, Cost: 7}, a)
	reserve(t, r, h)
	server.Stop()
	_, err := r.Reserve(context.Background(), hold(2, limit.Use{Requests: 1}, a))
	if parley.CodeOf(err) != parley.Unavailable {
		t.Fatalf("without Redis: %v", err)
	}
	r.Settle(h, limit.Use{Requests: 1, Cost: 5})
	if shown(t, r, "parley_limits_redis_up") != 0 || shown(t, r, "parley_limits_without_redis_total") != 1 {
		t.Error("the metrics do not tell")
	}
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Error("the log does not tell")
	}
	server.Start(t)
	back(t, r)
	if shown(t, r, "parley_limits_redis_up") != 1 {
		t.Error("the metrics do not tell that it is back")
	}
}

func TestRedisDownShares(t *testing.T) {
	server := testkit.StartRedis(t)
	r := openRedis(t, RedisConfig{URL: server.URL, Gateways: 4, Spent: said(100), Timeout: 2 * time.Second})
	told := watched(r)
	a := account("a", limit.Limits{RequestsPerMinute: 10})
	b := account("b", limit.Limits{MonthlyBudget: 1000, BudgetAlert: 325})
	first := hold(0, limit.Use{Cost: 1}, b)
	reserve(t, r, first)
	r.Settle(first, limit.Use{})
	server.Pause(t)
	went := 0
	for i := range 10 {
		if v := reserve(t, r, hold(i, limit.Use{Requests: 1}, a)); v.Refused == "" {
			went++
		}
	}
	if went != 2 {
		t.Errorf("%d went, want a fourth of 10", went)
	}
	h := hold(20, limit.Use{Cost: 225}, b)
	if v := reserve(t, r, h); v.Refused != "" {
		t.Errorf("a fourth of what is left of the budget: %+v", v)
	}
	if v := reserve(t, r, hold(21, limit.Use{Cost: 1}, b)); v.Refused != limit.Budget {
		t.Errorf("more than a fourth: %+v", v)
	}
	r.Settle(h, limit.Use{Cost: 225})
	thisMonth := fmt.Sprint("b ", limit.MonthOf(time.Now()))
	if told(thisMonth) != 0 {
		t.Error("a gateway's share of the budget is taken for all of it")
	}
	server.Resume(t)
	back(t, r)
	if told(thisMonth) != 1 {
		t.Errorf("when Redis is back it is told %d times that the budget is nearly spent", told(thisMonth))
	}
	// What was used meanwhile is told: 100 spent before, then 225.
	if v := reserve(t, r, hold(22, limit.Use{Cost: 676}, b)); v.Refused != limit.Budget {
		t.Errorf("what was spent in between is forgotten: %+v", v)
	}
	if v := reserve(t, r, hold(23, limit.Use{Cost: 675}, b)); v.Refused != "" {
		t.Errorf("%+v", v)
	}
}

// back waits until the book has found Redis again.
func back(t testing.TB, r *Redis) {
	t.Helper()
	until(t, "the book sees that Redis is back", func() bool {
		_, down := r.share()
		return !down
	})
}

// until waits for something that others do.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not happened: " + what)
		}
	}
}

// TestReservationThatWasNotHeardOf has Redis make a reservation after the gateway
// has given up on it: nobody holds that for the time of a lease.
func TestReservationThatWasNotHeardOf(t *testing.T) {
	server := testkit.StartRedis(t)
	r := openRedis(t, RedisConfig{URL: server.URL, Timeout: 2 * time.Second, Lease: time.Hour})
	a := account("a", limit.Limits{ConcurrentRequests: 1, OutputTokensPerMinute: 100, MonthlyBudget: 100})
	first := hold(1, limit.Use{Requests: 1, Concurrent: 1}, a)
	reserve(t, r, first)
	r.Settle(first, first.Use)
	server.Pause(t)
	second := hold(2, limit.Use{Requests: 1, Concurrent: 1, Output: 100, Cost: 100}, a)
	if _, err := r.Reserve(context.Background(), second); parley.CodeOf(err) != parley.Unavailable {
		t.Fatalf("without Redis: %v", err)
	}
	server.Resume(t)
	back(t, r)
	until(t, "what nobody uses is given back", func() bool {
		next := hold(3, limit.Use{Requests: 1, Concurrent: 1, Output: 100, Cost: 100}, a)
		v, err := r.Reserve(context.Background(), next)
		return err == nil && v.Refused == ""
	})
}

// TestLateSettlementsAreBounded adds to settlements of which some are being sent:
// what is dropped is not one of those.
func TestLateSettlementsAreBounded(t *testing.T) {
	r := &Redis{metrics: newRedisMetrics(), outage: outage{later: make([]command, laterMax)}}
	first := hold(1, limit.Use{})
	r.later[0].hold = first
	r.tellLater(command{hold: hold(2, limit.Use{})})
	if len(r.later) != laterMax || r.later[0].hold != first || shown(t, r, "parley_limits_dropped_total") != 1 {
		t.Errorf("%d wait, the first of them is still first: %v", len(r.later), r.later[0].hold == first)
	}
}
