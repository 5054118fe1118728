package admin

import (
	"testing"
	"time"
)

// TestLimitsAreNamed has clients run into limits: the headline names the organisation and
// the limit. The third false story blamed a key that had none.
func TestLimitsAreNamed(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	refused := func(organization, limit string, age time.Duration) *RequestRecord {
		return &RequestRecord{ID: organization + limit + age.String(), Tenant: organization, Outcome: Limited,
			Limit: limit, Started: at.Add(-age)}
	}
	const budget, rate = "the monthly budget of the organisation (1.00)", "60 requests per minute of the key"
	for name, c := range map[string]struct {
		records  []*RequestRecord
		sentence string
		do       string
	}{
		"a budget": {
			[]*RequestRecord{refused("acme", budget, time.Second), refused("acme", budget, 6*time.Second)},
			"12 of 12 requests of the last minute exceeded a limit in organisation acme: " + budget + ".",
			"Raise it under Keys, or ask acme to send less.",
		},
		"two limits": {
			[]*RequestRecord{refused("beta", rate, 1), refused("acme", budget, 2), refused("acme", budget, 3)},
			"12 of 12 requests of the last minute exceeded a limit in organisation acme: " + budget +
				" (other limits that were exceeded: 1).",
			"Raise it under Keys, or ask acme to send less.",
		},
		"long ago": {
			[]*RequestRecord{refused("acme", budget, 2*time.Minute)},
			"12 of 12 requests of the last minute exceeded a limit of their key or organisation.",
			"Find them under Requests; limits are changed under Keys.",
		},
	} {
		recent, history := NewRecent(), NewHistory()
		for _, r := range c.records {
			recent.Add(r)
		}
		history.Add(&Reading{At: at.Add(-time.Minute)})
		history.Add(&Reading{At: at, LimitedTotal: 12})
		v := history.Now(nil, recent.LimitedSince(at.Add(-HeadlineWindow))...).Verdict
		if v.Bottleneck != ByClients || v.Sentence != c.sentence || v.Do != c.do {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestBeyondTheLastBucket has times that no bucket holds: they are not told as the last
// bound.
func TestBeyondTheLastBucket(t *testing.T) {
	h := newHistogram()
	before := h
	before.Counts = append([]uint64{}, h.Counts...)
	top := bounds[len(bounds)-1]
	h.observe(top/2, 60)
	h.observe(10*top, 40)
	s := spread(&before, &h)
	if s.Top != round(top) || s.P95 != s.Top || s.P99 != s.Top || s.P50 >= s.Top {
		t.Errorf("%+v, want what is beyond %v as such", s, top)
	}
	if took, text := quantileOf(&before, &h, 0.95); took != top || text != "over 104.9 s" {
		t.Errorf("%v, %q", took, text)
	}
	h.observe(top/2, 100_000)
	if s := spread(&before, &h); s.Top != 0 {
		t.Errorf("%+v, though all percentiles are known", s)
	}
}
