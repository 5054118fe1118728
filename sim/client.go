package sim

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"parley"
	"parley/internal/exactmath"
	"parley/queue"
	"parley/sim/traffic"
)

// A crowd is users of one kind, and how many of them there are.
type crowd struct {
	*TrafficSpec
	station *station
	class   parley.Class
	tenants []string
	ends    time.Duration // no user comes from then on
	talks   talks
	rng     *rand.Rand
	tally   tally
	gate    *gate
	// live counts users that have come and not left; more is set while others will come.
	live int
	more bool
	// spare is memory of requests and scripts that have ended.
	spare   []*request
	scripts []*script
	parts   []traffic.Part // of the script that is written
	tokens  []parley.Token // all zero
}

// talks are what users want, one after the other.
type talks struct {
	workload *traffic.Workload
	content  traffic.Content
	rate     traffic.Rate
	gaps     traffic.Gaps
	replay   func() (traffic.Request, bool)
	coming   traffic.Request // the next of a replay
	made     uint64
	fresh    uint64 // content that is used once
}

func newCrowd(t *TrafficSpec, number int, seed uint64, at *station, g *gate,
	ends time.Duration) (*crowd, error) {
	class, err := classOf(t.Class)
	if err != nil {
		return nil, err
	}
	// Users of different kinds have nothing in common.
	seed += uint64(number) << 32
	c := &crowd{
		TrafficSpec: t,
		station:     at,
		class:       class,
		ends:        ends,
		gate:        g,
		rng:         rand.New(rand.NewPCG(seed, 0)),
	}
	c.talks.content = traffic.Content{Seed: seed, First: traffic.DefaultFirst}
	for i := range t.Tenants {
		c.tenants = append(c.tenants, fmt.Sprint(t.Name, "-", i))
	}
	if t.Replay != nil {
		c.talks.replay, _ = iter.Pull(t.Replay.settings().Requests(t.Replay.rows))
		return c, nil
	}
	if t.RateFile != nil && t.RateFile.rates == nil {
		return nil, fmt.Errorf("traffic %s has not been given the rates of %s", t.Name, t.RateFile.File)
	}
	c.talks.workload, err = t.workload(seed)
	c.talks.rate, c.talks.gaps = t.rate(), traffic.Gaps{Mean: time.Second, CV: t.cv()}
	return c, err
}

// next lets the next user come, if there is one.
func (c *crowd) next() {
	now := c.station.clock.now
	at, ok := time.Duration(0), false
	if c.talks.replay != nil {
		c.talks.coming, ok = c.talks.replay()
		at = c.talks.coming.At
	} else {
		at, ok = c.talks.rate.After(now, c.talks.gaps.Next(c.rng).Seconds())
	}
	if c.more = ok && at < c.ends; c.more {
		c.station.clock.after(at-now, c.come)
	}
}

// come is the arrival of a user.
func (c *crowd) come() {
	u := &user{crowd: c, tenant: c.tenants[c.rng.IntN(len(c.tenants))]}
	u.hears = u.hear
	if c.talks.replay != nil {
		u.spec = c.talks.coming
	} else {
		u.talk = c.talks.workload.Talk(c.talks.made)
		u.spec = u.talk.Next()
	}
	c.talks.made++
	c.live++
	c.next()
	u.begin()
}

// stamped reports whether clients put the time of day before their prompts.
func (c *crowd) stamped() bool {
	now := c.station.clock.now
	return c.Stamped > 0 && now >= c.Stamped && (c.StampedUntil == 0 || now < c.StampedUntil)
}

// once returns a part of a prompt that no other has.
func (c *crowd) once(role traffic.Role, tokens int) traffic.Part {
	c.talks.fresh++
	return traffic.Part{Role: role, Key: 3<<62 | c.talks.fresh, Tokens: tokens}
}

// write writes down what a request says, and its answer.
func (c *crowd) write(spec *traffic.Request) *script {
	t := &script{}
	if n := len(c.scripts); n > 0 {
		t, c.scripts = c.scripts[n-1], c.scripts[:n-1]
		*t = script{names: t.names[:0], keys: t.keys[:0]}
	}
	parts := append(c.parts[:0], spec.Prompt...)
	if c.stamped() {
		parts = slices.Insert(parts, 0, c.once(traffic.System, 8))
	}
	for _, p := range parts {
		t.prompt += p.Tokens
	}
	answer := traffic.Part{Role: traffic.Assistant, Key: spec.Answer, Tokens: spec.OutputTokens}
	if answer.Key == 0 {
		answer = c.once(traffic.Assistant, spec.OutputTokens)
	}
	parts = append(parts, answer)
	t.names = c.talks.content.AppendNames(t.names, parts, blockTokens)
	for _, name := range t.names[:t.prompt/blockTokens] {
		t.keys = append(t.keys, name.Key())
	}
	t.tokens = c.blank(t.prompt + answer.Tokens)
	c.parts = parts
	t.most = max(c.MaxOutput, spec.OutputTokens)
	if c.MaxOutput == 0 && c.talks.workload != nil {
		t.most = max(c.talks.workload.Output.Most, spec.OutputTokens)
	}
	return t
}

// blank returns n tokens. Blocks have their names, so it does not matter what tokens are.
func (c *crowd) blank(n int) []parley.Token {
	if n > len(c.tokens) {
		c.tokens = make([]parley.Token, max(n, 2*len(c.tokens)))
	}
	return c.tokens[:n:n]
}

// requestsTogether is for how many attempts memory is taken at a time. It is enough that Go gives whole pages, so that
// what lies together in a request does so in the lines of the processor's cache, too.
const requestsTogether = 64

// request returns a new attempt.
func (c *crowd) request() *request {
	if len(c.spare) == 0 {
		some := make([]request, requestsTogether)
		for i := range some {
			c.spare = append(c.spare, &some[i])
		}
	}
	n := len(c.spare)
	r := c.spare[n-1]
	c.spare = c.spare[:n-1]
	seq := &r.seq
	seq.Reset()
	*r = request{seq: *seq}
	return r
}

// A user wants something, and waits, hangs up, comes again and continues.
type user struct {
	crowd    *crowd
	tenant   string
	talk     *traffic.Talk // nil of a replay
	spec     traffic.Request
	script   *script
	born     time.Duration // of the first attempt
	attempts int
	request  *request // the present attempt, nil if there is none
	hears    func(r *request, what ending, retry time.Duration)
}

// begin is the first attempt at a request.
func (u *user) begin() {
	c := u.crowd
	u.script, u.attempts, u.born = c.write(&u.spec), 0, c.station.clock.now
	c.station.meter.each(&c.tally, func(t *tally) { t.arrived++ })
	u.attempt()
}

// attempt sends the request to the gateway.
func (u *user) attempt() {
	c := u.crowd
	r := c.request()
	u.request = r
	r.script, r.tally, r.told = u.script, &c.tally, u.hears
	r.times = times{born: u.born, came: c.station.clock.now, outside: c.station.cost.Outside()}
	r.entry = queue.Entry{Class: c.class, Tenant: u.tenant}
	if !c.station.fits(r) {
		c.station.meter.each(&c.tally, func(t *tally) { t.failed++ })
		u.leave()
		return
	}
	u.attempts++
	if c.Limits != nil {
		retry := time.Duration(0)
		who := payer{u.tenant, *c.Limits, c.TokenPrice, &c.station.answers}
		if r.payment, retry = c.gate.pay(who, int64(r.prompt), int64(r.most)); r.payment == nil {
			u.request = nil
			c.station.meter.each(&c.tally, func(t *tally) { t.limited++ })
			u.again(retry)
			return
		}
	}
	if c.Patience > 0 {
		c.station.clock.after(c.Patience, func() { u.losePatience(r) })
	}
	c.station.arrive(r)
}

// losePatience hangs up, if no token has come.
func (u *user) losePatience(r *request) {
	if u.request == r && r.times.first == 0 {
		u.request = nil
		c := u.crowd
		c.station.meter.each(&c.tally, func(t *tally) { t.hungUp++ })
		c.station.drop(r)
		r.settle(finished)
		u.again(0)
	}
}

// hear is how an attempt ends.
func (u *user) hear(r *request, what ending, retry time.Duration) {
	u.request = nil
	r.settle(what)
	if what == rejected {
		u.again(retry)
		return
	}
	c := u.crowd
	if u.attempts == 1 && c.Patience == 0 { // else it may still be referred to
		c.spare, c.scripts = append(c.spare, r), append(c.scripts, u.script)
	}
	if u.talk == nil || !u.talk.More() {
		u.leave()
		return
	}
	think := time.Duration(float64(c.Think) * exactmath.Exponential(c.rng))
	c.station.clock.after(think, func() {
		u.spec = u.talk.Next()
		u.begin()
	})
}

// again comes back after a while, or gives up. The server told it to come again after told, never if that is negative.
func (u *user) again(told time.Duration) {
	c := u.crowd
	if u.attempts > c.Retries || c.Obey && told < 0 {
		u.leave()
		return
	}
	wait := c.Backoff << min(u.attempts-1, 20)
	wait = wait/2 + time.Duration(c.rng.Int64N(int64(wait/2)+1))
	if c.Obey {
		wait = max(wait, told)
	}
	c.station.clock.after(wait, func() {
		c.station.meter.each(&c.tally, func(t *tally) { t.retried++ })
		u.attempt()
	})
}

func (u *user) leave() { u.crowd.live-- }
