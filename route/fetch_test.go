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
	can := BlockExchange{Format: "f", BlockBytes: blockBytes, Gives: true, PrefillRate: rate}
	c.holder = join(t, c.Router, member("holder"), Status{Ready: true, Exchange: can})
	c.other = join(t, c.Router, member("other"), Status{Ready: true, Exchange: can})
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
				c.links = []blockLink{{from: c.holder, to: c.other, speed: test.link}}
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
		})
	}
}
