package host

import (
	"strings"
	"testing"

	"parley/compute"
	"parley/model"
	"parley/model/weights"
)

// TestInspectAgreesWithThePool wants the cost of a token that a checkpoint's
// summary tells to be what a pool of that type takes.
func TestInspectAgreesWithThePool(t *testing.T) {
	ck := openBuiltin(t, "polly")
	costs := weights.Describe(ck).KVCache
	if len(costs) != compute.KVTypes {
		t.Fatalf("%d types are described, want %d", len(costs), compute.KVTypes)
	}
	for _, c := range costs {
		kind, err := compute.ParseKVType(c.Type)
		if err != nil {
			t.Fatal(err)
		}
		if block := model.KVShape(&ck.Config, 1, kind).BlockBytes(); c.BytesPerToken*compute.BlockTokens != block {
			t.Errorf("%v: %d bytes per token are described, a block of %d has %d", kind, c.BytesPerToken,
				compute.BlockTokens, block)
		}
	}
}

func TestSmallerTypesHoldMoreTokens(t *testing.T) {
	const available = 80 << 20 // too little for a full context in float32
	tokens := map[compute.KVType]int{}
	for kind := range compute.KVType(compute.KVTypes) {
		plans, err := PlanMemory([]Candidate{{openBuiltin(t, "polly"), Config{Name: "polly", KVType: kind}}}, available)
		if err != nil {
			t.Fatal(err)
		}
		p := plans[0]
		if p.KVType != kind.String() || p.KVBytes != p.kvBytes(p.KVTokens) || p.Bytes() > available {
			t.Errorf("plan %+v", p)
		}
		tokens[kind] = p.KVTokens
	}
	if !(tokens[compute.KVF32] < tokens[compute.KVBF16] && tokens[compute.KVBF16] < tokens[compute.KVInt8]) {
		t.Errorf("the pools hold %v tokens", tokens)
	}
}

func TestEveryTypeTalks(t *testing.T) {
	for kind := range compute.KVType(compute.KVTypes) {
		h := startHost(t, openBuiltin(t, "polly"), Config{Name: "polly", KVType: kind, KVTokens: 1024})
		if got := ask(t, h, "What is the capital of France?"); !strings.Contains(got, "Paris") {
			t.Errorf("%v: %q", kind, got)
		}
	}
}
