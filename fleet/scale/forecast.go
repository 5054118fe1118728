package scale

import "time"

// A forecast expects of each part of a day what earlier days had, scaled by how today
// compares with them so far.
type forecast struct {
	day   time.Duration
	parts [dayParts]dayPart
	// steepest is the greatest rise so far, in requests per second, per second.
	steepest float64
	before   [riseParts]sight // rates seen lately, the oldest first
	present  int              // the part that is being filled
}

// A dayPart is the mean rate in a part of the day.
type dayPart struct {
	mean  float64
	known bool // it was filled on an earlier day
	sum   float64
	n     int
}

// A sight is a rate at a time.
type sight struct {
	at   time.Time
	rate float64
}

const (
	dayParts = 144 // of ten minutes, in a day of 24 hours
	// riseParts is how many rates are remembered to see a rise, each a part of a day apart.
	riseParts = 4
	// yesterday is what the latest day counts in the mean of a part.
	yesterday = 0.5
	// scaleMost bounds how far a day may be from earlier ones.
	scaleMost = 3.0
)

func newForecast(day time.Duration) forecast { return forecast{day: day, present: -1} }

// at returns which part of the day a time is in.
func (f *forecast) at(t time.Time) int {
	return int(time.Duration(t.UnixNano()) % f.day * dayParts / f.day)
}

// learn takes in the rate since the last call, and the one averaged over a while.
func (f *forecast) learn(rate, averaged float64, now time.Time) {
	i := f.at(now)
	if i != f.present {
		f.close()
		f.present = i
		f.rise(averaged, now)
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
		mean = p.mean + yesterday*(mean-p.mean)
	}
	*p = dayPart{mean: mean, known: true}
}

// rise looks for the steepest rise.
func (f *forecast) rise(rate float64, now time.Time) {
	if first := f.before[0]; !first.at.IsZero() {
		f.steepest = max(f.steepest, (rate-first.rate)/now.Sub(first.at).Seconds())
	}
	copy(f.before[:], f.before[1:])
	f.before[riseParts-1] = sight{now, rate}
}

// most returns the highest rate that is expected from now until within; 0 if nothing is
// known of that time.
func (f *forecast) most(rate float64, now time.Time, within time.Duration) (most float64) {
	here := f.parts[f.at(now)]
	scale := 1.0
	if here.known && here.mean > 0 {
		scale = min(max(rate/here.mean, 1/scaleMost), scaleMost)
	}
	step := f.day / dayParts
	for ahead := step; ahead <= within+step && ahead < f.day; ahead += step {
		if p := f.parts[f.at(now.Add(ahead))]; p.known {
			most = max(most, p.mean*scale)
		}
	}
	return most
}
