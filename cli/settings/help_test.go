package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEverySettingIsInAGroup wants help to show every flag once, under a heading, and no heading to name what is not.
func TestEverySettingIsInAGroup(t *testing.T) {
	cmd := &cobra.Command{Use: "serve", Example: "  parley serve", Run: func(*cobra.Command, []string) {}}
	cmd.Flags().String("config", "", "read settings from the YAML `FILE`")
	AddFlags(cmd.Flags())
	GroupFlags(cmd)
	shown := "\n" + cmd.UsageString()
	for _, s := range List {
		if n := strings.Count(shown, "\n      --"+s.Key+" ") + strings.Count(shown, "\n      --"+s.Key+"["); n != 1 {
			t.Errorf("help shows --%s %d times, want once", s.Key, n)
		}
	}
	for line := range strings.SplitSeq(shown, "\n") {
		if len(line) > helpColumns+20 {
			t.Errorf("a line of help has %d columns: %q", len(line), line)
		}
	}
	known := []string{"config", "help"}
	for _, s := range slices.Concat(List, workerOnly) {
		known = append(known, s.Key)
	}
	for _, g := range groups {
		for _, name := range g.names {
			if !slices.ContainsFunc(known, func(key string) bool {
				return key == name || strings.HasSuffix(name, "-") && strings.HasPrefix(key, name)
			}) {
				t.Errorf("the group %q names %q, which no setting has", g.title, name)
			}
		}
	}
}

// TestSampleFile wants the file that is printed to be one that a server reads, with every key in it.
func TestSampleFile(t *testing.T) {
	sample := SampleFile()
	for _, s := range List {
		if !strings.Contains(sample, "\n#"+s.fileKey()+": ") {
			t.Errorf("the sample lacks the key %s", s.fileKey())
		}
	}
	path := filepath.Join(t.TempDir(), "parley.yaml")
	text := strings.Replace(sample, "\n#context: TOKENS\n", "\ncontext: 4096\n", 1)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Gather(Flags{}, func(string) (string, bool) { return "", false }, path)
	if err != nil {
		t.Fatalf("the sample with one key set cannot be read: %v", err)
	}
	if got.Context != 4096 {
		t.Errorf("the context is %d, want 4096 as the file says", got.Context)
	}
}
