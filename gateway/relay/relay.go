// Package relay lets gateways that share a Redis give one answer to equal requests
// that come to different ones of them while it is computed.
//
// Of equal requests one leads: it has its gateway's worker compute the answer, and
// writes what comes into a stream of Redis. The others follow that stream, from its
// beginning. The leader holds a lease that it renews. Where it ends without the mark
// of a complete answer, because the leader's gateway died, failed or was left by
// all of its own clients, a follower leads in its place.
//
// Redis holds nothing that it could read: names are keyed digests, and what is written
// is sealed. All of it expires by itself.
package relay

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley"

	"github.com/redis/go-redis/v9"
)

// Config says where gateways meet.
type Config struct {
	// URL is where Redis or Valkey is: redis://user:password@host:6379/0.
	URL string
	// Prefix begins all names of keys; default "parley".
	Prefix string
	// Secret keys names and contents. Gateways find each other's answers only if they
	// have the same.
	Secret []byte
	// Lease is how long a leader is believed to live without renewing it; default 3 s.
	Lease time.Duration
	// Timeout bounds one command; default 1 s.
	Timeout time.Duration
	// Follows is how many answers of other gateways are followed at once, each by a
	// connection; default 64. Beyond that requests are computed here.
	Follows int
	// AnswerBytes bounds what is written of one answer; default 1 MiB. A longer one is
	// not shared with other gateways.
	AnswerBytes int
}

const (
	leaseDefault   = 3 * time.Second
	timeoutDefault = time.Second
	followsDefault = 64
	bytesDefault   = 1 << 20
	// keptFor is how long a complete answer can still be followed.
	keptFor = 10 * time.Second
	// writeEvery is how often a leader writes what has come.
	writeEvery = 25 * time.Millisecond
	// readFor is how long a follower waits for more before it looks whether the leader
	// lives.
	readFor = 200 * time.Millisecond
	// joinFor bounds how long a request waits to know whether others compute its answer,
	// restFor is how long Redis is left alone after a failure.
	joinFor = 250 * time.Millisecond
	restFor = 5 * time.Second
	// readMost is how many entries of a stream are read at once.
	readMost = 64
)

//go:embed claim.lua
var claimText string

//go:embed write.lua
var writeText string

var claimScript, writeScript = redis.NewScript(claimText), redis.NewScript(writeText)

// A redisClient is what a Redis needs of a *redis.Client. That type as a field would have all packages that import
// this one compile its methods again, of which there are more than a thousand.
type redisClient interface {
	redis.Scripter
	Ping(ctx context.Context) *redis.StatusCmd
	Get(ctx context.Context, key string) *redis.StringCmd
	XRead(ctx context.Context, a *redis.XReadArgs) *redis.XStreamSliceCmd
	XLen(ctx context.Context, stream string) *redis.IntCmd
	Close() error
}

// A Redis is where gateways meet.
type Redis struct {
	config  Config
	client  redisClient
	seal    cipher.AEAD
	name    []byte
	follows chan struct{}
	leads   sync.WaitGroup
	rests   atomic.Int64 // until then, by time.Time.UnixNano
}

// Open connects to Redis, which must be there at the start.
func Open(ctx context.Context, config Config) (*Redis, error) {
	options, err := redis.ParseURL(config.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of Redis cannot be read: %w; write redis://user:password@host:6379/0", err)
	}
	config = config.withDefaults()
	seal, name, err := keys(config.Secret)
	if err != nil {
		return nil, err
	}
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = config.Timeout, config.Timeout, config.Timeout
	options.MaxRetries, options.ContextTimeoutEnabled, options.DisableIdentity = -1, true, true
	options.PoolSize = config.Follows + 16
	r := &Redis{
		config:  config,
		client:  redis.NewClient(options),
		seal:    seal,
		name:    name,
		follows: make(chan struct{}, config.Follows),
	}
	if err := r.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("the Redis at %s does not answer: %w", options.Addr, err), r.client.Close())
	}
	return r, nil
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "parley"
	}
	setDefault(&c.Lease, leaseDefault)
	setDefault(&c.Timeout, timeoutDefault)
	setDefault(&c.Follows, followsDefault)
	setDefault(&c.AnswerBytes, bytesDefault)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Close waits until what was led is written, which must have ended, and closes the
// connections.
func (r *Redis) Close() error {
	r.leads.Wait()
	return r.client.Close()
}

// A lease is where the answer of one leader is.
type lease struct {
	lead, id string // the key of the lease, and what it holds: the leader
	stream   string
}

// Join fails with one of these where the request is to be computed here.
var (
	ErrBusy = errors.New("relay: as many answers of other gateways are followed as may be")
	ErrDown = errors.New("relay: Redis does not answer")
)

// Join leads the answer of that name if no other gateway does, and else follows it.
// Exactly one of lead and follow is not nil without an error. A request whose class is
// above the leader's follows only an answer that has begun: alone it may have its
// turn earlier. Both are nil if it has not.
func (r *Redis) Join(ctx context.Context, name [sha256.Size]byte,
	class parley.Class) (lead *Lead, follow *Follow, err error) {
	if time.Now().UnixNano() < r.rests.Load() {
		return nil, nil, ErrDown
	}
	ctx, cancel := context.WithTimeout(ctx, min(joinFor, r.config.Timeout))
	defer cancel()
	p := r.place(name)
	p.setID(rand.Text() + " " + strconv.Itoa(int(class)))
	leader, err := claimScript.Run(ctx, r.client, []string{p.lead}, p.id, r.config.Lease.Milliseconds()).Text()
	switch {
	case errors.Is(err, redis.Nil):
		return r.newLead(p), nil, nil
	case err != nil:
		r.rests.Store(time.Now().Add(restFor).UnixNano())
		return nil, nil, errors.Join(ErrDown, err)
	}
	p.setID(leader)
	_, rank, _ := strings.Cut(leader, " ")
	if theirs, err := strconv.Atoi(rank); err != nil || int(class) > theirs {
		if n, err := r.client.XLen(ctx, p.stream).Result(); err != nil || n == 0 {
			return nil, nil, err
		}
	}
	select {
	case r.follows <- struct{}{}:
		return nil, &Follow{relay: r, place: p, last: "0"}, nil
	default:
		return nil, nil, ErrBusy
	}
}

func (r *Redis) place(name [sha256.Size]byte) lease {
	return lease{lead: r.config.Prefix + ":answer:{" + hex.EncodeToString(r.digest(name[:])) + "}"}
}

func (p *lease) setID(id string) {
	who, _, _ := strings.Cut(id, " ")
	p.id, p.stream = id, p.lead+":"+who
}
