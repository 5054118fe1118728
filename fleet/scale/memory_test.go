package scale

import (
	"encoding/json"
	"testing"
	"time"
)

// TestMemory starts a scaler anew after a day with a steep morning: with the memory of the one before it has workers
// ready for the next morning.
func TestMemory(t *testing.T) {
	cfg := Config{Min: 1, Max: 100, Rate: 1, ColdStart: 20 * time.Minute, Baseline: Baseline{NoWarmPool: true}}
	r := newRun(t, cfg)
	r.pass(1, 8*time.Hour)
	r.pass(20, 12*time.Hour)
	r.pass(1, 4*time.Hour+7*time.Hour+50*time.Minute)
	text, err := json.Marshal(r.s.Memory())
	if err != nil {
		t.Fatal(err)
	}
	var memory Memory
	if err := json.Unmarshal(text, &memory); err != nil {
		t.Fatal(err)
	}
	for _, remembers := range []bool{true, false} {
		next := newRun(t, cfg)
		next.now = r.now
		if remembers {
			if err := next.s.Recall(memory); err != nil {
				t.Fatal(err)
			}
		}
		next.state.Ready = 1
		if p := next.pass(1, 5*time.Minute); (p.Workers >= 15) != remembers {
			t.Errorf("remembers %v: before the morning %d workers, because %s", remembers, p.Workers, p.Why)
		}
	}
}

func TestMemoryThatIsWrong(t *testing.T) {
	s, err := New(Config{Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m *Memory){
		"version": func(m *Memory) { m.Version++ },
		"day":     func(m *Memory) { m.Day = time.Hour },
		"parts":   func(m *Memory) { m.Daily = m.Daily[1:] },
		"serve":   func(m *Memory) { m.Serve = 0 },
		"limit":   func(m *Memory) { m.Limit = -1 },
	} {
		m := s.Memory()
		if change(&m); s.Recall(m) == nil {
			t.Errorf("a memory with another %s is used", name)
		}
	}
	if err := s.Recall(s.Memory()); err != nil {
		t.Error(err)
	}
}
