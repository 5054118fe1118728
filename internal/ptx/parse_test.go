package ptx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/ptx/syntax"
)

const header = ".version 8.3\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"

func TestUnknownTextIsNamed(t *testing.T) {
	for _, c := range []struct {
		body, words string
		line        int
	}{
		{"frobnicate.b32 %r1, %r2;\n}", `unknown instruction "frobnicate.b32"`, 6},
		{".reg .b32 %r<3>;\nadd.funny.s32 %r1, %r2, 1;\n}", "unknown modifier .funny", 7},
		{".reg .b32 %r<3>;\n\nmov.u32 %r1, %nothing;\n}", "%nothing is not a 32-bit register", 8},
		{"bra nowhere;\n}", "nowhere, which is not a label", 6},
		{"call absent, ();\n}", "absent, which is not a function", 6},
		{".reg .b64 %rd<2>;\nld.global.u32 %rd1, %rd1;\n}", "an address in brackets", 7},
		{".reg .f32 %f<9>;\nmma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f1}, {%f2}, {%f3}, {%f4};\n}",
			"unknown form of mma", 7},
		{"ret;\n", "has no end", 6},
	} {
		_, err := Parse(header + c.body)
		var s *syntax.ParseError
		if !errors.As(err, &s) || !strings.Contains(s.Reason, c.words) || s.Line != c.line {
			t.Errorf("%q gave %v", c.body, err)
		}
	}
}

func TestRecursionIsRefused(t *testing.T) {
	_, err := Parse(".version 8.3\n.func f()\n{\ncall f, ();\nret;\n}\n.entry k()\n{\ncall f, ();\nret;\n}\n")
	if err == nil || !strings.Contains(err.Error(), "recursive") {
		t.Errorf("recursion gave %v", err)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.ptx")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), ".visible .entry") {
			f.Add(".visible .entry" + part)
		}
	}
	f.Add(header + ".reg .pred %p<2>;\n@!%p1 bra L;\nL: ret;\n}")
	f.Fuzz(func(_ *testing.T, text string) {
		m, err := Parse(text)
		if err == nil {
			m.Kernels()
		}
	})
}
