package llamacpp

import (
	"math"
	"strings"
	"testing"
)

const llamaOutput = `[
  {"build_commit": "b21e4de", "build_number": 8123, "n_prompt": 512, "n_gen": 0, "avg_ns": 500000000, "samples_ns": [ 500000000 ], "samples_ts": [ 1024.0 ]},
  {"build_commit": "b21e4de", "build_number": 8123, "n_prompt": 0, "n_gen": 128, "avg_ns": 2000000000, "samples_ns": [ 2000000000 ], "samples_ts": [ 64.0 ]}
]`

func TestParseLlama(t *testing.T) {
	s, err := parseLlama([]byte(llamaOutput))
	if err != nil || s.Prefill != 1024 || s.Decode != 64 {
		t.Errorf("%+v %v", s, err)
	}
	for _, bad := range []string{"", "error: no model", "{}", `[{"n_prompt":512,"samples_ns":[]}]`,
		`[{"n_prompt":512,"samples_ns":[0]}]`, `[{"n_prompt":0,"samples_ns":[5]}]`,
		`[{"n_prompt":-5,"samples_ns":[5]}]`} {
		if s, err := parseLlama([]byte(bad)); err == nil {
			t.Errorf("%q gave %+v", bad, s)
		}
	}
	if err := checkMeasured(Speed{Prefill: 5}, Length{Prompt: 512, Generate: 128}); err == nil {
		t.Error("half a measurement was taken")
	}
}

func FuzzParseLlama(f *testing.F) {
	f.Add([]byte(llamaOutput))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseLlama(data)
		if err == nil && (s.Prefill < 0 || s.Decode < 0 || math.IsNaN(s.Prefill+s.Decode) ||
			math.IsInf(s.Prefill+s.Decode, 0)) {
			t.Errorf("%q gave %+v", data, s)
		}
	})
}

func TestTailKeepsTheEnd(t *testing.T) {
	var said tail
	for range 1000 {
		if n, err := said.Write([]byte("earlier ")); n != 8 || err != nil {
			t.Fatal(n, err)
		}
	}
	said.Write([]byte("the end"))
	if text := said.text(); !strings.HasSuffix(text, "earlier the end") || len(text) > tailBytes+2 {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

func TestParseFootprint(t *testing.T) {
	got, err := parseFootprint(
		"Name:\tparley\nVmRSS:\t    1234 kB\nRssAnon:\t    1000 kB\nRssFile:\t     200 kB\nRssShmem:\t      34 " +
			"kB\nThreads:\t9\n")
	if err != nil || got.own != 1034<<10 || got.files != 200<<10 || got.all() != 1234<<10 {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []string{"", "VmRSS: 5 kB", "RssAnon: many kB", "RssAnon: -5 kB",
		"RssFile: 99999999999999999999 kB"} {
		if got, err := parseFootprint(bad); err == nil {
			t.Errorf("%q gave %+v", bad, got)
		}
	}
}
