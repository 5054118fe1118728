package serve

import (
	"path/filepath"
	"strings"
	"testing"

	"parley/cli/library"
	"parley/cli/settings"
	"parley/model/weights"
	"parley/worker/host"
)

// TestDraftSetting gives served models the draft that the setting names.
func TestDraftSetting(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "none.gguf")
	for _, c := range []struct{ draft, serves, want string }{
		{"", "polly", "polly-mini"}, {"auto", "polly", "polly-mini"}, {"auto", "polly-mini", ""},
		{"off", "polly", ""}, {"polly-mini", "polly", "polly-mini"}, {"polly-mini", "polly-mini", ""},
		{"polly", "polly-mini", "polly"}, {elsewhere, "polly", "error: draft model: "},
	} {
		s := settings.Default()
		if c.draft != "" {
			s.Draft = c.draft
		}
		ck, err := library.Open(c.serves)
		if err != nil {
			t.Fatal(err)
		}
		candidate := host.Candidate{Checkpoint: ck}
		err = addDraft(s, &candidate, c.serves)
		if says, fails := strings.CutPrefix(c.want, "error: "); fails {
			if err == nil || !strings.HasPrefix(err.Error(), says) {
				t.Errorf("draft %s for %s: %v", c.draft, c.serves, err)
			}
			continue
		}
		if err != nil || candidate.Config.DraftName != c.want || (candidate.Config.Draft != nil) != (c.want != "") {
			t.Errorf("draft %s for %s: %q, %v; want %q", c.draft, c.serves, candidate.Config.DraftName, err, c.want)
		}
	}
}

// TestDraftOfAFile does not pair a file with a built-in model that has its name.
func TestDraftOfAFile(t *testing.T) {
	candidate := host.Candidate{Checkpoint: &weights.Checkpoint{Path: "polly"}}
	if err := addDraft(settings.Default(), &candidate, "polly"); err != nil || candidate.Config.Draft != nil {
		t.Errorf("%v, %+v", err, candidate.Config.Draft)
	}
}

func TestMemoryPlanShowsTheDraft(t *testing.T) {
	var out strings.Builder
	printPlans(&out, []*host.Plan{{Name: "polly", Draft: &host.Plan{Name: "polly-mini", WeightBytes: 6 << 20}}}, 1<<30)
	if text := out.String(); !strings.Contains(text, "its draft polly-mini") || !strings.Contains(text, "6.0 MiB") {
		t.Error(text)
	}
}
