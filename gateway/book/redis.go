package book

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"parley"
	"parley/gateway/db"
	"parley/limit"

	"github.com/redis/go-redis/v9"
)

// A RedisConfig says where several gateways keep their accounts together, and
// what happens while they cannot. Redis and Valkey are the same here.
type RedisConfig struct {
	// URL is where it is: redis://user:password@host:6379/0, rediss:// for TLS.
	URL string
	// Prefix begins all names of keys; default "parley".
	Prefix string
	// Gateways is how many share the limits. It matters only while Redis is out of
	// reach: 0 then rejects all requests that have limits; with another
	// number this gateway continues with its part of them.
	Gateways int
	// Lease is how long a reservation lives without renewal, so how long a
	// gateway that crashed keeps what it had reserved; default 60 s.
	Lease time.Duration
	// Timeout bounds one command; default 1 s.
	Timeout time.Duration
	// Spent says what an account has spent in the month of now, for accounts with
	// a budget that Redis does not know; nil is nothing.
	Spent func(ctx context.Context, account string, now time.Time) (limit.Micros, error)
	// Watch is called for budgets that are nearly spent; nil for no alerts. While Redis
	// is unreachable it is not called, and afterwards for what was missed.
	Watch *Watch
	// Now is the clock; default: that of the Redis server, which all share.
	Now func() time.Time
	// Log hears when Redis is lost and found; default: slog.Default().
	Log *slog.Logger
}

const (
	leaseDefault   = 60 * time.Second
	timeoutDefault = time.Second
	// retryEvery is how often a Redis that is down is tried.
	retryEvery = 250 * time.Millisecond
	// laterMax bounds how many settlements wait for a Redis that is down.
	laterMax = 100_000
	// laterAtOnce is how many of them are sent together.
	laterAtOnce = 256
)

//go:embed book.lua
var bookScript string

// A redisClient is what the book needs of a *redis.Client. That type as a field would have all packages that import
// this one compile its methods again, of which there are more than a thousand.
type redisClient interface {
	redis.Scripter
	Ping(ctx context.Context) *redis.StatusCmd
	Pipeline() redis.Pipeliner
	Close() error
}

// A Redis is a book that several gateways write in. Every reservation is one
// script, which no other can come between, over all limits and accounts.
type Redis struct {
	config  RedisConfig
	client  redisClient
	script  *redis.Script
	metrics *redisMetrics

	mu sync.Mutex
	outage
	// held are the holds in Redis, to be renewed; locally those in local.
	held    map[*limit.Hold]bool
	locally map[*limit.Hold]*Memory
	// spending are accounts of which it is found out what they have spent.
	spending db.Searches[limit.Micros]

	stop context.CancelFunc
	loop sync.WaitGroup
}

// An outage is what is known while Redis cannot be reached.
type outage struct {
	// down is why it cannot, nil while it can. local is the book of this gateway's share
	// meanwhile.
	down  error
	local *Memory
	// later is what Redis is told when it is back.
	later []command
}

// A command is something to tell Redis about a hold.
type command struct {
	verb string
	hold *limit.Hold
	used limit.Use
	// seeds are what the accounts spent before, where that was asked for.
	seeds map[int]limit.Micros
}

// A quietRedis takes what the Redis library would print on its own: it is in the
// errors that the book logs itself.
type quietRedis struct{}

func (quietRedis) Printf(ctx context.Context, format string, args ...any) {
	slog.DebugContext(ctx, "redis: "+fmt.Sprintf(format, args...))
}

// OpenRedis connects to Redis, which must be there at the start.
func OpenRedis(ctx context.Context, config RedisConfig) (*Redis, error) {
	options, err := redis.ParseURL(config.URL)
	if err != nil {
		return nil, fmt.Errorf("the address of Redis cannot be read: %w; write redis://user:password@host:6379/0", err)
	}
	config = config.withDefaults()
	redis.SetLogger(quietRedis{})
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = config.Timeout, config.Timeout, config.Timeout
	options.MaxRetries = -1 // a script that may have run is not sent again
	options.ContextTimeoutEnabled = true
	options.DisableIdentity = true
	r := &Redis{
		config:  config,
		client:  redis.NewClient(options),
		script:  redis.NewScript(bookScript),
		metrics: newRedisMetrics(),
		held:    map[*limit.Hold]bool{},
		locally: map[*limit.Hold]*Memory{},
	}
	if err := r.client.Ping(ctx).Err(); err != nil {
		return nil,
			errors.Join(
				fmt.Errorf(
					"the Redis that keeps the limits at %s does not answer: %w; check that it runs there, or leave "+
						"it out to keep limits in this gateway alone", options.Addr, err), r.client.Close())
	}
	background, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.loop.Go(func() { r.keep(background) })
	return r, nil
}

func (c RedisConfig) withDefaults() RedisConfig {
	if c.Prefix == "" {
		c.Prefix = "parley"
	}
	if c.Lease == 0 {
		c.Lease = leaseDefault
	}
	if c.Timeout == 0 {
		c.Timeout = timeoutDefault
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Reserve implements [Book].
func (r *Redis) Reserve(ctx context.Context, h *limit.Hold) (limit.Verdict, error) {
	if m, down := r.share(); down {
		return r.without(ctx, m, h)
	}
	v, err := r.reserve(ctx, h)
	switch {
	case err == nil && v.Refused == "" && h.Use.Lasts():
		r.mu.Lock()
		r.held[h] = true
		r.mu.Unlock()
		return v, nil
	case err == nil || errors.Is(err, errSpent):
		return v, err
	}
	if h.Use.Lasts() { // it may have been made all the same, and then nothing else would end it
		r.tellLater(command{verb: "settle", hold: h})
	}
	if ctx.Err() != nil {
		return v, err
	}
	r.lost(err)
	m, _ := r.share()
	return r.without(ctx, m, h)
}

// errSpent wraps the failure to find out what was spent, which says nothing of
// Redis.
var errSpent = errors.New("the spending of this month is unknown")

// reserve runs the script, again if it asks what an account has spent.
func (r *Redis) reserve(ctx context.Context, h *limit.Hold) (limit.Verdict, error) {
	c := command{verb: "reserve", hold: h}
	for {
		told, err := r.run(ctx, r.client, &c).Int64Slice()
		if err != nil {
			return limit.Verdict{}, err
		}
		if told[0] >= 0 {
			r.look(h, told)
			return verdictOf(h, told), nil
		}
		account := int(-told[0]) - 1
		spent, err := r.spent(ctx, h.Accounts[account].Name)
		if err != nil {
			return limit.Verdict{}, fmt.Errorf("%w: %w", errSpent, err)
		}
		if c.seeds == nil {
			c.seeds = map[int]limit.Micros{}
		}
		c.seeds[account] = spent
	}
}

func (r *Redis) spent(ctx context.Context, account string) (limit.Micros, error) {
	return r.spending.Find(ctx, account, func(ctx context.Context) (limit.Micros, error) {
		return askSpent(ctx, r.config.Spent, account, r.now())
	})
}

func (r *Redis) now() time.Time {
	if r.config.Now != nil {
		return r.config.Now()
	}
	return time.Now()
}

// run sends a command's script.
func (r *Redis) run(ctx context.Context, to redis.Scripter, c *command) *redis.Cmd {
	return r.script.Run(ctx, to, r.keys(c.hold), r.arguments(c)...)
}

// keys names an account's keys. What stands in braces puts all keys of a hold
// into one slot of a cluster.
func (r *Redis) keys(h *limit.Hold) []string {
	plain := strings.NewReplacer("{", "(", "}", ")")
	keys := make([]string, 0, 4*len(h.Accounts))
	for i := range h.Accounts {
		account := r.config.Prefix + ":limit:{" + plain.Replace(h.Group) + "}:" + h.Accounts[i].Name
		keys = append(keys, account, account+":leases", account+":late", account+":running")
	}
	return keys
}

func (r *Redis) arguments(c *command) []any {
	now := any("")
	if r.config.Now != nil {
		now = r.config.Now().UnixMicro()
	}
	h := c.hold
	arguments := []any{c.verb, now, int64(limit.MonthOf(r.now())), r.config.Lease.Microseconds(), h.ID}
	for _, u := range []*limit.Use{&h.Use, &c.used} {
		arguments = append(arguments, u.Requests, u.Input, u.Output, u.Light, u.Concurrent, int64(u.Cost))
	}
	for i := range h.Accounts {
		l := &h.Accounts[i].Limits
		seed := any("")
		if spent, told := c.seeds[i]; told {
			seed = int64(spent)
		}
		arguments = append(arguments, l.RequestsPerSecond, l.RequestsPerMinute, l.InputTokensPerMinute,
			l.OutputTokensPerMinute,
			l.LightRequestsPerMinute, l.ConcurrentRequests, int64(l.MonthlyBudget), seed)
	}
	return arguments
}

// statesTold is how many numbers the script returns for an account.
const statesTold = limit.Buckets + 4

// stateOf is what the script told of a hold's account.
func stateOf(told []int64, account int) limit.State {
	n := told[1+account*statesTold:][:statesTold]
	return limit.State{
		Debt:    [limit.Buckets]int64(n[:limit.Buckets]),
		Month:   n[limit.Buckets],
		Spent:   limit.Micros(n[limit.Buckets+1]),
		Held:    limit.Micros(n[limit.Buckets+2]),
		Running: n[limit.Buckets+3],
	}
}

// look has the budgets watched that the script told of.
func (r *Redis) look(h *limit.Hold, told []int64) {
	for i := range h.Accounts {
		s := stateOf(told, i)
		r.config.Watch.look(&h.Accounts[i], &s)
	}
}

// verdictOf makes a verdict of what the script told.
func verdictOf(h *limit.Hold, told []int64) (v limit.Verdict) {
	for i := range h.Accounts {
		s := stateOf(told, i)
		limits := &h.Accounts[i].Limits
		if told[0] == 0 {
			v.Refuse(i, s.Refuses(limits, &h.Use))
		}
		s.Show(limits, &h.Use, &v)
	}
	return v
}

// Settle implements [Book].
func (r *Redis) Settle(h *limit.Hold, used limit.Use) {
	if !h.Use.Lasts() {
		return
	}
	r.mu.Lock()
	local := r.locally[h]
	delete(r.held, h)
	delete(r.locally, h)
	down := r.down != nil
	r.mu.Unlock()
	c := command{verb: "settle", hold: h, used: used}
	if local != nil {
		local.Settle(shareOf(h, r.config.Gateways), timesCost(used, r.config.Gateways))
		c.verb = "charge"
	}
	if !down && local == nil {
		ctx, cancel := context.WithTimeout(context.Background(), r.config.Timeout)
		defer cancel()
		told, err := r.run(ctx, r.client, &c).Int64Slice()
		if err == nil {
			r.look(h, told)
			return
		}
		r.lost(err)
	}
	r.tellLater(c)
}

// without answers a reservation while Redis is out of reach.
func (r *Redis) without(ctx context.Context, local *Memory, h *limit.Hold) (limit.Verdict, error) {
	if h.Use == (limit.Use{Light: h.Use.Light}) { // reading what is stored costs too little to stop for this
		return limit.Verdict{}, nil
	}
	if local == nil {
		r.metrics.without.WithLabelValues("refused").Inc()
		return limit.Verdict{}, &parley.Error{Code: parley.Unavailable, Wait: time.Second,
			Message: "Your limits cannot be checked at the moment, so your request was not begun. Try again in " +
				"a while."}
	}
	r.metrics.without.WithLabelValues("share").Inc()
	v, err := local.Reserve(ctx, shareOf(h, r.config.Gateways))
	v.Budget = limit.Standing{} // costs count more than once here
	if err == nil && v.Refused == "" && h.Use.Lasts() {
		r.mu.Lock()
		r.locally[h] = local
		r.mu.Unlock()
	}
	return v, err
}

// shareOf is a hold as one of several gateways sees it on its own: a part of the
// rates; and costs that count as often as there are gateways, so that all of
// them together stay within what is left of the budget.
func shareOf(h *limit.Hold, gateways int) *limit.Hold {
	part := *h
	part.Use = timesCost(h.Use, gateways)
	part.Accounts = append([]limit.Account(nil), h.Accounts...)
	for i := range part.Accounts {
		l := &part.Accounts[i].Limits
		for _, n := range []*int64{&l.RequestsPerSecond, &l.RequestsPerMinute, &l.InputTokensPerMinute,
			&l.OutputTokensPerMinute,
			&l.LightRequestsPerMinute, &l.ConcurrentRequests} {
			if *n > 0 {
				*n = max(*n/int64(gateways), 1)
			}
		}
	}
	return &part
}

func timesCost(u limit.Use, n int) limit.Use {
	u.Cost *= limit.Micros(n)
	return u
}

// Close implements [Book]: it reports what was not reported yet, if it can.
func (r *Redis) Close() error {
	r.stop()
	r.loop.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return errors.Join(r.tell(ctx), r.client.Close())
}
