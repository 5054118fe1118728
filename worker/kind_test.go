package worker

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// rows are the promises as docs/workers.md calls them, in its order.
var rows = []struct{ field, row string }{
	{"TokenIDs", "token ids in answers"}, {"TokenPrompts", "token ids as prompts"}, {"Events", "events of the cache"},
	{"Replay", "events repeated"},
	{"Snapshot", "snapshot of the cache"}, {"ModelEvents", "events tell models apart"}, {"Salts", "salts"},
	{"Cancel", "cancel within a step"}, {"Backpressure", "backpressure to the engine"},
	{"Metrics", "metrics of load"}, {"ExactSeeds", "exact seeds and greedy"}, {"Grammar", "grammar"}, {"Tools",
		"tools"},
	{"Resume", "resumes answers begun elsewhere"},
	{"Choices", "several choices"}, {"Logprobs", "log-probabilities"},
	{"PromptLogprobs", "log-probabilities of prompts"}, {"Embed", "embeddings"}, {"Sleep", "sleep and wake"},
	{"Whole", "the whole request"},
}

// TestPublishedTable compares the table for users with the one that counts.
func TestPublishedTable(t *testing.T) {
	text, err := os.ReadFile("../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	var header strings.Builder
	header.WriteString("| promise |")
	for _, k := range Kinds() {
		header.WriteString(" " + string(k) + " |")
	}
	want = append(want, header.String(), "|"+strings.Repeat("---|", 1+len(Kinds())))
	for _, r := range rows {
		var line strings.Builder
		line.WriteString("| " + r.row + " |")
		for _, k := range Kinds() {
			line.WriteString(" " + word(reflect.ValueOf(PromisesOf(k)).FieldByName(r.field)) + " |")
		}
		want = append(want, line.String())
	}
	if table := strings.Join(want, "\n") + "\n"; !strings.Contains(string(text), table) {
		t.Errorf("docs/workers.md must have this table:\n%s", table)
	}
	if n := reflect.TypeFor[Promises]().NumField(); n != len(rows) {
		t.Errorf("%d promises are published, there are %d", len(rows), n)
	}
}

func word(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	if v.Bool() {
		return "yes"
	}
	return "no"
}

func TestKindsAreRead(t *testing.T) {
	for _, k := range Kinds() {
		if got, err := ParseKind(string(k)); err != nil || got != k {
			t.Errorf("%s: %s, %v", k, got, err)
		}
	}
	if _, err := ParseKind("tgi"); err == nil || !strings.Contains(err.Error(), "use one of parley, vllm") {
		t.Errorf("%v", err)
	}
}
