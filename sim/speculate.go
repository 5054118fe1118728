package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"parley/engine/spec"
)

// A SpeculationSpec says how workers guess tokens ahead. Which are right is drawn from the seed.
type SpeculationSpec struct {
	// Acceptance is how likely each guess of a pass is right if all before it were; the last one is that of all
	// further ones.
	Acceptance []float64 `yaml:"acceptance"`
	// DraftCost is what a pass of the draft network takes, as a share of one of the model; 0 is a lookup in the
	// text so far, which takes no time.
	DraftCost float64 `yaml:"draft_cost"`
	// Depth is how many tokens are guessed; default what the engine decides by its costs and by how often
	// guesses were right.
	Depth int `yaml:"depth"`
}

func (s *SpeculationSpec) validate() error {
	if len(s.Acceptance) == 0 {
		return fmt.Errorf("speculation: acceptance is missing: write the chance of each guess, such as [0.8, 0.7]")
	}
	for _, a := range append(s.Acceptance, s.DraftCost) {
		if !(a >= 0 && a <= 1) {
			return fmt.Errorf("speculation: acceptance is %v and draft_cost %g: want 0 to 1", s.Acceptance, s.DraftCost)
		}
	}
	if s.Depth < 0 || s.Depth > spec.DepthMost {
		return fmt.Errorf("speculation: depth is %d: want 0 to %d", s.Depth, spec.DepthMost)
	}
	return nil
}

// guesses are what a worker speculates with.
type guesses struct {
	rng       *rand.Rand
	writers   []*request
	bets      []spec.Writer
	decisions []spec.Decision
}

// guessStream keeps the random numbers of guesses apart from others of the same seed.
const guessStream = 3 << 32

// guess decides how many tokens are guessed for each sequence, and returns how long the draft network takes.
func (w *worker) guess() time.Duration {
	s, g := w.speculation, &w.pass.guesses
	if s == nil {
		return 0
	}
	outlook, known := w.plans.Outlook()
	by := spec.ByLookup
	if s.DraftCost > 0 {
		by = spec.ByModel
	}
	g.writers, g.bets = g.writers[:0], g.bets[:0]
	for _, r := range w.requests.present {
		q := &r.seq
		q.Draft = 0
		if known && len(q.Table.Blocks) > 0 && len(q.Tokens) == q.Computed+1 && len(q.Tokens) > q.Prompt {
			bet := spec.Writer{Behind: 1, Remaining: q.Most - len(q.Tokens)}
			most := min(spec.DepthMost, q.Most-len(q.Tokens)-1)
			bet.Offers[by] = spec.Offer{Most: most, Chance: r.acceptance.Chance()}
			g.writers, g.bets = append(g.writers, r), append(g.bets, bet)
		}
	}
	draftPass := time.Duration(s.DraftCost * float64(outlook.Pass))
	deepest := s.Depth
	if s.Depth == 0 {
		costs := spec.Costs{Pass: outlook.Pass, Row: outlook.Row, DraftPass: draftPass, Room: outlook.Room}
		g.decisions, _ = spec.Decide(g.decisions, g.bets, costs)
	}
	for i, r := range g.writers {
		if r.seq.Draft = s.Depth; s.Depth == 0 {
			r.seq.Draft = g.decisions[i].Depth
			deepest = max(deepest, r.seq.Draft)
		}
	}
	if len(g.writers) == 0 {
		return 0
	}
	spend := time.Duration(deepest) * draftPass
	w.plans.Spend(spend)
	return spend
}

// deliver hands over the token that a pass computed, and those of its draft that were right.
func (w *worker) deliver(r *request, draft int) {
	q := &r.seq
	q.Computed = len(q.Tokens) // a draft is computed before it is known to be right
	w.wrote(r)
	if draft == 0 {
		return
	}
	q.Draft = 0
	chances, right := w.speculation.Acceptance, 0
	for right < draft && w.pass.guesses.rng.Float64() < chances[min(right, len(chances)-1)] {
		right++
		if r.placement.worker == w {
			q.Computed = len(q.Tokens)
			w.wrote(r)
		}
	}
	r.acceptance.Learn(draft, right)
}
