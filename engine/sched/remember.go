package sched

import (
	"encoding/json"
	"errors"
	"math"
)

// memory is a Pace as it is kept from one process to the next: what least has
// seen of each pair of features, and the sums.
type memory struct {
	Known  [3][3]float64 `json:"known"`
	Sums   [3]float64    `json:"sums"`
	Passes int           `json:"passes"`
}

// rememberedWeight is what a remembered measurement counts beside a new one: the
// machine may be busier today, and a few passes must be enough to notice.
const rememberedWeight = 0.05

// MarshalJSON writes what was learned.
func (p Pace) MarshalJSON() ([]byte, error) {
	return json.Marshal(memory{p.fit.Known, p.fit.Sums, p.passes})
}

// UnmarshalJSON reads what an earlier process learned. It predicts the same, and
// gives way to new measurements soon.
func (p *Pace) UnmarshalJSON(text []byte) error {
	var l memory
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	*p = Pace{passes: l.Passes}
	for i := range l.Known {
		for j := range l.Known[i] {
			p.fit.Known[i][j] = l.Known[i][j] * rememberedWeight
		}
		p.fit.Sums[i] = l.Sums[i] * rememberedWeight
	}
	p.weight = p.fit.Solve()
	for i, w := range p.weight {
		if !(w >= 0 && w <= math.MaxFloat32) || !(l.Known[i][i] >= 0) || l.Passes < 0 {
			*p = Pace{}
			return errors.New("sched: the times of passes that were kept make no sense")
		}
	}
	return nil
}

// Pace returns what was learned of how long passes take.
func (s *Scheduler) Pace() Pace { return s.pace }
