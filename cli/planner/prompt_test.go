package planner

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"parley"
)

// TestComparePrompts finds the message that keeps two prompts from sharing their cache.
func TestComparePrompts(t *testing.T) {
	say := func(system string, first parley.Token) *rendering {
		r := &rendering{
			body: []byte(`{"messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"Hi"}]}`),
			text: "<s>" + system + "<u>Hi",
		}
		for i := range parley.Token(40) {
			r.tokens = append(r.tokens, i)
		}
		r.tokens[20] = first
		return r
	}
	c := compare(say("Be kind. It is 10:01.", 7), say("Be kind. It is 10:02.", 8))
	if c.Alike != 20 || c.Cached != 16 || c.Tokens != 40 || c.Where != "messages[0] (system), byte 19" ||
		c.Was != "1.<u>Hi" || c.Is != "2.<u>Hi" {
		t.Errorf("compared: %+v", c)
	}
	if c := compare(say("Be kind.", 7), say("Be kind.", 7)); c.Alike != 40 || c.Cached != 32 || c.Where != "" {
		t.Errorf("alike: %+v", c)
	}
}

// TestPromptCheck fails where less stays cached than is wanted, and where there is nothing to compare.
func TestPromptCheck(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apply-template":
			_, _ = w.Write([]byte(`{"prompt":"<s>Hi"}`))
		case "/tokenize":
			_, _ = w.Write([]byte(`{"tokens":[1,2,3]}`))
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	for _, name := range []string{"a.json", "b.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"model":"m","messages":[]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		good bool
	}{
		{[]string{"check", dir, "--url", server.URL}, true},
		{[]string{"check", dir, "--url", server.URL, "--least", "0.5"}, false}, // three tokens fill no block
		{[]string{"check", filepath.Join(dir, "a.json"), "--url", server.URL}, false},
	} {
		cmd := NewPrompt()
		cmd.SetArgs(c.args)
		cmd.SetOut(t.Output())
		cmd.SetErr(t.Output())
		if err := cmd.Execute(); (err == nil) != c.good {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
