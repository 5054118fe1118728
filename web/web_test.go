package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"parley/internal/testkit"
)

// sources are what the pages are built from: vite.config.ts lists the same.
var sources = []string{"../docs/runbook.md", "admin.html", "index.html", "package-lock.json", "package.json",
	"prerender.ts", "public", "src", "svelte.config.js", "tsconfig.json", "vite.config.ts", "vite.plan.config.ts"}

// sourcesHash is what the build records of them.
func sourcesHash(t *testing.T) string {
	t.Helper()
	hash := sha256.New()
	for _, source := range sources {
		err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			fmt.Fprintf(hash, "%s\n%d\n", filepath.ToSlash(path), len(content))
			hash.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func TestBuiltPagesAreFresh(t *testing.T) {
	recorded, err := built.ReadFile("dist/" + sourcesName)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(string(recorded)), sourcesHash(t); got != want {
		t.Errorf("the built pages are older than their sources: run make web (built from %s, sources are %s)", got,
			want)
	}
}

const (
	plainBytesMax  = 2 << 20
	packedBytesMax = 500_000
)

func plainOf(t *testing.T, f *file) []byte {
	t.Helper()
	plain, err := f.plain()
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func TestPagesAreSmall(t *testing.T) {
	pages, err := New()
	if err != nil {
		t.Fatal(err)
	}
	plain, packed := 0, 0
	for _, f := range pages.files {
		plain += len(plainOf(t, f))
		body, _, _ := f.bodyFor(http.Header{}, []string{"br, gzip"})
		packed += len(body)
	}
	t.Logf("%d files, %d bytes, %d compressed", len(pages.files), plain, packed)
	if plain > plainBytesMax || packed > packedBytesMax {
		t.Errorf("the pages have %d bytes and %d compressed, more than %d and %d", plain, packed, plainBytesMax,
			packedBytesMax)
	}
}

// elsewhere finds what would make a page ask another origin, or need a policy
// that allows code which no hash names.
var elsewhere = regexp.MustCompile(`(?:src|href)="(?:https?:)?//|<style |\son[a-z]+="|style="`)

func TestPagesAreSelfContained(t *testing.T) {
	pages, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range pages.files {
		if strings.HasSuffix(name, ".html") {
			if found := elsewhere.Find(plainOf(t, f)); found != nil {
				t.Errorf("%s has %q", name, found)
			}
		}
		if strings.HasSuffix(name, ".css") && regexp.MustCompile(`url\((?:https?:)?//|@import`).Match(plainOf(t, f)) {
			t.Errorf("%s asks another origin", name)
		}
	}
}

// TestDamagedPages: an embedded file that cannot be unpacked is an error.
func TestDamagedPages(t *testing.T) {
	if _, err := newPages(fstest.MapFS{"index.html.gz": {Data: []byte("damaged")}}); err == nil {
		t.Error("a damaged page is accepted")
	}
	p, err := newPages(fstest.MapFS{"a.js.gz": {Data: []byte("damaged")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := get(p, "/a.js"); got.StatusCode != http.StatusInternalServerError {
		t.Errorf("a damaged script gives %d", got.StatusCode)
	}
}

// TestEmbeddedTexts unpacks what is not served.
func TestEmbeddedTexts(t *testing.T) {
	if text := Licenses(); !strings.Contains(text, "svelte") {
		t.Errorf("the licences are %q", text)
	}
	if page := PlanPage([]byte("{}")); !bytes.Contains(page, mustUnpack("dist/plan.js.gz")) || len(page) < 10_000 {
		t.Errorf("the page of a plan has %d bytes", len(page))
	}
}

// small are pages of a known content.
func small(t *testing.T) *Pages {
	t.Helper()
	pages, err := newPages(fstest.MapFS{
		"index.html.gz": {Data: testkit.Gzip(t, append(
			[]byte("<style>p{}</style><style>b{}</style><script>let a;\n</script><script src=\"/x.js\"></script>"),
			bytes.Repeat([]byte("<p>hello</p>"), 100)...))},
		"assets/chat-a1b2.js":    {Data: []byte("x")},
		"assets/base-c3d4.js.gz": {Data: testkit.Gzip(t, bytes.Repeat([]byte("let a;"), 100))},
		"assets/base-c3d4.js.br": {Data: []byte("smaller")},
		"icon.svg":               {Data: bytes.Repeat([]byte("<svg/>"), 100)},
		sourcesName:              {Data: []byte("secret")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func get(p *Pages, path string, headers ...string) *http.Response {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

func TestPaths(t *testing.T) {
	p := small(t)
	for path, want := range map[string]int{
		"/": 200, "/index.html": 200, "/c/conv_1": 200, "/icon.svg": 200, "/assets/chat-a1b2.js": 200,
		"/c/a/b": 404, "/assets/base-c3d4.js": 200, "/assets/base-c3d4.js.br": 404, "/assets/": 404,
		"/index.html.gz":   404,
		"/assets/other.js": 404, "/" + sourcesName: 404, "/../web.go": 404, "/dist/index.html": 404,
	} {
		if got := get(p, path); got.StatusCode != want || p.Has(path) != (want == 200) {
			t.Errorf("%s gives %d, and Has says %v", path, got.StatusCode, p.Has(path))
		}
	}
}

func TestEncodings(t *testing.T) {
	p := small(t)
	for accept, want := range map[string]string{
		"": "", "br": "", "gzip": "gzip", "gzip, deflate, br": "gzip", "deflate, GZIP;q=0.5": "gzip", "gzip;q=0": "",
		"gzip; q=0.0, br": "", "*": "gzip", "gzip;q=x": "",
	} {
		r := get(p, "/", "Accept-Encoding", accept)
		body, _ := io.ReadAll(r.Body)
		if got := r.Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q gives %q", accept, got)
		}
		if want == "gzip" {
			unpacked, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			body, _ = io.ReadAll(unpacked)
		}
		if !bytes.Equal(body, plainOf(t, p.files["/index.html"])) || r.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q gives %d bytes, Vary %q", accept, len(body), r.Header.Get("Vary"))
		}
	}
	for accept, want := range map[string]string{"gzip, br": "br", "br;q=0, gzip": "gzip", "": ""} {
		r := get(p, "/assets/base-c3d4.js", "Accept-Encoding", accept)
		body, _ := io.ReadAll(r.Body)
		if got := r.Header.Get("Content-Encoding"); got != want || (string(body) == "smaller") != (want == "br") ||
			r.Header.Get("Vary") == "" {
			t.Errorf("%q gives %q with %d bytes", accept, got, len(body))
		}
	}
	if r := get(p, "/assets/chat-a1b2.js", "Accept-Encoding", "gzip"); r.Header.Get("Content-Encoding") != "" {
		t.Error("a file that is not compressed is sent as if it were")
	}
}

func TestCaching(t *testing.T) {
	p := small(t)
	if got := get(p, "/assets/chat-a1b2.js").Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("a hashed name is kept by %q", got)
	}
	first := get(p, "/", "Accept-Encoding", "gzip")
	tag := first.Header.Get("ETag")
	if tag == "" || first.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("got %v", first.Header)
	}
	for copies, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200,
		"": 200} {
		r := get(p, "/", "Accept-Encoding", "gzip", "If-None-Match", copies)
		body, _ := io.ReadAll(r.Body)
		if r.StatusCode != want || want == 304 && len(body) > 0 || r.Header.Get("ETag") != tag {
			t.Errorf("with %q: %d, %d bytes", copies, r.StatusCode, len(body))
		}
	}
	if got := get(p, "/", "If-None-Match", tag); got.StatusCode != 200 {
		t.Error("the tag of the compressed page stands for the plain one")
	}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// TestPolicy wants what stands in a page to be allowed by its hash, and nothing else.
func TestPolicy(t *testing.T) {
	p := small(t)
	allowed := get(p, "/").Header.Get("Content-Security-Policy")
	for _, want := range []string{
		"script-src 'self' 'sha256-" + hashOf("let a;\n") + "';",
		"style-src 'self' 'sha256-" + hashOf("p{}") + "' 'sha256-" + hashOf("b{}") + "';",
	} {
		if !strings.Contains(allowed, want) {
			t.Errorf("the policy %q lacks %q", allowed, want)
		}
	}
	for _, path := range []string{"/", "/icon.svg", "/assets/chat-a1b2.js"} {
		h := get(p, path).Header
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") ||
			strings.Contains(csp, "*") || strings.Contains(csp, "http") {
			t.Errorf("%s has the policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Type") == "" {
			t.Errorf("%s has %v", path, h)
		}
	}
}
