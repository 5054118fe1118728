package parley

import (
	"strings"
	"testing"
	"time"
)

func TestSLOMet(t *testing.T) {
	const ms = time.Millisecond
	promise := DefaultSLO()
	for _, c := range []struct {
		ttft, tpot     time.Duration
		prompt, cached int
		met            bool
	}{
		{1000 * ms, 50 * ms, 100, 0, true},
		{1001 * ms, 0, 100, 0, false},
		{1000 * ms, 51 * ms, 100, 0, false},
		{800 * ms, 0, 100, 49, true},
		{800 * ms, 0, 100, 50, false},
		{700 * ms, 0, 100, 100, true},
		{800 * ms, 0, 0, 0, true},
	} {
		if got := promise.Met(c.ttft, c.tpot, c.prompt, c.cached); got != c.met {
			t.Errorf("%+v: %t", c, got)
		}
	}
	if none := (SLO{}); !none.Met(time.Hour, time.Hour, 1, 1) {
		t.Error("nothing was promised and still missed")
	}
}

func TestObjectives(t *testing.T) {
	const ms = time.Millisecond
	list := NewObjectives([]Objective{
		{Name: "typing", Purpose: ForComplete, SLO: SLO{TTFT: 200 * ms}},
		{
			Name: "paid", Models: []string{"large"}, Classes: []Class{Pro, Enterprise},
			SLO: SLO{TTFT: 700 * ms, TPOT: 40 * ms}, TTFTShare: 0.99,
		},
	}, Objective{SLO: DefaultSLO()})
	if err := list.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		model   string
		class   Class
		purpose Purpose
		name    string
		ttft    time.Duration
		tpot    time.Duration
		share   float64
	}{
		{"small", Free, ForComplete, "typing", 200 * ms, 50 * ms, 0.95},
		{"large", Pro, ForChat, "paid", 700 * ms, 40 * ms, 0.99},
		{"large", Enterprise, "", "paid", 700 * ms, 40 * ms, 0.99},
		{"large", Free, ForChat, "default", time.Second, 50 * ms, 0.95},
		{"small", Pro, ForChat, "default", time.Second, 50 * ms, 0.95},
	} {
		got := list[list.Of(c.model, c.class, c.purpose)]
		if got.Name != c.name || got.TTFT != c.ttft || got.TPOT != c.tpot || got.TTFTShare != c.share ||
			got.TPOTShare != 0.99 {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	if typing := list[0]; typing.CachedTTFT != 200*ms {
		t.Errorf("a cached prompt may take %v, longer than the 200 ms for any", typing.CachedTTFT)
	}
}

func TestObjectivesSayWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		list Objectives
		want string
	}{
		{Objectives{{}}, `the name of objective 1 is ""`},
		{Objectives{{Name: "a"}, {Name: "a"}}, `the name of objective 2 is "a"`},
		{Objectives{{Name: "a", SLO: SLO{TTFT: -1}}}, "negative"},
		{Objectives{{Name: "a", TTFTShare: 1}}, "the share 1"},
		{Objectives{{Name: "a", TPOTShare: -0.5}}, "the share -0.5"},
	} {
		if err := c.list.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.list, err, c.want)
		}
	}
}
