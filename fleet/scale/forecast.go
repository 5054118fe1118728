package scale

import (
	"math"
	"time"
)

// A forecast expects of each part of a day what earlier days had, scaled by how today
// compares with them so far. Where few requests come, neighbouring parts are averaged, so
// that what is expected is not their noise.
type forecast struct {
	day     time.Duration
	parts   [dayParts]dayPart
	present int               // the part that is being filled
	curve   [dayParts]float64 // what the parts have, averaged; negative if that is not known
	// today and usual are the rates of today and of earlier days at the same times, lately.
	today, usual float64
}

// A dayPart is the mean rate in a part of the day.
type dayPart struct {
	mean  float64
	known bool // it was filled on an earlier day
	sum   float64
	n     int
}

const (
	dayParts = 144 // of ten minutes, in a day of 24 hours
	// yesterday is what the latest day counts in the mean of a part.
	yesterday = 0.5
	// scaleMost bounds how far a day may be from earlier ones, and scaleParts is over how
	// many parts of it that is averaged.
	scaleMost  = 3.0
	scaleParts = 6
	// enough is how many requests tell a rate, and reachMost how far to both sides parts are
	// averaged to have that many.
	enough    = 1000
	reachMost = 6
)

func newForecast(day time.Duration) forecast {
	f := forecast{day: day, present: -1}
	for i := range f.curve {
		f.curve[i] = -1
	}
	return f
}

// at returns which part of the day a time is in.
func (f *forecast) at(t time.Time) int {
	return int(time.Duration(t.UnixNano()) % f.day * dayParts / f.day)
}

// learn takes in the rate since the last call.
func (f *forecast) learn(rate float64, now time.Time) {
	i := f.at(now)
	if i != f.present {
		f.close()
		f.present = i
	}
	p := &f.parts[i]
	p.sum += rate
	p.n++
}

// close ends a part of the day.
func (f *forecast) close() {
	if f.present < 0 {
		return
	}
	p := &f.parts[f.present]
	mean := p.sum / float64(max(1, p.n))
	if p.known {
		f.today += (mean - f.today) / scaleParts
		f.usual += (max(0, f.curve[f.present]) - f.usual) / scaleParts
		mean = p.mean + yesterday*(mean-p.mean)
	}
	*p = dayPart{mean: mean, known: true}
	f.draw()
}

// draw averages parts.
func (f *forecast) draw() {
	sum, known := 0.0, 0
	for i := range f.parts {
		if p := &f.parts[i]; p.known {
			sum, known = sum+p.mean, known+1
		}
	}
	each := sum / float64(max(1, known)) * (f.day / dayParts).Seconds() // requests in a part
	reach := min(int(enough/max(1, each)/2), reachMost)
	for i := range f.curve {
		sum, known = 0, 0
		for j := i - reach; j <= i+reach; j++ {
			if p := &f.parts[(j+dayParts)%dayParts]; p.known {
				sum, known = sum+p.mean, known+1
			}
		}
		f.curve[i] = -1
		if known > 0 && f.parts[i].known {
			f.curve[i] = sum / float64(known)
		}
	}
}

// most returns the highest rate that is expected from now until within, and whether
// earlier days say anything of that time.
func (f *forecast) most(now time.Time, within time.Duration) (most float64, known bool) {
	scale := 1.0
	if f.usual > 0 {
		scale = min(max(f.today/f.usual, 1/scaleMost), scaleMost)
	}
	step := f.day / dayParts
	for ahead := time.Duration(0); ; ahead += step {
		ahead = min(ahead, within)
		if rate := f.expect(now.Add(ahead)); rate >= 0 {
			most, known = max(most, rate*scale), true
		}
		if ahead == within || ahead >= f.day {
			return most, known
		}
	}
}

// expect returns what earlier days had at a time of day: a line from the middle of one
// part to that of the next. It is negative if that is not known.
func (f *forecast) expect(t time.Time) float64 {
	place := float64(time.Duration(t.UnixNano())%f.day)/float64(f.day)*dayParts - 0.5
	first := int(math.Floor(place))
	a, b := f.curve[(first+dayParts)%dayParts], f.curve[(first+1)%dayParts]
	if a < 0 || b < 0 { // of which one may be of today
		return -1
	}
	return a + float64((place-float64(first))*(b-a))
}

// A shortfall is by how much more requests came than had been expected a while before.
type shortfall struct {
	worst   float64 // lately
	at      time.Time
	guesses [guessesMost]guess // the oldest first
	n       int
}

// A guess is the rate that is expected until a time.
type guess struct {
	until time.Time
	rate  float64
}

// guessesMost is how many guesses are open at a time.
const guessesMost = 16

// expect remembers what is expected until within from now.
func (s *shortfall) expect(rate float64, now time.Time, within time.Duration) {
	if s.n > 0 {
		last := &s.guesses[s.n-1]
		if now.Add(within).Sub(last.until) < within/(guessesMost-1) || s.n == guessesMost {
			return
		}
	}
	s.guesses[s.n] = guess{now.Add(within), rate}
	s.n++
}

// see compares the present rate with what was expected; a shortfall is half forgotten in
// the time forget.
func (s *shortfall) see(rate float64, now time.Time, forget time.Duration) {
	if !s.at.IsZero() {
		s.worst *= math.Exp2(-float64(now.Sub(s.at)) / float64(forget))
	}
	s.at = now
	done := 0
	for done < s.n && !now.Before(s.guesses[done].until) {
		s.worst = max(s.worst, rate-s.guesses[done].rate)
		done++
	}
	copy(s.guesses[:], s.guesses[done:s.n])
	s.n -= done
}
