package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cli/serve"
	"parley/internal/testkit"
	"parley/model/store"
)

// call asks the server and returns the status and the body.
func (s *server) call(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// offered lists the models of a server.
func (s *server) offered(t *testing.T) (names []string) {
	t.Helper()
	var list struct{ Data []struct{ ID string } }
	_, text := s.call(t, "GET", "/v1/models", "")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names
}

// await asks until something is true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not in half a minute: %s", what)
		}
	}
}

// folderState returns the state of a model in the interface of the folder.
func (s *server) folderState(t *testing.T, name string) (m serve.FolderModel) {
	t.Helper()
	var list serve.FolderList
	status, text := s.call(t, "GET", "/admin/api/models", "")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	i := slices.IndexFunc(list.Data, func(m serve.FolderModel) bool { return m.Name == name })
	if i >= 0 {
		m = list.Data[i]
	}
	return m
}

func chatWith(model string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello"}],"max_tokens":8}`, model)
}

// wantShown wants ps to show a model in a state.
func (s *server) wantShown(t *testing.T, model, state string) {
	t.Helper()
	text := told(t, "ps", "--url", s.url)
	if !regexp.MustCompile(regexp.QuoteMeta(model) + " +" + state + " ").MatchString(text) {
		t.Errorf("of %s, which is %s, ps says\n%s", model, state, text)
	}
}

// A running server pulls, offers, loads, unloads and removes models of the folder, by its
// interface and by what other processes do to the folder.
func TestServeFollowsTheModelFolder(t *testing.T) {
	hub := testkit.NewHub(t)
	mini, err := os.ReadFile(filepath.Join(testkit.Root(), "internal", "builtin", "polly-mini.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	hub.Add("org/Tiny-GGUF", "Tiny-Q8_0.gguf", mini)
	t.Setenv("HF_ENDPOINT", hub.Server.URL)
	data := t.TempDir()
	s := startServerIn(t, data)
	if got := s.offered(t); !slices.Equal(got, []string{"polly", "polly-mini"}) {
		t.Fatalf("an empty folder offers %q", got)
	}
	if !s.says("Polly is a tiny demo model. Add a real one: parley pull qwen3:0.6b") {
		t.Error("the banner does not say how to get a real model")
	}

	if status, text := s.call(t, "POST", "/admin/api/models", `{"source":"hf:org/Tiny-GGUF:Q8_0"}`); status != 202 {
		t.Fatalf("%d %s", status, text)
	}
	await(t, "the pulled model is offered first", func() bool { return s.offered(t)[0] == "tiny:q8_0" })
	if m := s.folderState(t, "tiny:q8_0"); m.State != "unloaded" || !m.Default || m.License != "apache-2.0" {
		t.Errorf("%+v", m)
	}
	if status, text := s.call(t, "POST", "/v1/chat/completions", chatWith("tiny:q8_0")); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if m := s.folderState(t, "tiny:q8_0"); m.State != "loaded" || m.TitleState.Bytes == 0 {
		t.Errorf("%+v", m)
	}
	s.wantShown(t, "tiny:q8_0", "idle")
	if status, text := s.call(t, "POST", "/admin/api/models/tiny:q8_0/unload", "{}"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if m := s.folderState(t, "tiny:q8_0"); m.State != "unloaded" {
		t.Errorf("%+v", m)
	}
	s.wantShown(t, "tiny:q8_0", "unloaded")

	// Another process brings a model, and removes one.
	folder := &store.Store{Dir: filepath.Join(data, "models")}
	source := store.Source{Path: testkit.Golden("tiny-qwen3")}
	if _, err := (&store.Puller{Store: folder}).Pull(t.Context(), source, "second"); err != nil {
		t.Fatal(err)
	}
	await(t, "the second model is offered", func() bool { return slices.Contains(s.offered(t), "second") })
	if status, text := s.call(t, "POST", "/v1/chat/completions", chatWith("second")); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if err := folder.Remove("tiny:q8_0"); err != nil {
		t.Fatal(err)
	}
	await(t, "the removed model is gone", func() bool { return !slices.Contains(s.offered(t), "tiny:q8_0") })
	if status, text := s.call(t, "POST", "/v1/chat/completions", chatWith("tiny:q8_0")); status != 404 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.call(t, "DELETE", "/admin/api/models/second", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if got := s.offered(t); !slices.Equal(got, []string{"polly", "polly-mini"}) {
		t.Errorf("left are %q", got)
	}

	s.refusesWrongModels(t, folder)
	if status, _ := s.call(t, "POST", "/v1/chat/completions", chatWith("polly")); status != 200 {
		t.Errorf("polly: %d", status)
	}
}

// refusesWrongModels wants what cannot be served to be shown with its reason, and what is
// wrong to be refused.
func (s *server) refusesWrongModels(t *testing.T, folder *store.Store) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder.Dir, "broken.gguf"), []byte("no model"), 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, "the broken model is shown", func() bool { return s.folderState(t, "broken").Problem != "" })
	for body, want := range map[string]int{
		`{"source":"/etc/passwd"}`:                               400,
		`{"source":"nonsense"}`:                                  400,
		`{"source":"hf:org/Tiny-GGUF:Q8_0","name":"../../evil"}`: 400,
		`nonsense`: 400,
	} {
		if status, text := s.call(t, "POST", "/admin/api/models", body); status != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _ := s.call(t, "DELETE", "/admin/api/models/nothing", ""); status != 404 {
		t.Errorf("removing nothing: %d", status)
	}
}

// says reports whether the server has printed a text so far.
func (s *server) says(text string) bool {
	var all bytes.Buffer
	late := time.After(10 * time.Second)
	for !strings.Contains(all.String(), text) {
		select {
		case line := <-s.lines:
			all.WriteString(line + "\n")
		case <-late:
			return false
		}
	}
	return true
}

// TestOllamaChangesTheFolder pulls, copies, uses and deletes a model as a client of Ollama's
// API does.
func TestOllamaChangesTheFolder(t *testing.T) {
	hub := testkit.NewHub(t)
	mini, err := os.ReadFile(filepath.Join(testkit.Root(), "internal", "builtin", "polly-mini.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	hub.Add("org/Tiny-GGUF", "Tiny-Q8_0.gguf", mini)
	t.Setenv("HF_ENDPOINT", hub.Server.URL)
	s := startServerIn(t, t.TempDir())
	status, text := s.call(t, "POST", "/api/pull", `{"model":"hf:org/Tiny-GGUF:Q8_0"}`)
	if lines := strings.Split(strings.TrimSpace(text), "\n"); status != 200 ||
		lines[0] != `{"status":"pulling manifest"}` ||
		!slices.Contains(lines, `{"status":"stored as tiny:q8_0"}`) || lines[len(lines)-1] != `{"status":"success"}` {
		t.Fatalf("%d %s", status, text)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/api/pull", `{"model":"hf:org/Tiny-GGUF:Q8_0","stream":false}`, 200, `{"status":"success"}`},
		{"POST", "/api/pull", `{"model":"nowhere-to-be-found"}`, 400, `{"error":"the catalogue has no model`},
		{"POST", "/api/pull", `{"model":"hf:org/None:Q8_0","stream":false}`, 500, `{"error":"`},
		{"POST", "/api/pull", `{"model":"/etc/passwd"}`, 400, `{"error":"there is no file /etc/passwd`},
		{"POST", "/api/copy", `{"source":"tiny:q8_0","destination":"second"}`, 200, ""},
		{"POST", "/api/copy", `{"source":"tiny:q8_0","destination":"second"}`, 400, `{"error":"there is a model called second`},
		{"POST", "/api/copy", `{"source":"none","destination":"third"}`, 404, `{"error":"no such model`},
		{"POST", "/api/show", `{"model":"second"}`, 200, `"quantization_level":"Q8_0"`},
		{"POST", "/api/generate", `{"model":"second"}`, 200, `"done_reason":"load"`},
		{"GET", "/api/ps", "", 200, `"name":"second:latest"`},
		{"POST", "/api/generate", `{"model":"second","keep_alive":0}`, 200, `"done_reason":"unload"`},
		{"POST", "/api/chat", `{"model":"second:latest","messages":[{"role":"user","content":"Hello"}],"stream":false,` +
			`"options":{"num_predict":4}}`, 200, `"eval_count":4`},
		{"DELETE", "/api/delete", `{"model":"second"}`, 200, ""},
		{"DELETE", "/api/delete", `{"model":"second"}`, 404, `{"error":"no such model`},
	} {
		if status, text := s.call(t, c.method, c.path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, status, text)
		}
	}
	if _, text := s.call(t, "GET", "/api/tags", ""); strings.Contains(text, "second") ||
		!strings.Contains(text, "tiny:q8_0") {
		t.Errorf("left are %s", text)
	}
}
