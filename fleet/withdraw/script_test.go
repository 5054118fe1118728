package withdraw

import (
	"testing"
	"time"

	"parley"
	"parley/internal/scripttest"
)

// TestScripts runs the scripts in testdata. The lines are
//
//	worker NAME [seats=N] [running=N] [waiting=N] [rate=N] [closed] [byclass]
//	report NAME [running=N] [waiting=N]   what it says of itself from now on
//	send NAME to=WORKER [class=free|pro|enterprise] [prompt=N] [cached=N] [times=N]
//	token NAME                    its first token has come
//	warm WORKER NAME N            the worker has N tokens of its prompt
//	full WORKER                   it cannot take anything
//	wait MS
//	plan                          what is withdrawn now; it is sent to where it was meant to go
func TestScripts(t *testing.T) {
	scripttest.Run(t, func(run *scripttest.Script) func(scripttest.Words) {
		s := &script{
			Script:  run,
			now:     time.Unix(1000, 0),
			names:   map[string]*Attempt{},
			workers: map[string]*Worker{},
			warm:    map[string]int{},
			full:    map[string]bool{},
		}
		s.pool.Cached = func(a *Attempt, w *Worker) (int, bool) {
			return s.warm[w.Name+" "+a.Owner.(string)], !s.full[w.Name]
		}
		return s.run
	})
}

// A script is one under way.
type script struct {
	*scripttest.Script
	pool    Peers
	now     time.Time
	names   map[string]*Attempt
	workers map[string]*Worker
	warm    map[string]int
	full    map[string]bool
}

func (s *script) run(words scripttest.Words) {
	switch words[0] {
	case "worker":
		w := &Worker{
			Name:     words[1],
			Open:     !words.Has("closed"),
			ByClass:  words.Has("byclass"),
			Seats:    words.Number("seats"),
			Running:  words.Number("running"),
			Waiting:  words.Number("waiting"),
			Rate:     float64(words.Number("rate")),
			Reported: s.now,
		}
		s.workers[w.Name], s.pool.Workers = w, append(s.pool.Workers, w)
	case "report":
		w := s.workers[words[1]]
		w.Running, w.Waiting, w.Reported = words.Number("running"), words.Number("waiting"), s.now
	case "send":
		s.send(words)
	case "token":
		s.names[words[1]].Answered = true
	case "warm":
		s.warm[words[1]+" "+words[2]] = scripttest.Number(words[3])
	case "full":
		s.full[words[1]] = true
	case "wait":
		s.now = s.now.Add(time.Duration(scripttest.Number(words[1])) * time.Millisecond)
	case "plan":
		s.plan()
	default:
		s.Fatalf("what is %q?", words)
	}
}

func (s *script) send(words scripttest.Words) {
	s.now = s.now.Add(time.Microsecond) // no two are sent at once
	a := &Attempt{Owner: words[1], Sent: s.now, Cached: words.Number("cached"), Withdrawn: words.Number("times")}
	for class := range parley.Class(parley.Classes) {
		if words.Has("class=" + class.String()) {
			a.Class = class
		}
	}
	for name, w := range s.workers {
		if words.Has("to=" + name) {
			w.Attempts = append(w.Attempts, a)
		}
	}
	s.names[words[1]] = a
}

func (s *script) plan() {
	plan := s.pool.Plan(s.now)
	if len(plan) == 0 {
		s.Say("nothing")
	}
	for _, x := range plan {
		x.Asked = true
		switch {
		case x.To != nil:
			x.For = x.To.Name
			s.Say("%s from %s for %s", x.Owner, x.From.Name, x.To.Name)
		default:
			s.Say("%s from %s behind %s", x.Owner, x.From.Name, x.Behind.Owner)
		}
	}
}
