package hub

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/testkit"
)

const repo = "org/model-GGUF"

// model is what the tests download: some hundred kilobytes, so some ranges of 64 KiB.
func modelBytes(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(data)
	return data
}

func newTest(t *testing.T) (*testkit.Hub, *Client, []byte) {
	h := testkit.NewHub(t)
	data := modelBytes(700_001)
	h.Add(repo, "model-Q8_0.gguf", data)
	h.Add(repo, "config.json", []byte(`{"a":1}`))
	return h, &Client{Endpoint: h.Server.URL, RangeBytes: 64 << 10, Backoff: time.Millisecond}, data
}

func fetchAll(ctx context.Context, t *testing.T, c *Client, dir string) error {
	t.Helper()
	r, err := c.Repo(ctx, repo, "")
	if err != nil {
		return err
	}
	return c.Fetch(ctx, dir, r.Files, nil)
}

func checkFile(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s: %v, %d bytes, want %d", path, err, len(got), len(want))
	}
	for _, suffix := range []string{partSuffix, stateSuffix} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left behind", path+suffix)
		}
	}
}

func TestFetch(t *testing.T) {
	h, c, data := newTest(t)
	h.Token, c.Token = "hf_secret", "hf_secret" // the storage fails the test if it sees it
	dir := t.TempDir()
	r, err := c.Repo(t.Context(), repo, "main")
	if err != nil {
		t.Fatal(err)
	}
	if r.Commit != testkit.HubCommit || r.License != "apache-2.0" || len(r.Files) != 2 {
		t.Fatalf("listed %+v", r)
	}
	var done, total int64
	var mu sync.Mutex
	err = c.Fetch(t.Context(), dir, r.Files, func(d, of int64) {
		mu.Lock()
		defer mu.Unlock()
		done, total = max(done, d), of
	})
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, "model-Q8_0.gguf"), data)
	checkFile(t, filepath.Join(dir, "config.json"), []byte(`{"a":1}`))
	if want := int64(len(data) + 7); done != want || total != want {
		t.Errorf("progress ended at %d of %d, want %d", done, total, want)
	}
	if _, requests := h.Sent(); requests != 11 {
		t.Errorf("%d requests for 11 ranges", requests)
	}
	if err := fetchAll(t.Context(), t, c, dir); err != nil {
		t.Fatal(err)
	}
	if sent, _ := h.Sent(); sent != int64(len(data)) {
		t.Errorf("a complete file was downloaded again: %d bytes sent", sent)
	}
}

func TestBrokenConnectionsContinue(t *testing.T) {
	h, c, data := newTest(t)
	h.BreakAfter = 10_000
	dir := t.TempDir()
	if err := fetchAll(t.Context(), t, c, dir); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, "model-Q8_0.gguf"), data)
	if sent, _ := h.Sent(); sent != int64(len(data)) {
		t.Errorf("%d bytes sent for %d: bytes came twice", sent, len(data))
	}
}

func TestInterruptedDownloadContinues(t *testing.T) {
	h, c, data := newTest(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Repo(ctx, repo, "")
	if err != nil {
		t.Fatal(err)
	}
	err = c.Fetch(ctx, dir, r.Files, func(done, _ int64) {
		if done > int64(len(data))/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "model-Q8_0.gguf")); err == nil {
		t.Fatal("a partial file has its final name")
	}
	state, err := readState(filepath.Join(dir, "model-Q8_0.gguf"), modelFile(r))
	if err != nil {
		t.Fatal(err)
	}
	before, _ := h.Sent()
	if err := fetchAll(t.Context(), t, c, dir); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, "model-Q8_0.gguf"), data)
	after, _ := h.Sent()
	// The server may still have been writing to the connections of the first run.
	want, got := int64(len(data))-state.done(), after-before
	if got < want || got >= int64(len(data)) || state.done() < int64(len(data))/2 {
		t.Errorf("the second run got %d bytes, want %d of %d", got, want, len(data))
	}
}

func modelFile(r *Repo) *File {
	for i := range r.Files {
		if strings.HasSuffix(r.Files[i].Path, ".gguf") {
			return &r.Files[i]
		}
	}
	return nil
}

func TestServerWithoutRanges(t *testing.T) {
	h, c, data := newTest(t)
	h.NoRanges = true
	dir := t.TempDir()
	if err := fetchAll(t.Context(), t, c, dir); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, "model-Q8_0.gguf"), data)
}

func TestRefusalsThatPass(t *testing.T) {
	h, c, data := newTest(t)
	h.Refusals, h.RetryAfter = []int{429, 503, 500, 502, 403}, 1
	dir := t.TempDir()
	start := time.Now()
	if err := fetchAll(t.Context(), t, c, dir); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, "model-Q8_0.gguf"), data)
	if took := time.Since(start); took < time.Second {
		t.Errorf("Retry-After of 1 s was not obeyed: all took %v", took)
	}
}

func TestRefusalsThatStay(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(*testkit.Hub, *Client)
		kind Kind
		text string
	}{
		"unknown":      {func(h *testkit.Hub, _ *Client) { h.Token = "x" }, NotFound, "HF_TOKEN"},
		"wrong token":  {func(h *testkit.Hub, c *Client) { h.Token, c.Token = "x", "y" }, NotFound, "HF_TOKEN"},
		"gated":        {func(h *testkit.Hub, _ *Client) { h.Gated = true }, Gated, "accept"},
		"long":         {func(h *testkit.Hub, _ *Client) { h.Refusals, h.RetryAfter = many(429), 9e3 }, Busy, "2h30m"},
		"always fails": {func(h *testkit.Hub, _ *Client) { h.Refusals = many(500) }, Busy, "continue"},
		"corrupt":      {func(h *testkit.Hub, _ *Client) { h.Corrupt = true }, Mismatch, "checksum"},
		"gone":         {func(h *testkit.Hub, _ *Client) { h.Refusals = many(410) }, Broken, "410"},
	} {
		t.Run(name, func(t *testing.T) {
			h, c, _ := newTest(t)
			test.set(h, c)
			dir := t.TempDir()
			err := fetchAll(t.Context(), t, c, dir)
			if kindOf(err) != test.kind || !strings.Contains(err.Error(), test.text) {
				t.Fatalf("%v (%s), want %s with %q", err, kindOf(err), test.kind, test.text)
			}
			if strings.Contains(err.Error(), "Signature") {
				t.Errorf("the signature of the storage is in the error: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "model-Q8_0.gguf")); err == nil {
				t.Error("a file that is not right has its final name")
			}
		})
	}
}

func many(status int) (list []int) {
	for range 1000 {
		list = append(list, status)
	}
	return list
}

// What was left by an earlier download of the same name and size is not what the
// checksum says: it is dropped, and the file comes from the beginning.
func TestDamagedPartBeginsAgain(t *testing.T) {
	h, c, data := newTest(t)
	dir := t.TempDir()
	r, err := c.Repo(t.Context(), repo, "")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model-Q8_0.gguf")
	s := newState(modelFile(r), 64<<10)
	s.Done[0] = 64 << 10
	p := &partial{path: path, state: s}
	if p.file, err = os.Create(path + partSuffix); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.file.Truncate(int64(len(data))), p.save(), p.file.Close()); err != nil {
		t.Fatal(err)
	}
	if err := fetchAll(t.Context(), t, c, dir); err != nil {
		t.Fatal(err)
	}
	checkFile(t, path, data)
	if sent, _ := h.Sent(); sent != 2*int64(len(data))-64<<10 {
		t.Errorf("%d bytes sent", sent)
	}
}

func TestProcessesTakeTurns(t *testing.T) {
	h, c, data := newTest(t)
	dir := filepath.Join(t.TempDir(), "m")
	gate := make(chan struct{})
	h.Gate = gate
	waits := make(chan string, 1)
	second := *c
	second.Notify = func(text string) { waits <- text }
	var running sync.WaitGroup
	for i, client := range []*Client{c, &second} {
		running.Go(func() {
			if i == 1 { // begins while the first one holds the lock
				gate <- struct{}{}
			}
			unlock, err := client.Lock(t.Context(), dir+".lock")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if err := fetchAll(t.Context(), t, client, dir); err != nil {
				t.Error(err)
			}
		})
	}
	if text := <-waits; !strings.Contains(text, "another process") {
		t.Errorf("said %q", text)
	}
	close(gate)
	running.Wait()
	checkFile(t, filepath.Join(dir, "model-Q8_0.gguf"), data)
	if sent, _ := h.Sent(); sent != int64(len(data)) {
		t.Errorf("%d bytes sent for two processes, want %d", sent, len(data))
	}
}

func TestNoRoom(t *testing.T) {
	h, c, _ := newTest(t)
	huge := File{Path: "huge.gguf", Size: 3 << 40, URL: h.Server.URL + "/x", SHA256: strings.Repeat("a", 64)}
	err := c.Fetch(t.Context(), t.TempDir(), []File{huge}, nil)
	if kindOf(err) != NoRoom {
		t.Fatalf("%v", err)
	}
	if _, requests := h.Sent(); requests != 0 {
		t.Errorf("%d requests before the room was checked", requests)
	}
}

func TestHostileListings(t *testing.T) {
	good := strings.Repeat("ab", 32)
	file := func(name string, size any, sum string) map[string]any {
		return map[string]any{"sha": testkit.HubCommit, "siblings": []any{
			map[string]any{"rfilename": name, "size": size, "lfs": map[string]any{"sha256": sum, "size": size}}}}
	}
	for name, listing := range map[string]any{
		"parent":    file("../../.ssh/authorized_keys", 1, good),
		"inside":    file("a/../../b", 1, good),
		"absolute":  file("/etc/passwd", 1, good),
		"drive":     file(`C:\x.gguf`, 1, good),
		"empty":     file("", 1, good),
		"newline":   file("a\nb", 1, good),
		"dots":      file("a/./b", 1, good),
		"negative":  file("a.gguf", -1, good),
		"too large": file("a.gguf", int64(1)<<60, good),
		"checksum":  file("a.gguf", 1, "../x"),
		"commit":    map[string]any{"sha": "../../main"},
		"no list":   "hello",
	} {
		t.Run(name, func(t *testing.T) {
			h, c, _ := newTest(t)
			h.Listing = listing
			if r, err := c.Repo(t.Context(), repo, ""); kindOf(err) != Refused && kindOf(err) != Broken {
				t.Fatalf("%+v, %v", r, err)
			}
		})
	}
	_, c, _ := newTest(t)
	for _, id := range []string{"", "x", "../x", "a/../b", "a/b/c", "a/b?x", "a b/c"} {
		if _, err := c.Repo(t.Context(), id, ""); kindOf(err) != Refused {
			t.Errorf("repository %q: %v", id, err)
		}
	}
}

func TestHead(t *testing.T) {
	h, c, data := newTest(t)
	r, err := c.Repo(t.Context(), repo, "")
	if err != nil {
		t.Fatal(err)
	}
	head, err := c.Head(t.Context(), modelFile(r), 1000)
	if err != nil || !bytes.Equal(head, data[:1000]) {
		t.Fatalf("%d bytes, %v", len(head), err)
	}
	if sent, _ := h.Sent(); sent != 1000 {
		t.Errorf("%d bytes sent for 1000", sent)
	}
}

// A server that sends other bytes than it was asked for is refused.
func TestWrongRange(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-9/100")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, 10))
	}))
	defer s.Close()
	c := &Client{Endpoint: s.URL, RangeBytes: 50}
	err := c.Fetch(t.Context(), t.TempDir(), []File{{Path: "a", Size: 100, URL: s.URL + "/a"}}, nil)
	if kindOf(err) != Refused {
		t.Fatalf("%v", err)
	}
}

func TestStalledConnectionIsTriedAgain(t *testing.T) {
	data := modelBytes(50_000)
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if asked == 1 {
			w.Header().Set("Content-Range", "bytes 0-49999/50000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(data[:1000])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	defer s.Close()
	c := &Client{Endpoint: s.URL, Stall: 50 * time.Millisecond, Backoff: time.Millisecond}
	dir := t.TempDir()
	if err := c.Fetch(t.Context(), dir, []File{{Path: "a", Size: 50_000, URL: s.URL + "/a"}}, nil); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, "a"), data)
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

func TestRedirectToPlainHTTPIsRefused(t *testing.T) {
	h, _, _ := newTest(t)
	secure := httptest.NewTLSServer(http.RedirectHandler(h.Server.URL, http.StatusFound))
	defer secure.Close()
	c := &Client{Endpoint: secure.URL, HTTP: secure.Client(), Token: "hf_secret"}
	if _, err := c.Repo(t.Context(), repo, ""); kindOf(err) != Refused {
		t.Fatalf("%v", err)
	}
}

func TestPlainURL(t *testing.T) {
	h, c, data := newTest(t)
	address := h.Storage.URL + "/blobs/" + repo + "/model-Q8_0.gguf"
	c.Token = "hf_secret" // which is the Hub's alone
	f, err := c.Stat(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if f.Path != "model-Q8_0.gguf" || f.Size != int64(len(data)) || f.ETag == "" {
		t.Fatalf("%+v", f)
	}
	dir := t.TempDir()
	if err := c.Fetch(t.Context(), dir, []File{f}, nil); err != nil {
		t.Fatal(err)
	}
	checkFile(t, filepath.Join(dir, f.Path), data)
	linked, err := c.Stat(t.Context(), h.Server.URL+"/"+repo+"/resolve/main/model-Q8_0.gguf")
	if err != nil || linked.SHA256 == "" {
		t.Errorf("the checksum of the redirect is lost: %+v, %v", linked, err)
	}
	h.Add(repo, "model-Q8_0.gguf", modelBytes(700_001)[1:])
	if err := c.Fetch(t.Context(), t.TempDir(), []File{f}, nil); err == nil {
		t.Error("a file that changed on the server was taken")
	}
}

func TestFromEnv(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "token"), []byte("hf_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HF_ENDPOINT": "https://mirror.example/", "HF_HOME": home}
	lookup := func(key string) (string, bool) { v, ok := env[key]; return v, ok }
	if c := FromEnv(lookup); c.endpoint() != "https://mirror.example" || c.Token != "hf_file" {
		t.Errorf("%+v", c)
	}
	env["HF_TOKEN"] = "hf_env"
	if c := FromEnv(lookup); c.Token != "hf_env" {
		t.Errorf("%+v", c)
	}
	if c := FromEnv(func(string) (_ string, _ bool) { return }); c.endpoint() != DefaultEndpoint || c.Token != "" {
		t.Errorf("%+v", c)
	}
}

// kindOf returns the kind of the first [Error] in the chain of err, else empty.
func kindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}
