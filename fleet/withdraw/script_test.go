package withdraw

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley"
)

var rewrite = flag.Bool("rewrite", false, "write the traces that the scripts give now; review the difference")

// TestScripts runs the scripts in testdata. The lines are
//
//	worker NAME [seats=N] [running=N] [waiting=N] [rate=N] [closed] [byclass]
//	report NAME [running=N] [waiting=N]   what it says of itself from now on
//	send NAME to=WORKER [class=free|pro|enterprise] [prompt=N] [cached=N] [times=N]
//	token NAME                    its first token has come
//	warm WORKER NAME N            the worker has N tokens of its prompt
//	full WORKER                   it cannot take anything
//	wait MS
//	plan                          what is taken back now; it is sent to where it was meant to go
func TestScripts(t *testing.T) {
	files, err := os.ReadDir("testdata")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		path := "testdata/" + f.Name()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := runScript(t, string(text))
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != string(text) {
			t.Errorf("%s: the trace is now\n%s\nwant\n%s", path, got, text)
		}
	}
}

// A script is one under way.
type script struct {
	t       *testing.T
	out     strings.Builder
	pool    Peers
	now     time.Time
	names   map[string]*Attempt
	workers map[string]*Worker
	warm    map[string]int
	full    map[string]bool
}

// runScript repeats the script's commands, each followed by its trace.
func runScript(t *testing.T, text string) string {
	s := &script{
		t: t, now: time.Unix(1000, 0),
		names: map[string]*Attempt{}, workers: map[string]*Worker{}, warm: map[string]int{}, full: map[string]bool{},
	}
	s.pool.Cached = func(a *Attempt, w *Worker) (int, bool) {
		return s.warm[w.Name+" "+a.Owner.(string)], !s.full[w.Name]
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			s.run(words)
		}
	}
	return s.out.String()
}

func (s *script) tell(format string, args ...any) { fmt.Fprintf(&s.out, "| "+format+"\n", args...) }

// number returns what a word such as seats=2 says, 0 if there is none.
func (s *script) number(words []string, name string) int {
	for _, w := range words {
		if text, found := strings.CutPrefix(w, name+"="); found {
			n, err := strconv.Atoi(text)
			if err != nil {
				s.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

func has(words []string, flag string) bool {
	return slices.Contains(words, flag)
}

func (s *script) run(words []string) {
	switch words[0] {
	case "worker":
		w := &Worker{
			Name:     words[1],
			Open:     !has(words, "closed"),
			ByClass:  has(words, "byclass"),
			Seats:    s.number(words, "seats"),
			Running:  s.number(words, "running"),
			Waiting:  s.number(words, "waiting"),
			Rate:     float64(s.number(words, "rate")),
			Reported: s.now,
		}
		s.workers[w.Name], s.pool.Workers = w, append(s.pool.Workers, w)
	case "report":
		w := s.workers[words[1]]
		w.Running, w.Waiting, w.Reported = s.number(words, "running"), s.number(words, "waiting"), s.now
	case "send":
		s.send(words)
	case "token":
		s.names[words[1]].Answered = true
	case "warm":
		n, _ := strconv.Atoi(words[3])
		s.warm[words[1]+" "+words[2]] = n
	case "full":
		s.full[words[1]] = true
	case "wait":
		ms, _ := strconv.Atoi(words[1])
		s.now = s.now.Add(time.Duration(ms) * time.Millisecond)
	case "plan":
		s.plan()
	default:
		s.t.Fatalf("what is %q?", words)
	}
}

func (s *script) send(words []string) {
	s.now = s.now.Add(time.Microsecond) // no two are sent at once
	a := &Attempt{Owner: words[1], Sent: s.now, Cached: s.number(words, "cached"), Withdrawn: s.number(words, "times")}
	for class := range parley.Class(parley.Classes) {
		if has(words, "class="+class.String()) {
			a.Class = class
		}
	}
	for name, w := range s.workers {
		if has(words, "to="+name) {
			w.Attempts = append(w.Attempts, a)
		}
	}
	s.names[words[1]] = a
}

func (s *script) plan() {
	plan := s.pool.Plan(s.now)
	if len(plan) == 0 {
		s.tell("nothing")
	}
	for _, x := range plan {
		x.Asked = true
		switch {
		case x.To != nil:
			x.For = x.To.Name
			s.tell("%s from %s for %s", x.Owner, x.From.Name, x.To.Name)
		default:
			s.tell("%s from %s behind %s", x.Owner, x.From.Name, x.Behind.Owner)
		}
	}
}
