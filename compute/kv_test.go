package compute

import "testing"

func TestKVTypeNamesAreReadBack(t *testing.T) {
	for want, name := range KVTypeNames() {
		got, err := ParseKVType(name)
		if err != nil || got != KVType(want) || got.String() != name || !got.Valid() {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "F32", "int4", "fp8 "} {
		if got, err := ParseKVType(name); err == nil {
			t.Errorf("%q was read as %v", name, got)
		}
	}
	if bad := KVType(KVTypes); bad.Valid() || bad.String() != "KVType(4)" {
		t.Errorf("type %d is %v", KVTypes, bad)
	}
	if zero := (KVShape{}).Type; zero != KVF32 {
		t.Errorf("a shape without type is %v", zero)
	}
}

func TestKVBytes(t *testing.T) {
	for kind, perHead := range map[KVType]int64{KVF32: 4 * 64, KVBF16: 2 * 64, KVInt8: 64 + 2, KVFP8: 64 + 2} {
		s := KVShape{Layers: 3, KVHeads: 5, HeadDim: 64, Blocks: 7, Type: kind}
		if want := 2 * 3 * 5 * BlockTokens * perHead; s.BlockBytes() != want || s.Bytes() != 7*want {
			t.Errorf("%v: a block has %d bytes, want %d", kind, s.BlockBytes(), want)
		}
	}
}

// TestEightBitsHoldTwiceTheTokens wants nearly twice the tokens of bfloat16 in the same memory.
func TestEightBitsHoldTwiceTheTokens(t *testing.T) {
	const least = 1.9
	for _, dim := range []int{64, 128} {
		bytes := func(kind KVType) float64 {
			return float64(KVShape{Layers: 16, KVHeads: 8, HeadDim: dim, Blocks: 1, Type: kind}.BlockBytes())
		}
		for _, kind := range []KVType{KVInt8, KVFP8} {
			if ratio := bytes(KVBF16) / bytes(kind); ratio < least {
				t.Errorf("%v with heads of %d holds %.3f times the tokens of bf16, want %.1f", kind, dim, ratio, least)
			}
		}
	}
}
