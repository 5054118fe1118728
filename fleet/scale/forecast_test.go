package scale

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestForecastOfAWeek has weeks whose last two days are quiet. In the third one the workers are there
// before a morning of work, and not before a quiet one.
func TestForecastOfAWeek(t *testing.T) {
	const morning = 7*time.Hour + 50*time.Minute
	cfg := Config{Min: 1, Max: 100, Rate: 1, ColdStart: 20 * time.Minute, Baseline: Baseline{NoWarmPool: true}}
	r := newRun(t, cfg)
	day := func(quiet bool) (before Sizing) {
		busy := 20.0
		if quiet {
			busy = 1
		}
		before = r.pass(1, morning)
		r.pass(1, 8*time.Hour-morning)
		r.pass(busy, 12*time.Hour)
		r.pass(1, 4*time.Hour)
		return before
	}
	for week := range 3 {
		for weekday := range weekDays {
			quiet := weekday >= 5
			p := day(quiet)
			if week < 2 {
				continue
			}
			if quiet && p.Workers > 4 || !quiet && p.Workers < 10 {
				t.Errorf("day %d of the third week has %d workers before its morning, because %s", weekday, p.Workers,
					p.Why)
			}
		}
	}
}

// TestForecastWithoutWeeks: where each day is larger or smaller by chance, weeks are not believed, or
// do no harm.
func TestForecastWithoutWeeks(t *testing.T) {
	const day = 24 * time.Hour
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := newForecast(day)
		size, missed, alone, n := 1.0, 0.0, 0.0, 0.0
		for at := time.Duration(0); at < 6*weekDays*day; at += 5 * time.Minute {
			if at%day == 0 {
				size = math.Exp(0.3 * rng.NormFloat64())
			}
			rate, now := size*peaked(10, 100, 1, day)(at), time.Unix(0, 0).Add(at)
			if both, known := f.most(now, 0); known && at > 2*weekDays*day {
				days, _ := f.daily.most(now, 0)
				missed, alone, n = missed+math.Abs(both-rate), alone+math.Abs(days-rate), n+1
			}
			f.learn(rate, now)
		}
		if missed > 1.05*alone {
			t.Errorf("seed %d: missed by %.2f, with days alone by %.2f", seed, missed/n, alone/n)
		}
	}
}

// TestForecastOfAnyDay: days that are no whole number of parts, and gaps in what is seen, do no harm.
func TestForecastOfAnyDay(t *testing.T) {
	for _, day := range []time.Duration{dayLeast, time.Second + 13, time.Minute + 7, 31 * 24 * time.Hour} {
		f := newForecast(day)
		for i := range 20_000 {
			now := time.Unix(0, int64(i)*int64(max(1, day/97)))
			if i%7 == 0 {
				f.learn(float64(i%5), now)
			}
			if most, known := f.most(now, day/10); known && !(most >= 0 && most <= 4*scaleMost) {
				t.Fatalf("a day of %v: %g is expected of rates up to 4", day, most)
			}
		}
	}
}
