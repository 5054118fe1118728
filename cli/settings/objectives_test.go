package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley"
)

const objectivesFile = `
slo_ttft: 1s
slo_ttft_share: 0.99
objectives:
  - {name: typing, purpose: complete, ttft: 200ms}
  - {name: paid, tiers: [pro, enterprise], models: [polly], ttft: 700ms, ttft_share: 0.999, tpot: 40ms, tpot_share: 0.95}
`

// TestObjectivesOfTheFile reads objectives and looks what the gateway is told.
func TestObjectivesOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path, []byte(objectivesFile), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Gather(nil, func(string) (string, bool) { return "", false }, path)
	if err != nil {
		t.Fatal(err)
	}
	front := s.FrontConfig()
	if front.SLO.TTFT != time.Second || front.TTFTShare != 0.99 || front.TPOTShare != 0 || len(front.Objectives) != 2 {
		t.Fatalf("%+v %g %g %+v", front.SLO, front.TTFTShare, front.TPOTShare, front.Objectives)
	}
	paid := front.Objectives[1]
	if front.Objectives[0].Purpose != parley.ForComplete || len(paid.Classes) != 2 ||
		paid.TTFT != 700*time.Millisecond ||
		paid.TPOT != 40*time.Millisecond || paid.TTFTShare != 0.999 || paid.TPOTShare != 0.95 {
		t.Errorf("%+v", front.Objectives)
	}
}

func TestObjectivesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`[{ttft: 1s}]`:                      "its own name",
		`[{name: default, ttft: 1s}]`:       "choose another name",
		`[{name: a, tiers: [gold]}]`:        "use free, pro or enterprise",
		`[{name: a, purpose: fun}]`:         "use chat or complete",
		`[{name: a, ttft_share: 1}]`:        "the share 1",
		`[{name: a, ttft: soon}]`:           "",
		`[{name: a, ttfb: 1s}]`:             "ttfb",
		`[{name: a}, {name: a, tpot: 1ms}]`: "its own name",
	} {
		if err := setObjectives(&Settings{}, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
