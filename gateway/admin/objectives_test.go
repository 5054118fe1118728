package admin

import (
	"strings"
	"testing"
	"time"

	"parley"
)

func tokens(seconds float64, n uint64) Histogram {
	bounds := []float64{0.1, 0.2, 0.5, 0.7, 1, 2}
	h := Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds)), Count: n, Sum: seconds * float64(n)}
	for i, b := range bounds {
		if seconds <= b {
			h.Counts[i] = n
		}
	}
	return h
}

// TestObjectivesAreJudgedApart has typing at 200 ms, paid chat at 700 ms for 99 of 100,
// and the rest at a second: the same 600 ms break the first, and no other.
func TestObjectivesAreJudgedApart(t *testing.T) {
	const ms = time.Millisecond
	objectives := parley.NewObjectives([]parley.Objective{
		{Name: "typing", Purpose: parley.ForComplete, SLO: parley.SLO{TTFT: 200 * ms}},
		{Name: "paid", Classes: []parley.Class{parley.Pro}, SLO: parley.SLO{TTFT: 700 * ms}, TTFTShare: 0.99},
	}, parley.Objective{SLO: parley.DefaultSLO()})
	h := NewHistory()
	at := time.Unix(1000, 0)
	empty := func() map[string]*Tokens {
		all := map[string]*Tokens{}
		for i := range objectives {
			all[objectives[i].Name] = &Tokens{TTFT: tokens(0.6, 0)}
		}
		return all
	}
	h.Add(&Reading{At: at, Objectives: empty()})
	now := &Reading{At: at.Add(30 * time.Second), OKTotal: 300, Objectives: empty()}
	for _, o := range now.Objectives {
		o.TTFT = tokens(0.6, 100)
	}
	h.Add(now)
	p := h.Now(objectives)
	kept := map[string]float64{}
	for _, x := range p.Promises {
		if x.Name == "ttft" {
			kept[x.Objective] = x.Kept
		}
		if x.Objective == "paid" && x.Name == "ttft" && (x.Goal != 0.99 || x.Limit != 0.7) {
			t.Errorf("the promise to paid chat is %+v", x)
		}
	}
	if kept["typing"] != 0 || kept["paid"] != 1 || kept["default"] != 1 {
		t.Errorf("kept are %v", kept)
	}
	if s := p.Verdict.Sentence; !strings.Contains(s, "the time to first token of typing was") ||
		strings.Contains(s, "paid") || p.Verdict.Happy {
		t.Errorf("the verdict is %+v", p.Verdict)
	}
}

// TestPoolsAreJudgedApart has one pool that fails, one without workers, and one at ease.
func TestPoolsAreJudgedApart(t *testing.T) {
	h := NewHistory()
	h.Add(&Reading{
		At:    time.Unix(1000, 0),
		Fleet: true,
		Queues: []Queue{
			{Model: "m", Pool: "paid", ModelBreaker: "closed", WorkerBreaker: "closed"},
			{Model: "m", Pool: "free", ModelBreaker: "open", WorkerBreaker: "closed"},
			{Model: "m", Pool: "typing", ModelBreaker: "closed", WorkerBreaker: "closed"},
		},
		Workers: []Worker{{Name: "a", Pool: "paid", State: Up}, {Name: "b", Pool: "free", State: Up}},
	})
	p := h.Now(nil)
	if s := p.Verdict.Sentence; !strings.Contains(s, "m in pool free") || strings.Contains(s, "paid") {
		t.Errorf("the verdict on all is %q", s)
	}
	binds := map[string]string{}
	for _, pool := range p.Pools {
		binds[pool.Pool] = pool.Verdict.Bottleneck
	}
	if len(binds) != 3 || binds["paid"] != NoBottleneck || binds["free"] != ByFailures ||
		binds["typing"] != ByFailures {
		t.Errorf("the pools are %+v", p.Pools)
	}
}
