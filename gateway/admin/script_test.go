package admin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/scripttest"
)

// TestScripts runs the scripts in testdata: counters that move, and what is made
// of them. The lines are
//
//	read SECONDS [COUNTER=+N] [ttft=SECONDSxN] [gap=SECONDSxN]   time goes on, counters grow
//	queue MODEL [free=N] [pro=N] [enterprise=N] [wait=S] [breaker=STATE]
//	worker NAME [kv=SHARE] [running=N] [waiting=N] [state=STATE] [busy=+S] [preempted=+N] [asked=+N] [hit=+N]
//	now                  the picture, with its verdict
//	promises             how objectives are kept
//	points SECONDS       the history of the last SECONDS
//
// queue and worker hold from the next read on.
func TestScripts(t *testing.T) {
	scripttest.Run(t, func(run *scripttest.Script) func(scripttest.Words) {
		s := &script{
			Script:  run,
			history: NewHistory(),
			reading: Reading{At: time.Unix(1_000_000, 0).UTC(), TTFT: newHistogram(), Gap: newHistogram()},
		}
		return func(words scripttest.Words) { s.run(words[0], words[1:]) }
	})
}

// A script is one under way.
type script struct {
	*scripttest.Script
	reading Reading
	history *History
	trend   Trend
}

var bounds = func() (b []float64) {
	for x, i := 0.0001, 0; i < 21; x, i = 2*x, i+1 {
		b = append(b, x)
	}
	return b
}()

func newHistogram() Histogram { return Histogram{Bounds: bounds, Counts: make([]uint64, len(bounds))} }

func (h *Histogram) observe(x float64, n uint64) {
	for i, b := range h.Bounds {
		if x <= b {
			h.Counts[i] += n
		}
	}
	h.Count += n
	h.Sum += x * float64(n)
}

func (s *script) run(verb string, words []string) {
	switch verb {
	case "read":
		s.read(words)
	case "queue":
		s.queue(words[0], words[1:])
	case "worker":
		s.worker(words[0], words[1:])
	case "now":
		s.now()
	case "promises":
		for _, p := range s.history.Now(defaultObjectives()).Promises {
			s.Say("%s: kept %.4f of %.0f (goal %.3f), burn %.2f in 5 min, %.2f in an hour", p.Name,
				p.Kept, p.Count, p.Goal, p.Burn5m, p.Burn1h)
		}
	case "points":
		span := ResolutionFor(time.Duration(s.number(words[0])) * time.Second)
		for _, p := range Points(s.trend.Since(span, time.Time{}), s.reading.At.Add(time.Hour), nil) {
			first := "none"
			if p.TTFT95 != nil {
				first = fmt.Sprintf("%.3f", *p.TTFT95)
			}
			s.Say("%d: running %d waiting %d kv %.2f requests %.4f/s decode %.2f/s ttft95 %s",
				p.At-1_000_000, p.Running, p.Waiting, p.KV, p.Requests, p.Decode, first)
		}
	default:
		s.Fatalf("the script says %q", verb)
	}
}

func (s *script) read(words []string) {
	r := &s.reading
	counters := map[string]*float64{"ok": &r.OKTotal, "failed": &r.FailedTotal, "turned": &r.TurnedAwayTotal,
		"limited": &r.LimitedTotal, "refused": &r.RefusedTotal,
		"cancelled": &r.CancelledTotal, "retries": &r.RetriesTotal, "prompt": &r.PromptTotal, "cached": &r.CachedTotal,
		"output": &r.OutputTotal, "shed": &r.ShedTotal[parley.Free]}
	r.TTFT.Counts, r.Gap.Counts = slices.Clone(r.TTFT.Counts), slices.Clone(r.Gap.Counts)
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "ttft", "gap":
			x, n, _ := strings.Cut(value, "x")
			h := map[string]*Histogram{"ttft": &r.TTFT, "gap": &r.Gap}[name]
			h.observe(s.number(x), uint64(s.number(n)))
		default:
			s.set(counters[name], value)
		}
	}
	r.At = r.At.Add(time.Duration(s.number(words[0]) * float64(time.Second)))
	copied := *r
	copied.Queues, copied.Workers = slices.Clone(r.Queues), slices.Clone(r.Workers)
	if happened, ok := s.history.Add(&copied); ok {
		s.trend.Add(copied.At, &happened)
	}
}

// set gives a number a value, or with + makes it grow.
func (s *script) set(to *float64, value string) {
	if more, grows := strings.CutPrefix(value, "+"); grows {
		*to += s.number(more)
	} else {
		*to = s.number(value)
	}
}

func (s *script) number(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.Fatal(err)
	}
	return x
}

func (s *script) queue(model string, words []string) {
	i := slices.IndexFunc(s.reading.Queues, func(q Queue) bool { return q.Model == model })
	if i < 0 {
		s.reading.Queues = append(s.reading.Queues,
			Queue{Model: model, ModelBreaker: "closed", WorkerBreaker: "closed"})
		i = len(s.reading.Queues) - 1
	}
	q := &s.reading.Queues[i]
	for _, w := range words {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "wait":
			s.set(&q.WaitSeconds, value)
		case "breaker":
			q.WorkerBreaker = value
		default:
			q.Waiting[class(name)] = int(s.number(value))
		}
	}
}

func (s *script) worker(name string, words []string) {
	i := slices.IndexFunc(s.reading.Workers, func(w Worker) bool { return w.Name == name })
	if i < 0 {
		s.reading.Workers = append(s.reading.Workers, Worker{Name: name, Pool: LocalPool, Model: "polly", State: Up})
		i = len(s.reading.Workers) - 1
	}
	w := &s.reading.Workers[i]
	for _, word := range words {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "kv":
			s.set(&w.KV, value)
		case "running":
			w.Running = int(s.number(value))
		case "waiting":
			w.Waiting = int(s.number(value))
		case "state":
			w.State = value
		case "trouble":
			w.Trouble = value
		case "busy":
			s.set(&w.BusyTotal, value)
		case "preempted":
			s.set(&w.PreemptedTotal, value)
		case "asked":
			s.set(&w.AskedTotal, value)
		case "hit":
			s.set(&w.HitTotal, value)
		}
	}
}

func (s *script) now() {
	p := s.history.Now(defaultObjectives())
	v := p.Verdict
	s.Say("%s, happy %v: %s", v.Bottleneck, v.Happy, v.Sentence)
	if v.Do != "" {
		s.Say("  %s", v.Do)
	}
	var tiers []string
	for _, tier := range slices.Sorted(maps.Keys(p.Waiting)) {
		tiers = append(tiers, fmt.Sprintf("%s %d", tier, p.Waiting[tier]))
	}
	s.Say("  running %d, waiting [%s], kv %.2f, busy %.2f, hits %.2f; %.2f requests/s, prefill %.1f, decode %.1f; "+
		"ttft95 %.3f gap95 %.4f",
		p.Running, strings.Join(tiers, ", "), p.KV, p.Busy, p.Hits, p.Rates.Requests, p.Rates.Prefill, p.Rates.Decode,
		p.TTFT.P95, p.Gap.P95)
}

func defaultObjectives() parley.Objectives {
	return parley.NewObjectives(nil, parley.Objective{SLO: parley.DefaultSLO()})
}
