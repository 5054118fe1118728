package traffic

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

func taken(w *Workload, stream, streams, n int) []Request {
	return slices.Collect(Take(w.Stream(stream, streams), n))
}

func TestIndependentRequestsShareNothing(t *testing.T) {
	w := &Workload{Kind: Independent, Seed: 1, Prompt: Fixed(16), Output: Fixed(8)}
	keys := map[uint64]bool{}
	for stream := range 3 {
		for _, r := range taken(w, stream, 3, 100) {
			keys[r.Prompt[0].Key] = true
			if r.PromptTokens() != 16 || r.OutputTokens != 8 {
				t.Fatalf("%+v", r)
			}
		}
	}
	if len(keys) != 300 {
		t.Errorf("300 requests have %d different prompts", len(keys))
	}
}

func TestWorkloadsFollowTheSeed(t *testing.T) {
	w := &Workload{Kind: Conversation, Seed: 4, Prompt: LogNormal(30, 1, 200), Output: Fixed(8),
		Turns: Length{Least: 1, Most: 5}, Open: 3}
	if !reflect.DeepEqual(taken(w, 0, 1, 200), taken(w, 0, 1, 200)) {
		t.Error("the same seed gave different requests")
	}
	other := *w
	other.Seed = 5
	if reflect.DeepEqual(taken(w, 0, 1, 200), taken(&other, 0, 1, 200)) {
		t.Error("different seeds gave the same requests")
	}
}

func TestGroupsShareTheirSystemPrompt(t *testing.T) {
	w := &Workload{Kind: SharedPrefix, Seed: 1, Prompt: Fixed(12), Output: Fixed(10), SharedTokens: 60,
		HistoryTokens: 20, Groups: 15, GroupUsers: 5}
	groups, users, questions := map[uint64]int{}, map[[2]uint64]int{}, map[uint64]bool{}
	for _, r := range taken(w, 0, 1, 3000) {
		if len(r.Prompt) != 3 || r.PromptTokens() != 92 || r.Prompt[0].Role != System || r.Prompt[2].Role != User {
			t.Fatalf("%+v", r)
		}
		groups[r.Prompt[0].Key]++
		users[[2]uint64{r.Prompt[0].Key, r.Prompt[1].Key}]++
		questions[r.Prompt[2].Key] = true
	}
	if len(groups) != 15 || len(users) != 75 || len(questions) != 3000 {
		t.Errorf("%d groups, %d users, %d questions", len(groups), len(users), len(questions))
	}
	for n := range maps.Values(groups) {
		if !near(float64(n), 200, 0.3) {
			t.Errorf("a group has %d of about 200 requests", n)
		}
	}
}

func TestTurnsRepeatWhatCameBefore(t *testing.T) {
	w := &Workload{Kind: Conversation, Seed: 1, Prompt: Fixed(12), Output: Fixed(10), SharedTokens: 30,
		Turns: Length{Least: 2, Most: 4}, Open: 5}
	last := map[uint64]Request{}
	ended := 0
	for _, r := range taken(w, 0, 1, 2000) {
		before, known := last[r.Conversation]
		switch {
		case !known && (r.Turn != 1 || r.PromptTokens() != 42):
			t.Fatalf("a conversation begins with %+v", r)
		case known && (r.Turn != before.Turn+1 || r.TurnsLeft != before.TurnsLeft-1):
			t.Fatalf("turn %d with %d left follows turn %d with %d left", r.Turn, r.TurnsLeft, before.Turn,
				before.TurnsLeft)
		case known:
			want := append(slices.Clone(before.Prompt),
				Part{Role: Assistant, Key: before.Answer, Tokens: before.OutputTokens})
			if !slices.Equal(r.Prompt[:len(want)], want) || len(r.Prompt) != len(want)+1 {
				t.Fatalf("turn %d is %v after %v", r.Turn, r.Prompt, want)
			}
		}
		last[r.Conversation] = r
		if r.TurnsLeft == 0 {
			ended++
			delete(last, r.Conversation)
		}
	}
	if len(last) > 5 || ended < 400 {
		t.Errorf("%d conversations are open, %d ended", len(last), ended)
	}
}

func TestWorkloadsAreChecked(t *testing.T) {
	good := Workload{Kind: SharedPrefix, Prompt: Fixed(1), Output: Fixed(1), SharedTokens: 1, Groups: 1, GroupUsers: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, spoil := range []func(*Workload){
		func(w *Workload) { w.Kind = "steady" },
		func(w *Workload) { w.Groups = 0 },
		func(w *Workload) { w.GroupUsers = 1 << 30 },
		func(w *Workload) { w.SharedTokens = 0 },
		func(w *Workload) { w.HistoryTokens = -1 },
		func(w *Workload) { w.Output = Fixed(0) },
		func(w *Workload) { w.Kind, w.Open, w.Turns = Conversation, 1, Fixed(2000) },
		func(w *Workload) { w.Kind, w.Open, w.Turns = Conversation, 0, Fixed(2) },
	} {
		w := good
		spoil(&w)
		if w.Validate() == nil {
			t.Errorf("%+v was taken", w)
		}
	}
}
