package kvevents

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/route/kvindex"

	"github.com/google/go-cmp/cmp"
)

// tokensFrom returns n tokens that count up.
func tokensFrom(first parley.Token, n int) (out []parley.Token) {
	for i := range n {
		out = append(out, first+parley.Token(i))
	}
	return out
}

// chainOf returns stored events of the blocks of a prompt.
func chainOf(tokens []parley.Token, salt parley.Salt) (out []BlockEvent) {
	parent := parley.BlockHash{}
	for len(tokens) >= 16 {
		h := parley.HashBlock(parent, salt, tokens[:16])
		out = append(out, BlockEvent{Kind: kvindex.Stored, Hash: h, Parent: parent, Tokens: tokens[:16]})
		parent, tokens = h, tokens[16:]
	}
	return out
}

func TestForeignRoutersReadOurBatches(t *testing.T) {
	stored := chainOf(tokensFrom(1, 48), parley.Salt{})
	removed := BlockEvent{Kind: kvindex.Removed, Tier: kvindex.Host, Hash: stored[2].Hash}
	payload := appendBatch(nil, time.Unix(1, 5e8), "",
		[]BlockEvent{stored[0], stored[1], stored[2], removed, {Kind: kvindex.Cleared}}, 16)
	foreign, err := (&BatchReader{}).Read(payload)
	if err != nil {
		t.Fatal(err)
	}
	if e := foreign[0]; !e.First || e.BlockTokens != 16 || len(e.Engine) != 3 ||
		!slices.Equal(e.Tokens, tokensFrom(1, 48)) ||
		e.Engine[0] != binary.BigEndian.Uint64(stored[0].Hash[24:]) {
		t.Errorf("as a foreign router reads it: %+v", e)
	}
}

// pack writes values as MessagePack, for batches as other engines write them.
func pack(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return appendNil(b)
	case int:
		if v < 0 {
			return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(int64(v)))
		}
		return appendUint(b, uint64(v))
	case uint64:
		return appendUint(b, v)
	case float64:
		return appendFloat(b, v)
	case string:
		return appendString(b, v)
	case []byte:
		return appendBytes(b, v)
	case []any:
		b = appendArray(b, len(v))
		for _, e := range v {
			b = pack(b, e)
		}
		return b
	case [][2]any:
		b = appendMap(b, len(v))
		for _, e := range v {
			b = pack(pack(b, e[0]), e[1])
		}
		return b
	}
	panic(fmt.Sprintf("%T", v))
}

func ints(tokens []parley.Token) (out []any) {
	for _, t := range tokens {
		out = append(out, int(t))
	}
	return out
}

// TestForeignBatches reads the forms in which vLLM, before and after 0.24,
// SGLang and the simulator write the same two blocks.
func TestForeignBatches(t *testing.T) {
	salt := parley.Salt{1, 2, 3}
	two := ints(tokensFrom(1, 32))
	plain := kvindex.Event{Kind: kvindex.Stored, Engine: []uint64{10, 11}, First: true, Tokens: tokensFrom(1, 32),
		BlockTokens: 16}
	salted := plain
	salted.Salt, salted.Salted = salt, true
	deeper := plain
	deeper.First, deeper.Parent = false, 9
	elsewhere := plain
	elsewhere.Tier = nowhere
	host := plain
	host.Tier = kvindex.Host
	adapted := plain
	adapted.Model = "lora"
	adaptedSalted := salted
	adaptedSalted.Model = "lora"
	negative := plain
	negative.Engine = []uint64{^uint64(0), 11}
	for name, c := range map[string]struct {
		event any
		want  []kvindex.Event
	}{
		"vLLM map": {[][2]any{{"type", "BlockStored"}, {"block_hashes", []any{10, 11}},
			{"parent_block_hash", nil}, {"token_ids", two}, {"block_size", 16}, {"lora_id", nil}, {"medium", "GPU"},
			{"lora_name", nil}, {"group_idx", 0}, {"kv_cache_spec_kind", "full_attention"}}, []kvindex.Event{plain}},
		"vLLM array": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil}, []kvindex.Event{plain}},
		"simulator array": {[]any{"BlockStored", []any{10, 11}, 0, two, 16, nil, "GPU", nil, nil},
			[]kvindex.Event{plain}},
		"vLLM bytes": {[]any{"BlockStored", []any{append(make([]byte, 31), 10), append(make([]byte, 31), 11)}, nil,
			two, 16}, []kvindex.Event{plain}},
		"vLLM parent": {[]any{"BlockStored", []any{10, 11}, 9, two, 16}, []kvindex.Event{deeper}},
		"vLLM salt": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil,
			[]any{[]any{hex.EncodeToString(salt[:])}, nil}}, []kvindex.Event{salted}},
		"SGLang salt": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU",
			[][2]any{{"cache_salt", hex.EncodeToString(salt[:])}}}, []kvindex.Event{salted}},
		"SGLang signed": {[]any{"BlockStored", []any{-1, 11}, nil, two, 16, nil, "GPU"}, []kvindex.Event{negative}},
		"SGLang host":   {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "CPU_PINNED"}, []kvindex.Event{host}},
		"adapter": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, 1, "GPU", "lora"},
			[]kvindex.Event{adapted}},
		"adapter's keys": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, 1, "GPU", "lora",
			[]any{[]any{"lora", hex.EncodeToString(salt[:])}, []any{"lora"}}}, []kvindex.Event{adaptedSalted}},
		"our model": {[][2]any{{"type", "BlockRemoved"}, {"model", "polly"}, {"block_hashes", []any{10}}},
			[]kvindex.Event{{Kind: kvindex.Removed, Model: "polly", Engine: []uint64{10}}}},
		"images": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil,
			[]any{[]any{[]any{"img", 0}}, nil}}, []kvindex.Event{elsewhere}},
		"foreign salt": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil,
			[]any{[]any{"tenant-a"}, nil}}, []kvindex.Event{elsewhere}},
		"sliding window": {[][2]any{{"type", "BlockStored"}, {"block_hashes", []any{10}}, {"group_idx", 1},
			{"kv_cache_spec_kind", "sliding_window"}}, nil},
		"removed": {[]any{"BlockRemoved", []any{10}, "GPU"},
			[]kvindex.Event{{Kind: kvindex.Removed, Engine: []uint64{10}}}},
		"other group": {[]any{"BlockRemoved", []any{10}, "GPU", 3}, nil},
		"cleared":     {[]any{"AllBlocksCleared"}, []kvindex.Event{{Kind: kvindex.Cleared}}},
		"cleared map": {[][2]any{{"type", "AllBlocksCleared"}}, []kvindex.Event{{Kind: kvindex.Cleared}}},
		"unknown":     {[]any{"BlockMoved", []any{10}, [][2]any{{"x", 1.5}}}, nil},
		"later fields": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil, nil, 0, "full_attention",
			nil, "LOCAL", "new", []any{1}}, []kvindex.Event{plain}},
		"remote": {[]any{"BlockStored", []any{10, 11}, nil, two, 16, nil, "GPU", nil, nil, 0, "full_attention", nil,
			"REMOTE"}, []kvindex.Event{elsewhere}},
	} {
		got, err := (&BatchReader{}).Read(pack(nil, []any{1.5, []any{c.event}, 0}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCapturedBatch reads what the simulator was seen to send.
func TestCapturedBatch(t *testing.T) {
	payload := append([]byte{0x93, 0xcb, 0x41, 0xda, 0xbe, 0x3f, 0x66, 0x2c, 0xc6, 0xa2, 0x91, 0x99, 0xab},
		"BlockStored"...)
	payload = append(payload, 0x92, 0xcf, 0x99, 0xe0, 0x4b, 0xfb, 0x87, 0xb8, 0x1f, 0x24, 0xcf, 0xc2, 0x73, 0x5e, 0x25,
		0xa2, 0xb2, 0x60, 0x65, 0x00, 0xdc, 0x00, 0x20)
	payload = append(payload, slices.Repeat([]byte{7}, 32)...)
	payload = append(append(append(payload, 0x10, 0xc0, 0xa3), "GPU"...), 0xc0, 0xc0, 0x00)
	got, err := (&BatchReader{}).Read(payload)
	if err != nil || len(got) != 1 || !got[0].First || got[0].Engine[1] != 0xc2735e25a2b26065 ||
		len(got[0].Tokens) != 32 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(appendBatch(nil, time.Unix(1, 0), "m", chainOf(tokensFrom(1, 48), parley.Salt{}), 16))
	f.Add(pack(nil, []any{1.5,
		[]any{[]any{"BlockStored", []any{10}, nil, []any{1}, 1, nil, "GPU", [][2]any{{"cache_salt", "x"}}}}, 0}))
	f.Add([]byte{0x93, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, payload []byte) {
		if events, err := (&BatchReader{}).Read(payload); err == nil {
			applied(t, kvindex.Batch{Events: events})
		}
	})
}

// applied gives a batch to an index.
func applied(t *testing.T, b kvindex.Batch) {
	t.Helper()
	x, err := kvindex.New(kvindex.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := x.Join(kvindex.Source{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	x.Apply(w, b)
}
