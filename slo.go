package parley

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// An SLO has the latency objectives of a request. A zero field means no objective.
type SLO struct {
	// TTFT is the longest wait for the first token, and CachedTTFT the longest
	// where at least half of the prompt was cached.
	TTFT       time.Duration `json:",omitzero"`
	CachedTTFT time.Duration `json:",omitzero"`
	// TPOT is the longest mean time of the tokens after the first.
	TPOT time.Duration `json:",omitzero"`
}

// DefaultSLO returns the SLO that applies if none is configured.
func DefaultSLO() SLO {
	return SLO{TTFT: time.Second, CachedTTFT: 700 * time.Millisecond, TPOT: 50 * time.Millisecond}
}

// FirstToken returns the longest wait for the first token of a request of which
// cachedTokens of the prompt were cached; 0 if there is no objective.
func (s *SLO) FirstToken(promptTokens, cachedTokens int) time.Duration {
	if s.CachedTTFT > 0 && promptTokens > 0 && 2*cachedTokens >= promptTokens {
		return s.CachedTTFT
	}
	return s.TTFT
}

// Met reports whether a request met the SLO, given the wait for its first token and the mean
// wait for each later one (0 if there were none).
func (s *SLO) Met(ttft, tpot time.Duration, promptTokens, cachedTokens int) bool {
	limit := s.FirstToken(promptTokens, cachedTokens)
	return (limit == 0 || ttft <= limit) && (s.TPOT == 0 || tpot <= s.TPOT)
}

// An Objective is an SLO that a share of the requests of some models, classes and purposes
// must meet.
type Objective struct {
	// Name identifies the objective in metrics, alerts and pages.
	Name string
	// Models, Classes and Purpose select requests; an empty one selects all.
	Models  []string
	Classes []Class
	Purpose Purpose
	SLO
	// TTFTShare and TPOTShare are the shares of first and of later tokens that must
	// come in time, such as 0.99 for a p99; 0 means 0.95 and 0.99.
	TTFTShare, TPOTShare float64
}

// The default shares of an objective.
const (
	TTFTShareDefault = 0.95
	TPOTShareDefault = 0.99
)

// DefaultObjective is the name of the objective of requests that no other selects.
const DefaultObjective = "default"

// Selects reports whether the objective is for such requests.
func (o *Objective) Selects(model string, class Class, purpose Purpose) bool {
	return selects(o.Models, model) && selects(o.Classes, class) &&
		(o.Purpose == "" || o.Purpose == cmp.Or(purpose, ForChat))
}

func selects[T comparable](list []T, x T) bool { return len(list) == 0 || slices.Contains(list, x) }

// Objectives are the objectives of a server. The first that selects a request applies to
// it; the last selects all.
type Objectives []Objective

// NewObjectives returns the objectives of a list, with rest for the requests that
// none of them selects. Fields that an objective leaves out come from rest.
func NewObjectives(list []Objective, rest Objective) Objectives {
	rest.Name, rest.Models, rest.Classes, rest.Purpose = DefaultObjective, nil, nil, ""
	rest.TTFTShare = cmp.Or(rest.TTFTShare, TTFTShareDefault)
	rest.TPOTShare = cmp.Or(rest.TPOTShare, TPOTShareDefault)
	all := make(Objectives, 0, len(list)+1)
	for _, o := range slices.Concat(list, []Objective{rest}) {
		if o.TTFT > 0 && o.CachedTTFT == 0 {
			o.CachedTTFT = min(o.TTFT, rest.CachedTTFT)
		}
		o.TTFT, o.CachedTTFT = cmp.Or(o.TTFT, rest.TTFT), cmp.Or(o.CachedTTFT, rest.CachedTTFT)
		o.TPOT = cmp.Or(o.TPOT, rest.TPOT)
		o.TTFTShare = cmp.Or(o.TTFTShare, rest.TTFTShare)
		o.TPOTShare = cmp.Or(o.TPOTShare, rest.TPOTShare)
		all = append(all, o)
	}
	return all
}

// Of returns the index of the objective that applies to a request.
func (o Objectives) Of(model string, class Class, purpose Purpose) int {
	for i := range o {
		if o[i].Selects(model, class, purpose) {
			return i
		}
	}
	return len(o) - 1
}

// Validate reports everything that is wrong with a list of objectives.
func (o Objectives) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	seen := map[string]bool{}
	for i := range o {
		x := &o[i]
		if x.Name == "" || seen[x.Name] {
			wrong("the name of objective %d is %q: give each one its own name", i+1, x.Name)
		}
		seen[x.Name] = true
		if min(x.TTFT, x.CachedTTFT, x.TPOT) < 0 {
			wrong("objective %s promises a negative time: use 0 for none", x.Name)
		}
		for _, share := range []float64{x.TTFTShare, x.TPOTShare} {
			if !(share >= 0 && share < 1) {
				wrong("objective %s is for the share %g: use 0.5 to 0.9999, such as 0.99 for a p99", x.Name, share)
			}
		}
	}
	return errors.Join(problems...)
}
