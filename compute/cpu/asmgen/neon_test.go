package main

import "testing"

// The words are what another assembler makes of the texts.
func TestEncodings(t *testing.T) {
	for _, c := range []struct {
		name     string
		operands []any
		word     uint32
		text     string
	}{
		{"fmla", []any{vreg(31), vreg(30), lane{29, 3}}, 0x4fbd1bdf, "fmla v31.4s, v30.4s, v29.s[3]"},
		{"fmls", []any{vreg(1), vreg(2), lane{3, 2}}, 0x4f835841, "fmls v1.4s, v2.4s, v3.s[2]"},
		{"fmul", []any{vreg(4), vreg(5), lane{18, 1}}, 0x4fb290a4, "fmul v4.4s, v5.4s, v18.s[1]"},
		{"sdot", []any{vreg(7), vreg(25), lane{16, 1}}, 0x4fb0e327, "sdot v7.4s, v25.16b, v16.4b[1]"},
		{"sdot", []any{vreg(0), vreg(1), lane{2, 3}}, 0x4fa2e820, "sdot v0.4s, v1.16b, v2.4b[3]"},
		{"fmla", []any{vreg(3), vreg(9), vreg(17)}, 0x4e31cd23, "fmla v3.4s, v9.4s, v17.4s"},
		{"fdiv", []any{vreg(3), vreg(9), vreg(17)}, 0x6e31fd23, "fdiv v3.4s, v9.4s, v17.4s"},
		{"fcmge", []any{vreg(3), vreg(9), vreg(17)}, 0x6e31e523, "fcmge v3.4s, v9.4s, v17.4s"},
		{"fcmgt", []any{vreg(3), vreg(9), vreg(17)}, 0x6eb1e523, "fcmgt v3.4s, v9.4s, v17.4s"},
		{"bic", []any{vreg(3), vreg(9), vreg(17)}, 0x4e711d23, "bic v3.16b, v9.16b, v17.16b"},
		{"cmtst", []any{vreg(3), vreg(9), vreg(17)}, 0x4eb18d23, "cmtst v3.4s, v9.4s, v17.4s"},
		{"bit", []any{vreg(3), vreg(9), vreg(17)}, 0x6eb11d23, "bit v3.16b, v9.16b, v17.16b"},
		{"eor", []any{vreg(3), vreg(9), vreg(17)}, 0x6e311d23, "eor v3.16b, v9.16b, v17.16b"},
		{"mov", []any{vreg(1), vreg(31)}, 0x4ebf1fe1, "mov v1.16b, v31.16b"},
		{"fcvtl", []any{vreg(1), vreg(2)}, 0x0e217841, "fcvtl v1.4s, v2.4h"},
		{"fcvtl2", []any{vreg(1), vreg(2)}, 0x4e217841, "fcvtl2 v1.4s, v2.8h"},
		{"shll", []any{vreg(1), vreg(2)}, 0x2e613841, "shll v1.4s, v2.4h, #16"},
		{"shll2", []any{vreg(31), vreg(2)}, 0x6e61385f, "shll2 v31.4s, v2.8h, #16"},
		{"fcvtns", []any{vreg(1), vreg(2)}, 0x4e21a841, "fcvtns v1.4s, v2.4s"},
		{"xtn2.16b", []any{vreg(1), vreg(2)}, 0x4e212841, "xtn2 v1.16b, v2.8h"},
		{"addv", []any{vreg(1), vreg(2)}, 0x4eb1b841, "addv s1, v2.4s"},
		{"fmaxv", []any{vreg(1), vreg(2)}, 0x6e30f841, "fmaxv s1, v2.4s"},
		{"shl.4s", []any{vreg(1), vreg(2), 23}, 0x4f375441, "shl v1.4s, v2.4s, #23"},
		{"shl.16b", []any{vreg(1), vreg(2), 4}, 0x4f0c5441, "shl v1.16b, v2.16b, #4"},
		{"ushr.16b", []any{vreg(1), vreg(2), 4}, 0x6f0c0441, "ushr v1.16b, v2.16b, #4"},
		{"sshr.4s", []any{vreg(1), vreg(2), 4}, 0x4f3c0441, "sshr v1.4s, v2.4s, #4"},
		{"sxtl2.8h", []any{vreg(1), vreg(2)}, 0x4f08a441, "sxtl2 v1.8h, v2.16b"},
		{"uxtl.4s", []any{vreg(1), vreg(2)}, 0x2f10a441, "uxtl v1.4s, v2.4h"},
		{"ld2", []any{vreg(4), xreg(20)}, 0x4cdf8a84, "ld2 {v4.4s, v5.4s}, [x20], #32"},
		{"st2", []any{vreg(4), xreg(0)}, 0x4c9f8804, "st2 {v4.4s, v5.4s}, [x0], #32"},
		{"ldr.q", []any{vreg(7), slot{2, 1072}}, 0x3dc10c47, "ldr q7, [x2, #1072]"},
		{"ldr.q", []any{vreg(7), slot{2, 0}}, 0x3dc00047, "ldr q7, [x2]"},
		{"ldr.d", []any{vreg(7), slot{2, 56}}, 0xfd401c47, "ldr d7, [x2, #56]"},
		{"ldr.s", []any{vreg(7), slot{14, 12}}, 0xbd400dc7, "ldr s7, [x14, #12]"},
		{"str.q", []any{vreg(7), slot{21, 65520}}, 0x3dbffea7, "str q7, [x21, #65520]"},
		{"str.s", []any{vreg(7), slot{1, 8}}, 0xbd000827, "str s7, [x1, #8]"},
		{"movi.16b", []any{vreg(1), 0x80}, 0x4f04e401, "movi v1.16b, #0x80"},
		{"bic.8h", []any{vreg(1), 0x40}, 0x6f02b401, "bic v1.8h, #0x40, lsl #8"},
		{"dup", []any{vreg(1), xreg(19)}, 0x4e040e61, "dup v1.4s, w19"},
		{"dup", []any{vreg(1), lane{2, 3}}, 0x4e1c0441, "dup v1.4s, v2.s[3]"},
	} {
		if word, text := encode(c.name, c.operands...); word != c.word || text != c.text {
			t.Errorf("%s is %08x %q, wanted %08x %q", c.name, word, text, c.word, c.text)
		}
	}
}

func TestEncoderRefusesWhatCannotBe(t *testing.T) {
	for name, operands := range map[string][]any{
		"ldr.q":  {vreg(0), slot{1, 8}},       // not a multiple of the size
		"str.s":  {vreg(0), slot{1, 4 << 12}}, // too far
		"fsub":   {vreg(0), vreg(1), lane{2, 0}},
		"absent": {vreg(0), vreg(1)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of %v was encoded", name, operands)
				}
			}()
			encode(name, operands...)
		}()
	}
}
