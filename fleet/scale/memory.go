package scale

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// A Memory is what a scaler has learned that its successor would take days to learn anew: the load by the time
// of day and week, and what a worker serves.
type Memory struct {
	Version int           `json:"version"`
	Day     time.Duration `json:"day"`
	// Daily and Weekly are the mean rates of the parts of a day and a week, negative where nothing is known. Missed
	// are by how much both were off, over Judged parts.
	Daily  []float64  `json:"daily"`
	Weekly []float64  `json:"weekly"`
	Missed [2]float64 `json:"missed"`
	Judged float64    `json:"judged"`
	// Serve is how many requests a worker serves in a second, Limit what it served when requests last waited. Seen
	// says that requests did.
	Serve float64 `json:"serve"`
	Limit float64 `json:"limit"`
	Seen  bool    `json:"seen"`
}

const memoryVersion = 1

// Memory returns what the scaler has learned.
func (s *Scaler) Memory() Memory {
	return Memory{
		Version: memoryVersion,
		Day:     s.cfg.Day,
		Daily:   s.days.daily.means(),
		Weekly:  s.days.weekly.means(),
		Missed:  [2]float64{s.days.daily.missed, s.days.weekly.missed},
		Judged:  s.days.judged,
		Serve:   s.serve.each,
		Limit:   s.serve.limit,
		Seen:    !s.serve.unknown,
	}
}

// Recall gives a new scaler what an earlier one has learned, or says why it cannot be used.
func (s *Scaler) Recall(m Memory) error {
	if m.Version != memoryVersion || m.Day != s.cfg.Day {
		return fmt.Errorf("it is of version %d and of days of %v: want %d and %v", m.Version, m.Day, memoryVersion,
			s.cfg.Day)
	}
	days := newForecast(s.cfg.Day)
	if len(m.Daily) != len(days.daily.parts) || len(m.Weekly) != len(days.weekly.parts) {
		return fmt.Errorf("a day has %d parts and a week %d: want %d and %d", len(m.Daily), len(m.Weekly),
			len(days.daily.parts), len(days.weekly.parts))
	}
	numbers := []float64{m.Missed[0], m.Missed[1], m.Judged, m.Serve, m.Limit}
	for _, x := range slices.Concat(numbers, m.Daily, m.Weekly) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return errors.New("a number in it is not finite")
		}
	}
	if !(m.Serve > 0) || min(m.Limit, m.Judged, m.Missed[0], m.Missed[1]) < 0 {
		return fmt.Errorf("a worker serves %g, with a limit of %g: want more than 0, and nothing negative", m.Serve,
			m.Limit)
	}
	days.daily.recall(m.Daily)
	days.weekly.recall(m.Weekly)
	days.daily.missed, days.weekly.missed, days.judged = m.Missed[0], m.Missed[1], m.Judged
	s.days = days
	s.serve.each, s.serve.limit, s.serve.unknown = m.Serve, m.Limit, !m.Seen
	return nil
}

// means returns the mean rate of each part, negative if it is not known.
func (p *profile) means() []float64 {
	means := make([]float64, len(p.parts))
	for i, x := range p.parts {
		if means[i] = -1; x.known {
			means[i] = x.mean
		}
	}
	return means
}

// recall fills the parts of a new profile.
func (p *profile) recall(means []float64) {
	for i, mean := range means {
		if mean >= 0 {
			p.fill(i, mean)
		}
	}
}
