package scale

import (
	"math"
	"time"

	"parley/internal/exactmath"
)

// A forecast expects of a time what earlier days had at the same time of day, or what earlier weeks
// had at the same time of the week: whichever was nearer to what came, lately. So a week that has
// quiet days is known when it has passed once, and a scaler of a few days' age knows the days.
type forecast struct {
	daily, weekly profile
	present       int // the part of the week that is being filled, -1 before the first
	sum           float64
	n             int
	// judged is for how many parts both were compared with what came, at most those of a week.
	judged float64
}

// A profile has the mean rate of each part of a period, scaled by how the rate compares with
// earlier periods lately. Where few requests come, neighbouring parts are averaged, so that what is
// expected is not their noise.
type profile struct {
	period time.Duration
	parts  []periodPart
	curve  []float64 // what the parts have, averaged; negative if that is not known
	sum    float64   // of the means of known parts
	known  int       // how many those are
	reach  int       // how far to both sides parts were averaged when the curve was last drawn
	// lately and usual are the rates of the latest parts, and of earlier periods at the same times.
	lately, usual float64
	missed        float64 // by how much the rate of a part was missed, on average
}

// A periodPart is the mean rate in a part of a period.
type periodPart struct {
	mean  float64
	known bool // it was filled in an earlier period
}

const (
	dayParts = 144 // of ten minutes, in a day of 24 hours
	weekDays = 7
	dayLeast = time.Second
	// latest is what the latest period counts in the mean of a part.
	latest = 0.5
	// scaleMost bounds how far a period may be from earlier ones, and scaleParts is over how
	// many parts of it that is averaged.
	scaleMost  = 3.0
	scaleParts = 6
	// enough is how many requests tell a rate, and reachMost how far to both sides parts are
	// averaged to have that many.
	enough    = 1000
	reachMost = 6
	// judgedLeast is for how many parts days and weeks are compared before weeks may be believed.
	judgedLeast = dayParts / 8
)

func newForecast(day time.Duration) forecast {
	return forecast{
		daily:   newProfile(day, dayParts),
		weekly:  newProfile(weekDays*day, weekDays*dayParts),
		present: -1,
	}
}

func newProfile(period time.Duration, parts int) profile {
	p := profile{period: period, parts: make([]periodPart, parts), curve: make([]float64, parts)}
	for i := range p.curve {
		p.curve[i] = -1
	}
	return p
}

// learn takes in the rate since the last call.
func (f *forecast) learn(rate float64, now time.Time) {
	if i := f.weekly.at(now); i != f.present {
		f.close()
		f.present, f.sum, f.n = i, 0, 0
	}
	f.sum += rate
	f.n++
}

// close ends a part.
func (f *forecast) close() {
	if f.present < 0 {
		return
	}
	mean, ofDay := f.sum/float64(max(1, f.n)), f.present%dayParts
	day, week := f.daily.said(ofDay), f.weekly.said(f.present)
	if day >= 0 && week >= 0 {
		f.judged = min(f.judged+1, weekDays*dayParts)
		f.daily.missed += (math.Abs(day-mean) - f.daily.missed) / f.judged
		f.weekly.missed += (math.Abs(week-mean) - f.weekly.missed) / f.judged
	}
	f.daily.fill(ofDay, mean)
	f.weekly.fill(f.present, mean)
}

// byWeek reports whether weeks repeat themselves more than days do.
func (f *forecast) byWeek() bool { return f.judged >= judgedLeast && f.weekly.missed < f.daily.missed }

// most returns the highest rate that is expected from now until within, and whether
// earlier days say anything of that time.
func (f *forecast) most(now time.Time, within time.Duration) (most float64, known bool) {
	if f.byWeek() {
		if most, known = f.weekly.most(now, within); known {
			return most, known
		}
	}
	return f.daily.most(now, within)
}

// at returns which part of the period a time is in.
func (p *profile) at(t time.Time) int {
	since := time.Duration(t.UnixNano()) % p.period
	return min(int(since/(p.period/time.Duration(len(p.parts)))), len(p.parts)-1)
}

// said returns what is expected of a part, negative if nothing is.
func (p *profile) said(part int) float64 {
	if p.curve[part] < 0 {
		return -1
	}
	return p.curve[part] * p.scale()
}

// scale returns how the rate compares with that of earlier periods lately.
func (p *profile) scale() float64 {
	if p.usual <= 0 {
		return 1
	}
	return min(max(p.lately/p.usual, 1/scaleMost), scaleMost)
}

// fill gives a part its mean rate in the present period.
func (p *profile) fill(part int, mean float64) {
	x := &p.parts[part]
	if x.known {
		p.lately += (mean - p.lately) / scaleParts
		p.usual += (max(0, p.curve[part]) - p.usual) / scaleParts
		mean = x.mean + float64(latest*(mean-x.mean))
	}
	p.sum += mean
	if x.known {
		p.sum -= x.mean
	} else {
		p.known++
	}
	*x = periodPart{mean: mean, known: true}
	p.draw(part)
}

// draw averages parts, after one has changed.
func (p *profile) draw(changed int) {
	n := len(p.parts)
	each := p.sum / float64(p.known) * (p.period / time.Duration(n)).Seconds() // requests in a part
	reach := min(int(enough/max(1, each)/2), reachMost)
	from, to := changed-reach, changed+reach
	if reach != p.reach {
		from, to, p.reach = 0, n-1, reach
	}
	for i := from; i <= to; i++ {
		sum, known := 0.0, 0
		for j := i - reach; j <= i+reach; j++ {
			if x := &p.parts[(j+2*n)%n]; x.known {
				sum, known = sum+x.mean, known+1
			}
		}
		if at := (i + n) % n; p.parts[at].known {
			p.curve[at] = sum / float64(known)
		}
	}
}

// most returns the highest rate that is expected from now until within, and whether
// earlier periods say anything of that time.
func (p *profile) most(now time.Time, within time.Duration) (most float64, known bool) {
	scale, step := p.scale(), p.period/time.Duration(len(p.parts))
	for ahead := time.Duration(0); ; ahead += step {
		ahead = min(ahead, within)
		if rate := p.expect(now.Add(ahead)); rate >= 0 {
			most, known = max(most, rate*scale), true
		}
		if ahead == within || ahead >= p.period {
			return most, known
		}
	}
}

// expect returns what earlier periods had at a time: a line from the middle of one
// part to that of the next. It is negative if that is not known.
func (p *profile) expect(t time.Time) float64 {
	n := len(p.parts)
	place := float64(float64(time.Duration(t.UnixNano())%p.period)/float64(p.period)*float64(n)) - 0.5
	first := int(math.Floor(place))
	a, b := p.curve[(first+n)%n], p.curve[(first+1)%n]
	if a < 0 || b < 0 { // of which one may be of the present period
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
		s.worst *= exactmath.Exp2(-float64(now.Sub(s.at)) / float64(forget))
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
