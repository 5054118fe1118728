package main

import (
	"os"
	"path/filepath"
	"reflect"
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
	values := addFlags(flags)
	if err := flags.Parse([]string{"--kv-tokens", "3"}); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"PARLEY_KV_TOKENS": "2", "PARLEY_CONTEXT": "2", "PARLEY_SEQS": ""}
	s, err := gather(values, func(k string) (string, bool) { v, ok := environ[k]; return v, ok }, file)
	if err != nil {
		t.Fatal(err)
	}
	if s.kvTokens != 3 || s.context != 2 || s.addr != "127.0.0.1:1" || s.drain != time.Second || s.logFormat != "text" {
		t.Errorf("%+v", s)
	}
	if want := []modelPath{{"a", "x.gguf"}, {"b", "y.gguf"}}; !reflect.DeepEqual(s.models, want) {
		t.Errorf("models %v, want %v", s.models, want)
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
	values := addFlags(flags)
	_, err := gather(values, func(string) (string, bool) { return "", false }, file)
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
	for text, want := range map[string]modelPath{
		"x.gguf": {"", "x.gguf"}, "a=x.gguf": {"a", "x.gguf"}, "a=b=c": {"a", "b=c"}, odd: {"", odd},
	} {
		s := defaultSettings()
		if err := setModel(s, text); err != nil || s.models[0] != want {
			t.Errorf("%s: %v, %v; want %v", text, s.models, err, want)
		}
	}
	for _, text := range []string{"", "a=", "=x"} {
		if err := setModel(defaultSettings(), text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestTiers(t *testing.T) {
	s := defaultSettings()
	for _, text := range []string{"free=summarise:2048", "pro=refuse"} {
		if err := setTier(s, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if want := (models.TierContexts{{Policy: "summarise", Tokens: 2048}, {Policy: "refuse"},
		{Policy: "drop"}}); s.tiers != want {
		t.Errorf("got %v, want %v", s.tiers, want)
	}
	for _, text := range []string{"", "free", "free=", "vip=drop", "free=drop:", "free=drop:-1", "free=drop:5",
		"free=forget:4096"} {
		if setTier(defaultSettings(), text) == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add("addr: 127.0.0.1:0\nmodel: [a, b=c]\n")
	f.Add("a: &x [*x]\n")
	f.Add("? {}\n: - -\n")
	f.Fuzz(func(t *testing.T, text string) {
		texts, err := parseFile("f.yaml", []byte(text))
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "f.yaml") || texts != nil && len(texts) > len(serveSettings) {
			t.Errorf("%v, %v", texts, err)
		}
	})
}

func TestOverloadSettings(t *testing.T) {
	apply := func(key, text string) (*settings, error) {
		s := defaultSettings()
		for i := range serveSettings {
			if serveSettings[i].key == key {
				return s, serveSettings[i].apply(s, text)
			}
		}
		t.Fatalf("no setting %s", key)
		return nil, nil
	}
	for _, c := range []struct {
		key, text string
		holds     func(*settings) bool
	}{
		{"queue-wait", "30s", func(s *settings) bool {
			return s.admission.Queue.Tiers[0].WaitMax == 30*time.Second &&
				s.admission.Queue.Tiers[2].WaitMax == 30*time.Second
		}},
		{"queue-wait", "pro=5s", func(s *settings) bool {
			return s.admission.Queue.Tiers[0].WaitMax == 0 && s.admission.Queue.Tiers[1].WaitMax == 5*time.Second
		}},
		{"tier-weight", "enterprise=32", func(s *settings) bool { return s.admission.Queue.Tiers[2].Weight == 32 }},
		{"shed-start", "off", func(s *settings) bool { return s.admission.Queue.Shed.Off }},
		{"shed-start", "4s", func(s *settings) bool { return s.admission.Queue.Shed.Start == 4*time.Second }},
		{"admission", "off", func(s *settings) bool { return s.admission.Off }},
		{"share", "any", func(s *settings) bool { return s.share.AnyTemperature && !s.share.Off }},
		{"share-cache", "0", func(s *settings) bool { return s.share.CacheBytes < 0 }},
		{"share-cache", "1MiB", func(s *settings) bool { return s.share.CacheBytes == 1<<20 }},
		{"cache-scope", "key", func(s *settings) bool { return s.cacheScope == job.ScopeKey }},
		{"share-public", "polly", func(s *settings) bool { return s.share.PublicModels[0] == "polly" }},
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
