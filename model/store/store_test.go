package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/internal/testkit"
	"parley/model/hub"
	"parley/model/weights"
)

const repo = "org/Tiny-GGUF"

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{testkit.Root()}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func newPuller(t *testing.T) (*testkit.Hub, *Puller) {
	h := testkit.NewHub(t)
	h.Add(repo, "Tiny-Q8_0.gguf", read(t, "internal", "builtin", "polly-mini.gguf"))
	h.Add(repo, "Tiny-Q2_K.gguf", make([]byte, 10_000))
	h.Add(repo, "README.md", []byte("hello"))
	p := &Puller{
		Store:  &Store{Dir: filepath.Join(t.TempDir(), "models")},
		Client: &hub.Client{Endpoint: h.Server.URL, RangeBytes: 1 << 20},
		Check: func(path string) error {
			ck, err := weights.Open(path)
			if err != nil {
				return err
			}
			return ck.Close()
		},
	}
	return h, p
}

func pull(t *testing.T, p *Puller, text, name string) (Model, error) {
	t.Helper()
	s, err := ParseSource(text, func(path string) bool { _, err := os.Stat(path); return err == nil })
	if err != nil {
		t.Fatal(err)
	}
	return p.Pull(t.Context(), s, name)
}

func names(t *testing.T, s *Store) (list []string) {
	t.Helper()
	models, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		list = append(list, m.Name)
	}
	return list
}

func TestPullListCopyRemove(t *testing.T) {
	h, p := newPuller(t)
	m, err := pull(t, p, "hf:"+repo, "")
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "tiny:Q8_0" && m.Name != "tiny:q8_0" || m.Commit != testkit.HubCommit || m.License != "apache-2.0" {
		t.Fatalf("%+v", m)
	}
	sent, _ := h.Sent()
	if again, err := pull(t, p, "hf:"+repo+":Q8_0", ""); err != nil || again.Path != m.Path {
		t.Fatalf("%+v, %v", again, err)
	}
	if now, _ := h.Sent(); now != sent {
		t.Errorf("a model that is there was downloaded again: %d bytes", now-sent)
	}
	if got, err := p.Store.Get("tiny"); err != nil || got.Name != m.Name {
		t.Errorf("by its base name: %+v, %v", got, err)
	}
	c, err := p.Store.Copy("tiny", "assistant")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Store.Remove(m.Name); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(c.Path); err != nil {
		t.Errorf("the copy does not outlive the original: %v", err)
	}
	if got := names(t, p.Store); !slices.Equal(got, []string{"assistant"}) {
		t.Errorf("left are %q", got)
	}
	if _, err := p.Store.Get("tiny"); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	if _, err := p.Store.Copy("assistant", "assistant"); err == nil {
		t.Error("a name was given twice")
	}
}

func TestPullSafetensors(t *testing.T) {
	h, p := newPuller(t)
	dir := filepath.Join("internal", "testkit", "golden", "tiny-qwen3")
	entries, err := os.ReadDir(filepath.Join(testkit.Root(), dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			h.Add("org/Tiny", e.Name(), read(t, dir, e.Name()))
		}
	}
	h.Add("org/Tiny", "original/consolidated.safetensors", make([]byte, 10_000))
	m, err := pull(t, p, "hf:org/Tiny", "")
	if err != nil {
		t.Fatal(err)
	}
	inside := func(f hub.File) bool { return strings.Contains(f.Path, "/") }
	if m.Name != "tiny" || m.Open != "" || slices.ContainsFunc(m.Files, inside) {
		t.Errorf("%+v", m)
	}
	if err := p.Check(m.Path); err != nil {
		t.Error(err)
	}
}

func TestPullFiles(t *testing.T) {
	_, p := newPuller(t)
	file := filepath.Join(t.TempDir(), "My Model.gguf")
	if err := os.WriteFile(file, read(t, "internal", "builtin", "polly-mini.gguf"), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := pull(t, p, file, "")
	if err != nil || m.Name != "My-Model" {
		t.Fatalf("%+v, %v", m, err)
	}
	dir := filepath.Join(testkit.Root(), "internal", "testkit", "golden", "tiny-qwen3")
	d, err := pull(t, p, dir, "mine:v1")
	if err != nil || p.Check(d.Path) != nil {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := os.Link(file, filepath.Join(p.Store.Dir, "dropped.gguf")); err != nil {
		t.Fatal(err)
	}
	if got := names(t, p.Store); !slices.Equal(got, []string{"My-Model", "dropped", "mine:v1"}) {
		t.Errorf("listed %q", got)
	}
	for _, name := range []string{"dropped", "mine:v1", "My-Model"} {
		if err := p.Store.Remove(name); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, p.Store); len(got) > 0 {
		t.Errorf("left are %q", got)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("removing a model removed the file it was taken from: %v", err)
	}
}

func TestPullURL(t *testing.T) {
	h, p := newPuller(t)
	m, err := pull(t, p, h.Storage.URL+"/blobs/"+repo+"/Tiny-Q8_0.gguf", "web")
	if err != nil || m.Name != "web" || p.Check(m.Path) != nil {
		t.Fatalf("%+v, %v", m, err)
	}
}

func TestProcessesPullOnce(t *testing.T) {
	h, p := newPuller(t)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			other := *p
			if _, err := pull(t, &other, "hf:"+repo+":Q8_0", ""); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	size := int64(len(read(t, "internal", "builtin", "polly-mini.gguf")))
	if sent, _ := h.Sent(); sent > size+4*headBytes {
		t.Errorf("%d bytes sent for a model of %d", sent, size)
	}
	if got := names(t, p.Store); len(got) != 1 {
		t.Errorf("listed %q", got)
	}
}

// What cannot be served is refused before its weights are downloaded, and nothing is
// left of it.
func TestUnsupportedIsRefusedEarly(t *testing.T) {
	h, p := newPuller(t)
	foreign := []byte("GGUF\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
		"\x14\x00\x00\x00\x00\x00\x00\x00general.architecture" +
		"\x08\x00\x00\x00" + "\x05\x00\x00\x00\x00\x00\x00\x00mamba")
	h.Add("org/mamba", "mamba-Q8_0.gguf", append(foreign, make([]byte, 1<<20)...))
	if _, err := pull(t, p, "hf:org/mamba", ""); err == nil || !strings.Contains(err.Error(), "mamba") {
		t.Errorf("%v", err)
	}
	h.Add("org/other", "config.json", []byte(`{"model_type": "mamba", "architectures": ["MambaForCausalLM"]}`))
	h.Add("org/other", "tokenizer.json", []byte(`{}`))
	h.Add("org/other", "model.safetensors", make([]byte, 1<<20))
	if _, err := pull(t, p, "hf:org/other", ""); err == nil || !strings.Contains(err.Error(), "cannot be served") {
		t.Errorf("%v", err)
	}
	if sent, _ := h.Sent(); sent > headBytes {
		t.Errorf("%d bytes were downloaded of what cannot be served", sent)
	}
	h.Add("org/bad", "bad-Q8_0.gguf", append([]byte("GGUF"), make([]byte, 10_000)...))
	if _, err := pull(t, p, "hf:org/bad", ""); err == nil {
		t.Error("a file that is not a model was taken")
	}
	if got := names(t, p.Store); len(got) > 0 {
		t.Errorf("listed %q", got)
	}
}

func TestChoose(t *testing.T) {
	files := func(names ...string) (list []hub.File) {
		for _, n := range names {
			list = append(list, hub.File{Path: n})
		}
		return list
	}
	many := []string{
		"m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m-F16.gguf", "imatrix.gguf", "m-IQ4_XS.gguf", "x.md",
	}
	split := []string{"q4/m-q4_k_m-00001-of-00002.gguf", "q4/m-q4_k_m-00002-of-00002.gguf", "m-bf16.gguf"}
	for _, test := range []struct {
		files   []string
		variant string
		want    string
	}{
		{many, "", "m-Q4_K_M.gguf"},
		{many, "q8_0", "m-Q8_0.gguf"},
		{many, "m-Q2_K.gguf", "m-Q2_K.gguf"},
		{many, "Q3_K_M", "error"},
		{split, "", "q4/m-q4_k_m-00001-of-00002.gguf q4/m-q4_k_m-00002-of-00002.gguf"},
		{append(split, "m-q4_k_m.gguf"), "Q4_K_M", "m-q4_k_m.gguf"},
		{split[1:], "Q4_K_M", "error"},
		{[]string{"m-IQ1_S.gguf", "m-Q2_K.gguf"}, "", "error"},
		{[]string{"model.gguf"}, "", "model.gguf"},
		{[]string{"config.json", "tokenizer.json", "pytorch_model.bin"}, "", "error"},
		{[]string{"config.json", "model.safetensors"}, "", "error"},
	} {
		chosen, err := choose(&hub.Repo{ID: "a/b", Files: files(test.files...)}, test.variant)
		var got []string
		for _, f := range chosen {
			got = append(got, f.Path)
		}
		if err != nil {
			got = []string{"error"}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q of %q: %q, want %q (%v)", test.variant, test.files, got, test.want, err)
		}
	}
}

func TestParseSource(t *testing.T) {
	here := func(path string) bool { return path == "here.gguf" }
	for text, want := range map[string]Source{
		"hf:Qwen/Qwen3-0.6B-GGUF:Q8_0":                  {Repo: "Qwen/Qwen3-0.6B-GGUF", Variant: "Q8_0"},
		"hf.co/a/b@v1:q4_k_m":                           {Repo: "a/b", Revision: "v1", Variant: "q4_k_m"},
		"https://huggingface.co/a/b":                    {Repo: "a/b"},
		"https://huggingface.co/a/b/blob/main/d/f.gguf": {Repo: "a/b", Revision: "main", Variant: "d/f.gguf"},
		"https://example.com/f.gguf":                    {URL: "https://example.com/f.gguf"},
		"here.gguf":                                     {Path: "here.gguf"},
	} {
		got, err := ParseSource(text, here)
		want.Text = text
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "nothing", "gone.gguf", "../x", "hf:a", "hf:../b", "hf:a/b/c", "https://", "https://hf.co/a",
	} {
		if got, err := ParseSource(text, here); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 200)
	for _, name := range []string{"", ".", "..", "a/b", "a:b:c", "a..b", ".x", "a ", "a\n", "a+b", long, "a:"} {
		if CheckName(name) == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	// A manifest that names another model, or a file elsewhere, is not believed.
	s := &Store{Dir: t.TempDir()}
	for dir, manifest := range map[string]string{
		"one": `{"name":"two"}`, "three": `{"name":"three","open":"../../etc/passwd"}`, "four": `{`,
	} {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Dir, dir, manifestName), []byte(manifest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, s); len(got) > 0 {
		t.Errorf("listed %q", got)
	}
}

func TestCatalogue(t *testing.T) {
	for _, e := range Catalogue() {
		s, err := ParseSource(e.Name, func(string) bool { return false })
		if err != nil || s.Repo == "" || s.Entry == nil || s.Entry.Name != e.Name || CheckName(e.Name) != nil {
			t.Errorf("%s: %+v, %v", e.Name, s, err)
		}
		if !slices.Contains(weights.Architectures(), e.Architecture) || !slices.Contains(computed, s.Variant) {
			t.Errorf("%s: %s in %s cannot be computed", e.Name, e.Architecture, s.Variant)
		}
		if e.License == "" || e.GoodAt == "" || e.ContextTokens < 4096 || e.KVBytesPerToken <= 0 || e.Bytes < 1e8 {
			t.Errorf("%s lacks something: %+v", e.Name, e)
		}
		need := e.MemoryBytes(4096)
		if need >= e.MemoryBytes(8192) || e.ContextThatFits(need) != 4096 || e.ContextThatFits(e.Bytes) != 0 {
			t.Errorf("%s: the memory does not add up", e.Name)
		}
	}
	if e := FindEntry("qwen3"); e == nil || e.Name != "qwen3:0.6b" {
		t.Errorf("qwen3 is %+v", e)
	}
}
