package fleet

import (
	"cmp"
	"sort"
	"time"

	"parley"
)

// A Standing is what operators are shown of a worker.
type Standing struct {
	Name string `json:"name"`
	Pool string `json:"pool"`
	Kind string `json:"kind,omitempty"`
	// Role is what it does of requests; empty if it does all.
	Role parley.WorkerRole `json:"role,omitempty"`
	// Version is its program's.
	Version string   `json:"version,omitempty"`
	Models  []string `json:"models"`
	State   State    `json:"state"`
	// Trouble is why it is not up, where that is known; Sleeps says that it can be
	// put to sleep and woken.
	Trouble string `json:"trouble,omitempty"`
	Sleeps  bool   `json:"sleeps"`
	// UpSeconds is since when it is up.
	UpSeconds float64 `json:"up_seconds"`
	// Answering counts the answers that it is giving to this gateway, Moving those of them
	// that go to another worker when their client has read what has come; Sent all it
	// was sent; Failed those it answered with an error; Lost those that it was
	// lost with; Moved those that had to go elsewhere, for whatever reason.
	Answering int    `json:"answering"`
	Moving    int    `json:"moving,omitempty"`
	Sent      uint64 `json:"sent"`
	Failed    uint64 `json:"failed"`
	Lost      uint64 `json:"lost"`
	Moved     uint64 `json:"moved"`
	// PromptTokens were in prompts it has answered, CachedTokens of them found.
	PromptTokens uint64 `json:"prompt_tokens"`
	CachedTokens uint64 `json:"cached_tokens"`
	// Running and Waiting count all its requests, from all gateways; BusySeconds is
	// how long it has computed since it began, Preemptions how often a request lost
	// its memory. All are as it says itself.
	Running     int     `json:"running"`
	Waiting     int     `json:"waiting"`
	BusySeconds float64 `json:"busy_seconds"`
	Preemptions uint64  `json:"preemptions"`
	// ReadySeconds is how long its model took to load, at the start or when it was last woken, as it
	// says itself; 0 if it does not.
	ReadySeconds float64 `json:"ready_seconds,omitempty"`
	// Device is its GPU, as it says itself; nil without one, or while it is down.
	Device *parley.DeviceState `json:"device,omitempty"`
	// UsedTokens of CapacityTokens are in use, as it says itself.
	UsedTokens     int `json:"used_tokens"`
	CapacityTokens int `json:"capacity_tokens"`
	// Index says how far its blocks are known, Blocks how many are; Gaps and Losses
	// count what was missing in its events.
	Index  string `json:"index"`
	Blocks int    `json:"blocks"`
	Gaps   uint64 `json:"gaps"`
	Losses uint64 `json:"losses"`
	// Degraded is set if less is known than should be.
	Degraded bool `json:"degraded"`
	// WarmUp is what it fetched before it got requests; nil if it did not.
	WarmUp *WarmUp `json:"warm_up,omitempty"`
}

// Standings lists the workers by pool and name, and those that are known and could not join.
func (f *Fleet) Standings() (out []Standing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	for _, m := range f.members {
		out = append(out, f.standing(m, now))
	}
	for _, a := range f.absent.each("") {
		out = append(out, Standing{
			Name:    a.name,
			Pool:    a.pool,
			Kind:    a.kind,
			Models:  []string{},
			State:   Absent,
			Trouble: a.trouble,
			Index:   "none",
		})
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Pool < out[j].Pool || out[i].Pool == out[j].Pool && out[i].Name < out[j].Name
	})
	return out
}

func (f *Fleet) standing(m *member, now time.Time) Standing {
	s := Standing{
		Name:           m.Name,
		Pool:           m.Pool,
		Kind:           m.Kind,
		Role:           m.health.condition.Role,
		State:          m.present(now),
		Sleeps:         m.Sleep != nil && m.Wake != nil,
		Answering:      len(m.attempts),
		Sent:           m.totals.sent,
		Failed:         m.totals.failed,
		Lost:           m.totals.lost,
		Moved:          m.totals.moved,
		PromptTokens:   m.totals.prompts,
		CachedTokens:   m.totals.cached,
		Version:        m.health.condition.Version,
		Running:        m.health.condition.Running,
		Waiting:        m.health.condition.Waiting,
		BusySeconds:    m.health.condition.BusySeconds,
		Preemptions:    m.health.condition.Preemptions,
		ReadySeconds:   m.health.condition.ReadySeconds,
		Device:         m.health.condition.Device,
		UsedTokens:     m.health.condition.UsedTokens,
		CapacityTokens: cmp.Or(m.health.condition.CapacityTokens, m.CapacityTokens),
		Index:          "none",
	}
	for l := range m.attempts {
		if l.flow.broken {
			s.Moving++
		}
	}
	if m.health.state == Down {
		s.Device = nil // what it said last may no longer be true
	}
	if m.health.state == Up {
		s.UpSeconds = now.Sub(m.health.since).Seconds()
	} else if m.health.trouble != nil {
		s.Trouble = m.health.trouble.Error()
	}
	if m.warmUp != nil {
		s.WarmUp = new(m.warmUp.WarmUp)
	}
	for _, r := range m.replicas {
		s.Models = append(s.Models, r.model)
		if index, number := f.router.Index(r.id); index != nil {
			known := index.Stats(number)
			s.Index, s.Blocks = known.State.String(), s.Blocks+known.Held+known.Expected
			s.Gaps, s.Losses = s.Gaps+known.Gaps, s.Losses+known.Losses
			s.Degraded = s.Degraded || degraded(known.State)
		}
	}
	return s
}

// paced learns how fast the worker of an attempt computes prompts. The lock is held.
func (f *Fleet) paced(l *attempt, u *parley.Usage) {
	if !u.Outside {
		f.router.Prefilled(l.decision.Worker, u.CachedTokens, u.PromptTokens, u.Prefill)
	}
}

// saw takes the usage of a complete answer.
func (f *Fleet) saw(l *attempt, t *dispatch, u *parley.Usage) {
	r := t.r
	f.mu.Lock()
	defer f.mu.Unlock()
	l.member.totals.prompts += uint64(u.PromptTokens)
	l.member.totals.cached += uint64(u.CachedTokens)
	if t.moves == 0 {
		f.paced(l, u)
	}
	if r.Embed {
		return
	}
	f.remember(l, r, t.partial.choices[0].Tokens)
}
