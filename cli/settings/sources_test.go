package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/job"
	"parley/gateway/models"

	"github.com/spf13/pflag"
)

func TestFlagBeatsVariableBeatsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.yaml")
	text := "# a comment\naddr: 127.0.0.1:1\nkv_tokens: 1\ncontext: 1\ndrain: 1s\nmodel:\n  a: x.gguf\n  b: y.gguf\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	values := AddFlags(flags)
	if err := flags.Parse([]string{"--kv-tokens", "3"}); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"PARLEY_KV_TOKENS": "2", "PARLEY_CONTEXT": "2", "PARLEY_SEQS": ""}
	s, err := Gather(values, func(k string) (string, bool) { v, ok := environ[k]; return v, ok }, file)
	if err != nil {
		t.Fatal(err)
	}
	if s.KVTokens != 3 || s.Context != 2 || s.Addr != "127.0.0.1:1" || s.Drain != time.Second || s.LogFormat != "text" {
		t.Errorf("%+v", s)
	}
	if want := []Model{{"a", "x.gguf"}, {"b", "y.gguf"}}; !reflect.DeepEqual(s.Models, want) {
		t.Errorf("models %v, want %v", s.Models, want)
	}
}

// TestSimilarQuestionsShareNoAnswer keeps the setting out that answered a
// question with the answer to a similar one: it gave wrong answers.
func TestSimilarQuestionsShareNoAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(file, []byte("near_duplicates: 0.98\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	values := AddFlags(flags)
	_, err := Gather(values, func(string) (string, bool) { return "", false }, file)
	if err == nil || !strings.Contains(err.Error(), `unknown key "near_duplicates"`) {
		t.Errorf("a file with near_duplicates: %v", err)
	}
	if flags.Lookup("near-duplicates") != nil {
		t.Error("there is a flag --near-duplicates")
	}
}

func TestModelPaths(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "q=8.gguf")
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]Model{
		"x.gguf": {"", "x.gguf"}, "a=x.gguf": {"a", "x.gguf"}, "a=b=c": {"a", "b=c"}, odd: {"", odd},
	} {
		s := Default()
		if err := setModel(s, text); err != nil || s.Models[0] != want {
			t.Errorf("%s: %v, %v; want %v", text, s.Models, err, want)
		}
	}
	for _, text := range []string{"", "a=", "=x"} {
		if err := setModel(Default(), text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestTiers(t *testing.T) {
	s := Default()
	for _, text := range []string{"free=summarise:2048", "pro=refuse"} {
		if err := setTier(s, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if want := (models.TierContexts{{Policy: "summarise", Tokens: 2048}, {Policy: "refuse"},
		{Policy: "drop"}}); s.Tiers != want {
		t.Errorf("got %v, want %v", s.Tiers, want)
	}
	for _, text := range []string{"", "free", "free=", "vip=drop", "free=drop:", "free=drop:-1", "free=drop:5",
		"free=forget:4096"} {
		if setTier(Default(), text) == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add("addr: 127.0.0.1:0\nmodel: [a, b=c]\n")
	f.Add("a: &x [*x]\n")
	f.Add("? {}\n: - -\n")
	f.Fuzz(func(t *testing.T, text string) {
		texts, err := ParseFile("f.yaml", []byte(text))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "f.yaml") || texts != nil && len(texts) > len(List) {
			t.Errorf("%v, %v", texts, err)
		}
	})
}

func TestOverloadSettings(t *testing.T) {
	apply := func(key, text string) (*Settings, error) {
		s := Default()
		for i := range List {
			if List[i].Key == key {
				return s, List[i].apply(s, text)
			}
		}
		t.Fatalf("no setting %s", key)
		return nil, nil
	}
	for _, c := range []struct {
		key, text string
		holds     func(*Settings) bool
	}{
		{"queue-wait", "30s", func(s *Settings) bool {
			return s.Admission.Queue.Tiers[0].WaitMax == 30*time.Second &&
				s.Admission.Queue.Tiers[2].WaitMax == 30*time.Second
		}},
		{"queue-wait", "pro=5s", func(s *Settings) bool {
			return s.Admission.Queue.Tiers[0].WaitMax == 0 && s.Admission.Queue.Tiers[1].WaitMax == 5*time.Second
		}},
		{"queue-wait", "people=5s", func(s *Settings) bool {
			return s.Admission.Queue.Tiers[0].WaitMax == 0 && s.Admission.Queue.PersonWaitMax == 5*time.Second
		}},
		{"tier-weight", "enterprise=32", func(s *Settings) bool { return s.Admission.Queue.Tiers[2].Weight == 32 }},
		{"shed-start", "off", func(s *Settings) bool { return s.Admission.Queue.Shed.Off }},
		{"shed-start", "4s", func(s *Settings) bool { return s.Admission.Queue.Shed.Start == 4*time.Second }},
		{"admission", "off", func(s *Settings) bool { return s.Admission.Off }},
		{"share", "any", func(s *Settings) bool { return s.Share.AnyTemperature && !s.Share.Off }},
		{"share-cache", "0", func(s *Settings) bool { return s.Share.CacheBytes < 0 }},
		{"share-cache", "1MiB", func(s *Settings) bool { return s.Share.CacheBytes == 1<<20 }},
		{"cache-scope", "key", func(s *Settings) bool { return s.CacheScope == job.ScopeKey }},
		{"share-public", "polly", func(s *Settings) bool { return s.Share.PublicModels[0] == "polly" }},
	} {
		if s, err := apply(c.key, c.text); err != nil || !c.holds(s) {
			t.Errorf("%s %s: %v, %+v", c.key, c.text, err, s)
		}
	}
	for _, c := range [][2]string{{"queue-wait", "gold=5s"}, {"queue-wait", "0s"}, {"queue-wait", "soon"},
		{"tier-weight", "3"}, {"tier-weight", "pro=0"},
		{"tier-weight", "pro=NaN"}, {"shed-start", "never"}, {"share", "yes"}, {"breaker", "perhaps"},
		{"share-public", ""}, {"share-cache", "much"}, {"cache-scope", "planet"}} {
		if _, err := apply(c[0], c[1]); err == nil {
			t.Errorf("%s %q was accepted", c[0], c[1])
		}
	}
}

// TestEmptyTexts refuses settings that are given without a value.
func TestEmptyTexts(t *testing.T) {
	for _, key := range []string{"data", "draft"} {
		i := slices.IndexFunc(List, func(s Setting) bool { return s.Key == key })
		if err := List[i].apply(Default(), ""); err == nil {
			t.Errorf("an empty %s was taken", key)
		}
	}
}
