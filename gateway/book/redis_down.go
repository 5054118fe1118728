package book

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// redisMetrics say how Redis is.
type redisMetrics struct {
	up      prometheus.Gauge
	without *prometheus.CounterVec
	dropped prometheus.Counter
}

func newRedisMetrics() *redisMetrics {
	m := &redisMetrics{
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_limits_redis_up",
			Help: "1 while the Redis with the limits is reachable, otherwise 0."}),
		without: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_limits_without_redis_total",
			Help: "Requests while Redis was unreachable, by what was done: refused, or checked against " +
				"this gateway's share."}, []string{"how"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_limits_dropped_total",
			Help: "Settlements that were not written to Redis because too many were pending."}),
	}
	m.up.Set(1)
	m.without.WithLabelValues("refused")
	m.without.WithLabelValues("share")
	return m
}

// Metrics are to be shown with the gateway's.
func (r *Redis) Metrics() []prometheus.Collector {
	return []prometheus.Collector{r.metrics.up, r.metrics.without, r.metrics.dropped}
}

// share returns the book to use while Redis is down; nil refuses all.
func (r *Redis) share() (local *Memory, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.local, r.down != nil
}

// lost notes that Redis is out of reach.
func (r *Redis) lost(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down != nil {
		return
	}
	r.down = err
	r.metrics.up.Set(0)
	if r.config.Gateways == 0 {
		r.config.Log.Error("Redis unreachable: rejecting requests that have limits", "error", err)
		return
	}
	r.local = newMemoryWith(r.now, r.config.Spent)
	r.config.Log.Error("Redis unreachable: using this gateway's share of the limits", "gateways", r.config.Gateways,
		"error", err)
}

// found notes that Redis answers again.
func (r *Redis) found() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down != nil {
		r.down, r.local = nil, nil
		r.metrics.up.Set(1)
		r.config.Log.Warn("Redis reachable again")
	}
}

// tellLater keeps a command until Redis is back. The first of those that wait may
// be on their way, so it is the newest for which there is no room.
func (r *Redis) tellLater(c command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.later) >= laterMax {
		r.metrics.dropped.Inc()
		return
	}
	r.later = append(r.later, c)
}

// keep renews what is held and tries a Redis that is down, until ctx ends.
func (r *Redis) keep(ctx context.Context) {
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := r.revive(ctx)
		if err == nil && time.Since(renewed) >= r.config.Lease/3 {
			renewed = time.Now()
			err = r.renew(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.lost(err)
		}
	}
}

// revive reports to Redis what waits, and notes whether it is back.
func (r *Redis) revive(ctx context.Context) error {
	if _, down := r.share(); down {
		if err := r.client.Ping(ctx).Err(); err != nil {
			return err
		}
	}
	if err := r.tell(ctx); err != nil {
		return err
	}
	r.found()
	return nil
}

// tell sends what waits. What was sent in vain waits on; the script finds for
// itself what it has done already.
func (r *Redis) tell(ctx context.Context) error {
	for {
		r.mu.Lock()
		some := r.later[:min(len(r.later), laterAtOnce)]
		r.mu.Unlock()
		if len(some) == 0 {
			return nil
		}
		if err := r.sendAll(ctx, some); err != nil {
			return err
		}
		r.mu.Lock()
		r.later = r.later[len(some):]
		r.mu.Unlock()
	}
}

// renew prolongs all leases.
func (r *Redis) renew(ctx context.Context) error {
	r.mu.Lock()
	all := make([]command, 0, len(r.held))
	for h := range r.held {
		all = append(all, command{verb: "renew", hold: h})
	}
	r.mu.Unlock()
	for len(all) > 0 {
		n := min(len(all), laterAtOnce)
		if err := r.sendAll(ctx, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// sendAll sends commands together. A Redis that was restarted does not know the
// script, and is told.
func (r *Redis) sendAll(ctx context.Context, commands []command) error {
	if err := r.script.Load(ctx, r.client).Err(); err != nil {
		return err
	}
	pipe := r.client.Pipeline()
	sent := make([]*redis.Cmd, len(commands))
	for i := range commands {
		sent[i] = r.script.EvalSha(ctx, pipe, r.keys(commands[i].hold), r.arguments(&commands[i])...)
	}
	_, err := pipe.Exec(ctx)
	for i, cmd := range sent {
		told, failed := cmd.Int64Slice()
		if failed == nil {
			r.look(commands[i].hold, told)
		}
		err = errors.Join(err, failed)
	}
	return err
}
