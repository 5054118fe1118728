package admin

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// A RequestRecord is the record of one request, with its timeline.
type RequestRecord struct {
	ID       string    `json:"id"`
	ClientID string    `json:"client_id,omitempty"`
	TraceID  string    `json:"trace_id,omitempty"`
	Tenant   string    `json:"tenant"`
	Key      string    `json:"key,omitempty"`
	Tier     string    `json:"tier,omitempty"`
	Route    string    `json:"route"`
	Model    string    `json:"model,omitempty"`
	Started  time.Time `json:"started"`
	Status   int       `json:"status"`
	Outcome  string    `json:"outcome"`
	Error    string    `json:"error,omitempty"`
	// Limit is the limit of the caller that refused it.
	Limit  string `json:"limit,omitempty"`
	Finish string `json:"finish,omitempty"`
	Stream bool   `json:"stream"`
	// Worker answered it; Reason is why it was chosen.
	Worker       string `json:"worker,omitempty"`
	WorkerReason string `json:"worker_reason,omitempty"`
	// Fallbacks are the models that did not answer, in order; Model is the one that did.
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
	// Miss is the reason for the cache miss, in one word.
	Miss         string  `json:"cache_miss,omitempty"`
	Shared       bool    `json:"shared,omitempty"`
	PromptTokens int     `json:"prompt_tokens"`
	CachedTokens int     `json:"cached_tokens"`
	OutputTokens int     `json:"output_tokens"`
	TTFTms       float64 `json:"ttft_ms"`
	TotalMs      float64 `json:"total_ms"`
	// Stages are where the time went, in order. For stored requests they are derived
	// from Timeline on demand, because most are never looked at.
	Stages   []Stage   `json:"stages"`
	Timeline *Timeline `json:"-"`
}

// A Fallback is a model that did not answer, and the one that was asked instead.
type Fallback struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Cause is error, overload or context.
	Cause string `json:"cause"`
	Error string `json:"error"`
	// AtMs is counted from the request's arrival.
	AtMs float64 `json:"at_ms"`
}

// Tell derives the stages if they were not yet. It is not safe for concurrent use.
func (l *RequestRecord) Tell() *RequestRecord {
	if l != nil && l.Timeline != nil {
		l.Stages, l.Timeline = l.Timeline.Stages(), nil
	}
	return l
}

// RecentMax is how many requests are kept.
const RecentMax = 2000

// A Recent keeps the latest requests, in a ring, and finds them by their ids.
type Recent struct {
	ring []*RequestRecord
	next int
	byID map[string]*RequestRecord
}

// NewRecent returns an empty Recent.
func NewRecent() *Recent { return &Recent{byID: map[string]*RequestRecord{}} }

// Add stores a request, in place of the oldest if the ring is full. A request that is
// computed detached from its client ends twice under one id: of the two, the one that
// was computed is kept.
func (r *Recent) Add(l *RequestRecord) {
	if twin := r.byID[l.ID]; twin != nil && twin.ID == l.ID {
		r.replace(twin, l)
		return
	}
	if len(r.ring) < RecentMax {
		r.ring = append(r.ring, l)
	} else {
		r.forget(r.ring[r.next])
		r.ring[r.next] = l
		r.next = (r.next + 1) % RecentMax
	}
	r.byID[l.ID] = l
	if l.ClientID != "" {
		r.byID[l.ClientID] = l
	}
}

// replace puts l in the place of its twin if it has more details. Values that were
// returned before stay unchanged.
func (r *Recent) replace(twin, l *RequestRecord) {
	if i := slices.Index(r.ring, twin); i >= 0 && twin.OutputTokens <= l.OutputTokens {
		r.forget(twin)
		r.ring[i], r.byID[l.ID] = l, l
		if l.ClientID != "" {
			r.byID[l.ClientID] = l
		}
	}
}

func (r *Recent) forget(l *RequestRecord) {
	for _, id := range []string{l.ID, l.ClientID} {
		if r.byID[id] == l {
			delete(r.byID, id)
		}
	}
}

// Find returns the request with that id, the server's or the client's; nil if it is
// not, or no longer, known.
func (r *Recent) Find(id string) *RequestRecord { return r.byID[id].Tell() }

// A LimitedBy says how many requests of an organisation a limit has refused.
type LimitedBy struct {
	Organization, Limit string
	Count               int
}

// LimitedSince counts the requests that limits have refused since a time, the most first.
func (r *Recent) LimitedSince(since time.Time) (found []LimitedBy) {
	for _, l := range r.ring {
		if l.Outcome != Limited || l.Limit == "" || l.Started.Before(since) {
			continue
		}
		i := slices.IndexFunc(found, func(x LimitedBy) bool { return x.Organization == l.Tenant && x.Limit == l.Limit })
		if i < 0 {
			i = len(found)
			found = append(found, LimitedBy{Organization: l.Tenant, Limit: l.Limit})
		}
		found[i].Count++
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := &found[i], &found[j]
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Organization, b.Organization), cmp.Compare(a.Limit, b.Limit)) < 0
	})
	return found
}
