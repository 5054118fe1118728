package load

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/testkit"
	"parley/sim/traffic"
)

const azureText = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"

func TestOpenTrace(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(azureText))
	_ = w.Close()
	for _, path := range []string{write("a.csv", []byte(azureText)), write("b.csv.gz", packed.Bytes())} {
		rows, err := OpenTrace(path, "", 0)
		if err != nil || len(rows) != 1 || rows[0].InputTokens != 374 {
			t.Errorf("%s: %+v, %v", path, rows, err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "nowhere"):                         "no such file",
		write("torn.csv.gz", packed.Bytes()[:20]):             "torn.csv.gz",
		write("long.jsonl", bytes.Repeat([]byte("x"), 5<<20)): "bytes in one line",
		write("c.jsonl", []byte(azureText)):                   "line 1",
		write("empty.jsonl", nil):                             "no rows",
	} {
		if _, err := OpenTrace(path, "", 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestOpenSharedTrace(t *testing.T) {
	rows, err := OpenTrace(testkit.SharedData(t, "traces", "conversation_trace.jsonl.gz"), traffic.Mooncake, 1000)
	if err != nil || len(rows) != 1000 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}
