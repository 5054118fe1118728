package clientconfig

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var testConnection = Connection{Root: "http://127.0.0.1:8080", Key: "sk-\"1\"",
	Model:  Model{ID: "org/m:1", ContextTokens: 4096},
	Models: []Model{{ID: "org/m:1", ContextTokens: 4096}, {ID: "two"}}}

// merges are all functions of the package.
var merges = map[string]func(old []byte, c *Connection) ([]byte, error){
	"codex": Codex, "claude-code": Claude, "vscode": VSCode, "continue": Continue, "open-webui": OpenWebUI,
}

// parsers read what apps read.
var parsers = map[string]func(t *testing.T, text []byte) any{
	"codex":       parseTOML,
	"claude-code": parseJSON, "vscode": parseJSON,
	"continue": func(t *testing.T, text []byte) (v any) {
		if err := yaml.Unmarshal(text, &v); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		return v
	},
	"open-webui": func(t *testing.T, text []byte) any {
		v := map[string]any{}
		for line := range strings.Lines(string(text)) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if !ok && line != "\n" && !strings.HasPrefix(line, "#") {
				t.Errorf("%q is not a variable", line)
			}
			v[name] = value
		}
		return v
	},
}

func parseJSON(t *testing.T, text []byte) (v any) {
	if err := json.Unmarshal(text, &v); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	return v
}

// parseTOML has Python read it, as there is no reader of TOML among our modules.
func parseTOML(t *testing.T, text []byte) any {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to read TOML with")
	}
	cmd := exec.CommandContext(t.Context(), python, "-c",
		"import sys, json, tomllib; json.dump(tomllib.loads(sys.stdin.read()), sys.stdout)")
	cmd.Stdin = strings.NewReader(string(text))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return parseJSON(t, out)
}

// at follows names and numbers into a document.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// TestMergingKeepsWhatIsThere merges into files as people have them: they can
// be read after it, say what they said before and what we add, and merging once
// more changes nothing.
func TestMergingKeepsWhatIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		old  []string
		want map[string][]any // a value and where it is found
	}{
		"codex": {
			old: []string{"",
				"approval_policy = \"never\"\nmodel = \"old\"\n\n[mcp_servers.x]\ncommand = \"y\"\nnote = " +
					"\"\"\"\n[model_providers.parley]\n\"\"\"\n",
				"[model_providers.parley]\nname=\"Old\"\nhttp_headers = { x = \"1\" }\n[other]\nname = \"z\"\n"},
			want: map[string][]any{"org/m:1": {"model"}, "parley": {"model_provider"},
				"http://127.0.0.1:8080/v1": {"model_providers", "parley", "base_url"},
				"responses":                {"model_providers", "parley", "wire_api"},
				"PARLEY_API_KEY":           {"model_providers", "parley", "env_key"}},
		},
		"claude-code": {
			old: []string{"", "{}",
				`{"permissions":{"allow":["Bash"]},"env":{"OTHER":"1","ANTHROPIC_MODEL":"x"},"model":"opus <b>"}`},
			want: map[string][]any{"http://127.0.0.1:8080": {"env", "ANTHROPIC_BASE_URL"},
				"sk-\"1\"": {"env", "ANTHROPIC_AUTH_TOKEN"}, "org/m:1": {"env", "ANTHROPIC_DEFAULT_HAIKU_MODEL"}},
		},
		"continue": {
			old: []string{"", "name: x\nversion: 1\nschema: v1\n",
				"name: x\nmodels:\n- name: a\n  provider: ollama\n  model: b\n",
				"models:\n    - name: a\n      provider: b\nrules:\n    - one\n",
				"models:\n  - name: Parley old\n    provider: openai\n  # mine\n  - name: a   # ollama\n    " +
					"provider:  b\n\n# rules\nrules:\n  - one\n"},
			want: map[string][]any{},
		},
		"open-webui": {
			old:  []string{"", "# mine\nPORT=3000\nOPENAI_API_KEY=x\n"},
			want: map[string][]any{"http://127.0.0.1:8080/v1": {"OPENAI_API_BASE_URL"}, "sk-\"1\"": {"OPENAI_API_KEY"}},
		},
		"vscode": {
			old:  []string{"", "[]", `[{"name":"Mine","vendor":"customendpoint","models":[]}]`},
			want: map[string][]any{},
		},
	} {
		for _, old := range c.old {
			t.Run(name, func(t *testing.T) { checkMerge(t, name, old, c.want) })
		}
	}
}

func checkMerge(t *testing.T, name, old string, want map[string][]any) {
	merged, err := merges[name]([]byte(old), &testConnection)
	if err != nil {
		t.Fatal(err)
	}
	doc := parsers[name](t, merged)
	for value, path := range want {
		if got := at(doc, path...); got != value {
			t.Errorf("%v is %v, want %q\n%s", path, got, value, merged)
		}
	}
	again, err := merges[name](merged, &testConnection)
	if err != nil || string(again) != string(merged) {
		t.Errorf("a second time gives, %v,\n%s\nafter\n%s", err, again, merged)
	}
	for _, kept := range []string{"approval_policy", "mcp_servers", "http_headers", "[other]", "permissions", "OTHER",
		"opus <b>", "PORT=3000", "Mine", "ollama", "- one", "  # mine\n  - name: a   # ollama\n    provider:  b\n",
		"\n\n# rules\n"} {
		if strings.Contains(old, kept) && !strings.Contains(string(merged), kept) {
			t.Errorf("%q is gone:\n%s", kept, merged)
		}
	}
}

func TestMergingListsEveryModel(t *testing.T) {
	for name, path := range map[string][]any{"continue": {"models", 1, "model"}, "vscode": {0, "models", 1, "id"}} {
		text, err := merges[name](nil, &testConnection)
		if err != nil {
			t.Fatal(err)
		}
		if got := at(parsers[name](t, text), path...); got != "two" {
			t.Errorf("%s: the second model is %v\n%s", name, got, text)
		}
	}
}

func TestMergingRefusesWhatItCannotEdit(t *testing.T) {
	for name, olds := range map[string][]string{
		"codex": {"model = \"\"\"\nx\"\"\"\n", "model_providers.parley.name = \"x\"\n",
			"[model_providers.parley.http_headers]\nx = \"1\"\n"},
		"claude-code": {"// c\n{}", "[]", `{"env": 3}`},
		"continue":    {"models: 3\n", "- x\n", "models: [{name: a}]\n", "a: b\n---\nc: d\n"},
		"vscode":      {"{}", "[] // c"},
	} {
		for _, old := range olds {
			if merged, err := merges[name]([]byte(old), &testConnection); err == nil {
				t.Errorf("%s: %q became\n%s", name, old, merged)
			}
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("model = 1\n[a]\nb = '''\n'''\n")
	f.Add("models:\n  - name: a\n")
	f.Add(`{"env":{}}`)
	f.Fuzz(func(t *testing.T, old string) {
		for name := range merges {
			merged, err := merges[name]([]byte(old), &testConnection)
			if err != nil {
				continue
			}
			if again, err := merges[name](merged, &testConnection); err == nil && string(again) != string(merged) {
				t.Errorf("%s: %q gives %q, then %q", name, old, merged, again)
			}
		}
	})
}

// TestAgentsAreToldTheirRoom gives an agent the size of the model's context.
func TestAgentsAreToldTheirRoom(t *testing.T) {
	m := Model{ID: "m", ContextTokens: 40960}
	text, err := Claude(nil, &Connection{Root: "http://x", Model: m, Models: []Model{m}})
	if err != nil || !strings.Contains(string(text), `"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "10240"`) ||
		!strings.Contains(string(text), `"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "40960"`) {
		t.Errorf("%s, %v", text, err)
	}
}
