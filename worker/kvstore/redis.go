package kvstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	redisLatency = time.Millisecond
	// redisIO bounds one answer where nothing else does.
	redisIO = 10 * time.Second
	// dialMax bounds connecting to a store.
	dialMax = 2 * time.Second
)

// A redisPlace is a Redis or Valkey server, or a cluster of them. Keys expire if they are not
// renewed; beyond that the server should evict what was used least recently.
type redisPlace struct {
	client redis.UniversalClient
	keep   time.Duration
	label  string
}

// openRedis opens what go-redis's URLs name. The scheme redis-cluster names one server of a
// cluster, and others in addr parameters.
func openRedis(u *url.URL, keep time.Duration) (place, error) {
	scheme := strings.Replace(u.Scheme, "valkey", "redis", 1)
	scheme, cluster := strings.CutSuffix(scheme, "-cluster")
	redis.SetLogger(quietRedis{})
	to := *u
	to.Scheme = scheme
	p := &redisPlace{keep: keep, label: u.Scheme + " " + u.Host}
	if cluster {
		o, err := redis.ParseClusterURL(to.String())
		if err != nil {
			return nil, unreadable(err)
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialMax, redisIO, redisIO
		o.MaxRedirects, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = 2, 1, true, true
		p.client = redis.NewClusterClient(o)
		return p, nil
	}
	o, err := redis.ParseURL(to.String())
	if err != nil {
		return nil, unreadable(err)
	}
	if u.Scheme == "unix" {
		p.label = "redis " + u.Path
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialMax, redisIO, redisIO
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, 1, true, true
	p.client = redis.NewClient(o)
	return p, nil
}

// unreadable returns what go-redis says about a URL, unless that has the URL itself in it.
func unreadable(err error) error {
	if strings.Contains(err.Error(), "@") {
		return errors.New("it cannot be read: write redis://user:password@host:6379/0")
	}
	return fmt.Errorf("%w: write redis://user:password@host:6379/0", err)
}

func (p *redisPlace) name() string           { return p.label }
func (p *redisPlace) latency() time.Duration { return redisLatency }
func (p *redisPlace) close() error           { return p.client.Close() }

func (p *redisPlace) read(ctx context.Context, keys []string, into []byte) (n int, err error) {
	size := len(into) / len(keys)
	pipe := p.client.Pipeline()
	got := make([]*redis.ZeroCopyStringCmd, len(keys))
	for i, key := range keys {
		got[i] = pipe.GetToBuffer(ctx, key, into[i*size:(i+1)*size])
	}
	_, failed := pipe.Exec(ctx)
	for n < len(got) {
		bytes, err := got[n].Result()
		switch {
		case errors.Is(err, redis.Nil):
			return n, nil
		case err != nil && strings.Contains(err.Error(), "buffer too small"):
			return n, &fault{errDamaged, err}
		case err != nil:
			return n, redisFault(err)
		case bytes != size:
			return n, &fault{errDamaged, fmt.Errorf("%d bytes, and not %d", bytes, size)}
		}
		n++
	}
	return n, redisFault(failed)
}

func (p *redisPlace) renew(ctx context.Context, keys []string) (there []bool, err error) {
	pipe := p.client.Pipeline()
	set := make([]*redis.BoolCmd, len(keys))
	for i, key := range keys {
		set[i] = pipe.PExpire(ctx, key, p.keep)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, redisFault(err)
	}
	there = make([]bool, len(keys))
	for i := range set {
		there[i] = set[i].Val()
	}
	return there, nil
}

func (p *redisPlace) write(ctx context.Context, key string, value []byte) error {
	return redisFault(p.client.Set(ctx, key, value, p.keep).Err())
}

func (p *redisPlace) remove(ctx context.Context, key string) error {
	return redisFault(p.client.Unlink(ctx, key).Err())
}

// redisFault returns an error of the library with its kind.
func redisFault(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, row := range []struct {
		begins string
		kind   error
	}{
		{"OOM", errFull}, {"NOAUTH", errRefused}, {"WRONGPASS", errRefused}, {"NOPERM", errRefused},
		{"LOADING", errBusy}, {"BUSY", errBusy}, {"TRYAGAIN", errBusy}, {"READONLY", errFailing},
		{"CLUSTERDOWN", errFailing}, {"MISCONF", errFailing}, {"MASTERDOWN", errFailing}, {"ERR", errFailing},
		{"WRONGTYPE", errDamaged}, {"MOVED", errFailing}, {"ASK", errFailing},
	} {
		if strings.HasPrefix(text, row.begins) {
			return &fault{row.kind, err}
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &fault{errCutOff, err}
	}
	return err
}

// A quietRedis takes what the Redis library would print on its own: it is in the errors that are
// logged or counted here.
type quietRedis struct{}

func (quietRedis) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}
