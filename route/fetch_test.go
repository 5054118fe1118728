package route

import (
	"strings"
	"testing"
	"time"

	"parley"
	"parley/route/kvindex"
)

// A crossroads is two workers that can exchange blocks, and a prompt that the first holds.
type crossroads struct {
	*Router
	holder, other ID
	now           time.Time
	query         Request
}

func newCrossroads(t *testing.T, blockBytes int, rate float64) *crossroads {
	t.Helper()
	c := &crossroads{Router: newRouter(t, Config{}), now: time.Unix(0, 0)}
	member := func(name string) Member {
		return Member{
			Name:        name,
			Model:       "m",
			BlockTokens: 16,
			Source:      kvindex.Source{Events: true, Replay: true, CapacityBlocks: 1 << 16},
		}
	}
	can := BlockExchange{Format: "f", BlockBytes: blockBytes, Gives: true}
	c.holder = join(t, c.Router, member("holder"), Status{Ready: true, Exchange: can})
	c.other = join(t, c.Router, member("other"), Status{Ready: true, Exchange: can})
	if rate > 0 {
		took := time.Duration(4096 / rate * float64(time.Second))
		c.Prefilled(c.holder, 0, 4096, took)
		c.Prefilled(c.other, 0, 4096, took)
	}
	tokens := make([]parley.Token, 4096)
	for i := range tokens {
		tokens[i] = parley.Token(i % 1000)
	}
	keys := parley.AppendBlockKeys(nil, 0, parley.Salt{}, tokens, 16)
	c.query = Request{Model: "m", PromptTokens: len(tokens), OutputTokens: 16, Prompts: []Prompt{{16, keys}}}
	index, number := c.Index(c.holder)
	index.Apply(number, kvindex.Batch{Events: []kvindex.Event{{Kind: kvindex.Stored, Keys: keys[:200]}}})
	return c
}

// decide picks the other worker, because the holder is to be avoided.
func (c *crossroads) decide(t *testing.T) Decision {
	t.Helper()
	c.query.Avoid = []ID{c.holder}
	d, err := c.Pick(&c.query, c.now)
	if err != nil || d.Worker != c.other {
		t.Fatal(d, err)
	}
	c.Fetch(&c.query, &d, c.now)
	return d
}

func TestBlocksAreFetchedWhereThatIsFaster(t *testing.T) {
	for name, test := range map[string]struct {
		blockBytes int
		rate       float64 // tokens in a second
		link       float64 // bytes in a second that were measured; 0 for none
		change     func(*crossroads)
		fetches    bool
	}{
		"a slow processor": {blockBytes: 1 << 20, rate: 500, fetches: true},
		"a fast processor": {blockBytes: 1 << 20, rate: 50_000},
		"a slow link":      {blockBytes: 1 << 20, rate: 2000, link: 50e6},
		"a fast link":      {blockBytes: 1 << 20, rate: 50_000, link: 20e9, fetches: true},
		"unknown speeds":   {blockBytes: 1 << 16, fetches: true},
		"another format": {blockBytes: 1 << 16, rate: 500, change: func(c *crossroads) {
			c.workers[c.other].status.Exchange.Format = "g"
		}},
		"no format": {blockBytes: 1 << 16, rate: 500, change: func(c *crossroads) {
			c.workers[c.other].status.Exchange.Format, c.workers[c.holder].status.Exchange.Format = "", ""
		}},
		"a holder that is gone": {blockBytes: 1 << 16, rate: 500, change: func(c *crossroads) {
			c.workers[c.holder].status.Exchange.Gives = false
		}},
		"a holder that drains": {blockBytes: 1 << 16, rate: 500, fetches: true, change: func(c *crossroads) {
			c.workers[c.holder].status.Ready = false
		}},
		"a busy link": {blockBytes: 1 << 20, rate: 10_000, link: 1e9, change: func(c *crossroads) {
			c.workers[c.holder].moving = 4
		}},
		"the same link, and much to compute": {blockBytes: 1 << 20, rate: 10_000, link: 1e9, fetches: true,
			change: func(c *crossroads) { c.workers[c.holder].moving, c.workers[c.other].waiting = 4, 10_000 }},
		"the same link, idle": {blockBytes: 1 << 20, rate: 10_000, link: 1e9, fetches: true},
		"little that is missing": {blockBytes: 1 << 16, rate: 500, change: func(c *crossroads) {
			index, number := c.Index(c.other)
			keys := c.query.Prompts[0].Keys
			index.Apply(number, kvindex.Batch{Events: []kvindex.Event{{Kind: kvindex.Stored, Keys: keys[:198]}}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrossroads(t, test.blockBytes, test.rate)
			if test.link > 0 {
				l := c.link(c.holder, c.other)
				l.learn(200<<20, latencyGuess+time.Duration((200<<20)/test.link*float64(time.Second)), c.now)
			}
			if test.change != nil {
				test.change(c)
			}
			d := c.decide(t)
			if (d.Fetch != nil) != test.fetches {
				t.Fatalf("%v", d)
			}
			if !test.fetches {
				return
			}
			f := d.Fetch
			if f.From != c.holder || f.Tokens != 3200 || f.More != 3200 || d.Uncached != 896 || f.Move >= f.Compute ||
				f.Within < f.Move || !strings.Contains(d.String(), "0 of 4096 tokens cached") ||
				!strings.Contains(d.String(), "fetch 3200 tokens from holder") {
				t.Errorf("%+v: %v", f, d)
			}
		})
	}
}

// TestAWorkerThatWroteTheLastTokenHoldsAll has a worker report less than it must hold.
func TestAWorkerThatWroteTheLastTokenHoldsAll(t *testing.T) {
	c := newCrossroads(t, 1<<16, 500)
	c.query.HeldBy = []ID{c.holder}
	if d := c.decide(t); d.Fetch == nil || d.Fetch.From != c.holder || d.Fetch.Tokens != 4080 {
		t.Errorf("%v", d)
	}
}

// TestLinksAreLearned has fetches come slowly, and fail: others are not made then.
func TestLinksAreLearned(t *testing.T) {
	c := newCrossroads(t, 1<<20, 2000)
	d := c.decide(t)
	c.Fetching(&d)
	if c.workers[c.holder].moving != 1 || c.workers[c.other].moving != 1 {
		t.Error("a fetch is not counted")
	}
	c.Fetched(&d, 200<<20, 10*time.Second, false, c.now) // 20 MB/s
	if c.workers[c.holder].moving != 0 || c.workers[c.other].moving != 0 {
		t.Error("a fetch is counted after its end")
	}
	if d := c.decide(t); d.Fetch != nil {
		t.Errorf("a slow link is used: %v", d)
	}
	c = newCrossroads(t, 1<<16, 500)
	d = c.decide(t)
	c.Fetching(&d)
	c.Fetched(&d, 0, time.Second, true, c.now)
	if d := c.decide(t); d.Fetch != nil {
		t.Errorf("a broken link is used: %v", d)
	}
	c.now = c.now.Add(linkRest)
	if d := c.decide(t); d.Fetch == nil {
		t.Errorf("a broken link is never tried again: %v", d)
	}
	c.Leave(c.holder)
	if len(c.links) != 0 {
		t.Errorf("%v is left of a worker that left", c.links)
	}
	c.Fetched(&d, 1, time.Second, false, c.now) // of a worker that has left
}

// TestPromptsGoToTheirRole has a worker that only decodes get a prompt that no worker holds.
func TestPromptsGoToTheirRole(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*crossroads)
		rate   float64
		apart  bool
	}{
		"apart":          {rate: 500, apart: true},
		"unknown speeds": {apart: true},
		"a fast decoder": {rate: 1e6},
		"no prefill worker": {rate: 500, change: func(c *crossroads) {
			c.workers[c.holder].status.Role = parley.RoleDecode
		}},
		"not ready": {rate: 500, change: func(c *crossroads) { c.workers[c.holder].status.Ready = false }},
		"both":      {rate: 500, change: func(c *crossroads) { c.workers[c.other].status.Role = "" }},
		"held":      {rate: 500, change: func(c *crossroads) { c.query.PromptTokens = 3200 }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrossroads(t, 1<<16, test.rate)
			c.workers[c.holder].status.Role, c.workers[c.other].status.Role = parley.RolePrefill, parley.RoleDecode
			if name != "held" { // then nothing of the prompt is known
				c.query.Prompts[0].Keys = c.query.Prompts[0].Keys[1:]
			}
			if test.change != nil {
				test.change(c)
			}
			d, err := c.Pick(&c.query, c.now)
			if err != nil {
				t.Fatal(err)
			}
			c.Fetch(&c.query, &d, c.now)
			first, ok := c.Prefill(&c.query, &d, c.now)
			if ok != test.apart {
				t.Fatalf("%t: %v, %v", ok, first, d)
			}
			if ok && (first.Worker != c.holder || d.Worker != c.other || d.Fetch.From != c.holder ||
				d.Fetch.More != 4096 || d.Uncached != 0) {
				t.Errorf("%v, %v", first, d)
			}
			if slow := test.rate == 0; ok && slow != (d.Fetch.Within == time.Minute) {
				t.Errorf("it gets %v", d.Fetch.Within)
			}
		})
	}
}

// TestLinksHaveLatencyAndSpeed has fetches of two sizes tell both apart, and both follow a
// link that changes.
func TestLinksHaveLatencyAndSpeed(t *testing.T) {
	l, now := &blockLink{}, time.Unix(0, 0)
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want*0.9 || got > want*1.1 {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	took := func(latency time.Duration, speed, bytes float64) time.Duration { return latency + seconds(bytes/speed) }
	l.learn(1e6, took(20*time.Millisecond, 100e6, 1e6), now)
	if got := l.time(1e6); got < 25*time.Millisecond || got > 31*time.Millisecond {
		t.Errorf("what was measured is expected to take %v, and took 30ms", got)
	}
	for range 20 {
		l.learn(1e6, took(20*time.Millisecond, 100e6, 1e6), now)
		l.learn(50e6, took(20*time.Millisecond, 100e6, 50e6), now)
	}
	near("latency", l.latency, 0.020)
	near("speed", 1/l.byteTime, 100e6)
	for range 20 {
		l.learn(1e6, took(time.Millisecond, 1e9, 1e6), now)
		l.learn(50e6, took(time.Millisecond, 1e9, 50e6), now)
	}
	near("latency", l.latency, 0.001)
	near("speed", 1/l.byteTime, 1e9)
	if s := l.String(); !strings.HasPrefix(s, "1ms and 1000.") || !strings.HasSuffix(s, " MB/s, of 81 measured") {
		t.Error(s)
	}
}

// TestSharedTransfersDoNotSlowALink has two fetches share a link: it is as fast as before.
func TestSharedTransfersDoNotSlowALink(t *testing.T) {
	c := newCrossroads(t, 1<<20, 500)
	first, second := c.decide(t), Decision{}
	c.Fetching(&first)
	second = c.decide(t)
	c.Fetching(&second)
	c.Fetched(&second, 200<<20, latencyGuess+2*seconds(200<<20/1e9), false, c.now)
	if l := c.expected(c.holder, c.other); l.byteTime < 0.95e-9 || l.byteTime > 1.05e-9 {
		t.Errorf("%g s for a byte, want 1e-9: %v", l.byteTime, &l)
	}
	c.Fetched(&first, 0, 0, false, c.now)
}

// TestASlowLinkIsTriedAgain has a link be too slow, and time pass.
func TestASlowLinkIsTriedAgain(t *testing.T) {
	c := newCrossroads(t, 1<<20, 2000)
	c.link(c.holder, c.other).learn(200<<20, 4*time.Second, c.now) // computing takes 1.6 s
	if d := c.decide(t); d.Fetch != nil || d.Declined == nil ||
		!strings.Contains(d.String(), "computes 3200 tokens that holder has: fetched about 4s") {
		t.Errorf("%v", d)
	}
	c.now = c.now.Add(linkDoubt)
	if d := c.decide(t); d.Fetch != nil {
		t.Errorf("what was measured less than %v ago is doubted: %v", linkDoubt, d)
	}
	c.now = c.now.Add(2 * linkDoubt)
	if d := c.decide(t); d.Fetch == nil || d.Declined != nil || d.Fetch.Move < d.Fetch.Compute {
		t.Errorf("%v", d)
	}
}

// TestSharedMemoryIsAssumedToBeFaster has two workers say that they can share memory, where nothing was measured: a
// prompt is fetched that would be computed otherwise. What was measured over a network says nothing of it.
func TestSharedMemoryIsAssumedToBeFaster(t *testing.T) {
	for place, shared := range map[string]bool{"": false, "here": true, "elsewhere": false} {
		c := newCrossroads(t, 1<<20, 2000)
		c.workers[c.other].status.Exchange.Place = "here"
		c.workers[c.holder].status.Exchange.Place = place
		want := 1.0 / linkGuess
		if shared {
			want = 1.0 / sharedGuess
		}
		if l := c.expected(c.holder, c.other); l.byteTime != want {
			t.Errorf("%q: %v", place, &l)
		}
		l := c.link(c.holder, c.other)
		l.learn(200<<20, 40*time.Millisecond, c.now)
		l.learn(100<<20, 20*time.Millisecond, c.now)
		if l := c.expected(c.holder, c.other); l.doubt(c.now) != 1 {
			t.Errorf("%q: %v is doubted, which is faster than was assumed", place, &l)
		}
	}
}

// TestLongPromptsTakeLonger has a worker compute prompts whose time grows with the square.
func TestLongPromptsTakeLonger(t *testing.T) {
	var p promptPace
	took := func(from, to int) time.Duration {
		return 5*time.Millisecond + seconds(float64(to-from)*1e-5+lookback(from, to)*1e-9)
	}
	p.learn(0, 1000, took(0, 1000))
	if got := p.time(0, 32_000); got < 300*time.Millisecond || got > 600*time.Millisecond {
		t.Errorf("32,000 tokens after one prompt of 1,000: %v", got)
	}
	for range 20 {
		for _, n := range []int{200, 1000, 8000, 16_000} {
			p.learn(0, n, took(0, n))
		}
	}
	want := took(16_000, 32_000) - 5*time.Millisecond
	if got := p.time(16_000, 32_000); got < want*95/100 || got > want*105/100 {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPromptsOfOneLengthTakeTime has prompts of about the same length take different times, which nothing explains:
// others are expected to take about as long for each token.
func TestPromptsOfOneLengthTakeTime(t *testing.T) {
	var p promptPace
	for i := range 40 {
		p.learn(16*(i%2), 512, time.Second+time.Duration(i*7%5)*100*time.Millisecond)
		p.learn(16, 512, 1500*time.Millisecond)
		if got := p.time(0, 1024); got < 1800*time.Millisecond || got > 3*time.Second {
			t.Fatalf("a prompt of 1,024 tokens is expected to take %v after %d of 512", got, p.measured)
		}
	}
}

// TestTheBetterSourceIsFetchedFrom has a worker hold a little less, behind a faster link.
func TestTheBetterSourceIsFetchedFrom(t *testing.T) {
	c := newCrossroads(t, 1<<20, 500)
	near := join(t, c.Router, c.workers[c.holder].Member, c.workers[c.holder].status)
	index, number := c.Index(near)
	index.Apply(number, kvindex.Batch{Events: []kvindex.Event{
		{Kind: kvindex.Stored, Keys: c.query.Prompts[0].Keys[:190]}}})
	c.link(c.holder, c.other).learn(200<<20, 5*time.Second, c.now)
	c.link(near, c.other).learn(200<<20, time.Second, c.now)
	c.query.Avoid = []ID{c.holder, near}
	d, err := c.Pick(&c.query, c.now)
	if err != nil {
		t.Fatal(err)
	}
	if x := c.Fetch(&c.query, &d, c.now); x == nil || x.From != near || x.More != 190*16 {
		t.Errorf("%v", d)
	}
}
