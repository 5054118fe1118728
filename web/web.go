// Package web holds the pages that people see: the chat at / and the operator's
// page at /admin, built from the TypeScript and Svelte sources in src and
// embedded as they were built, so that the program needs no Node and no other
// files.
//
// What must be true of them: they ask no other origin for anything, run under
// a policy that allows no script or style but their own, stay within the sizes
// that the tests give, and are never older than their sources (the build
// records a hash of those). README.md says how they are made and why so.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist
var built embed.FS

//go:embed dist/licenses.txt
var licenses string

// Licenses returns the licences of the packages that the pages are built with.
func Licenses() string { return licenses }

// policyOf lets a page load from its own origin alone, and run nothing that is
// not a file of it or was in it when it was built, which is told by its hash. No
// other site may frame it.
func policyOf(page []byte) string {
	return "default-src 'none'; script-src 'self'" + hashes(page, scripts) + "; style-src 'self'" + hashes(page,
		styles) +
		"; img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'"
}

// Scripts and styles that stand in a page itself.
var (
	scripts = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	styles  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
)

// hashes names what stands in a page as a policy does.
func hashes(page []byte, what *regexp.Regexp) string {
	var names strings.Builder
	for _, found := range what.FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(found[1])
		names.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	}
	return names.String()
}

// Pages serves the embedded pages. It is an [http.Handler] and safe for
// concurrent use.
type Pages struct{ files map[string]*file }

// A file is one built file in the forms in which it can be sent.
type file struct {
	kind   string
	tag    string
	policy string
	// forever: the name holds a hash of the content, so no copy is ever stale.
	forever bool
	plain   []byte
	// brotli is the form that the build made, nil if it made none. packed, of
	// gzip, is made when the first client wants it; nil if it would not be smaller.
	brotli []byte
	packed func() []byte
}

// New reads the embedded pages.
func New() (*Pages, error) {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		return nil, err
	}
	return newPages(dist)
}

func newPages(dist fs.FS) (*Pages, error) {
	p := &Pages{files: map[string]*file{}}
	err := fs.WalkDir(dist, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == sourcesName {
			return err
		}
		plain, err := fs.ReadFile(dist, name)
		p.files["/"+name] = newFile(name, plain)
		return err
	})
	for name, f := range p.files {
		if of, ok := strings.CutSuffix(name, brotliSuffix); ok {
			p.files[of].brotli = f.plain
			delete(p.files, name)
		}
	}
	return p, err
}

// brotliSuffix is the ending of files that hold the compressed form of another.
const brotliSuffix = ".br"

// sourcesName is the file in which the build records the hash of its sources.
const sourcesName = "sources.sha256"

// kinds are the types that the system's own table may lack or name otherwise.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".webmanifest": "application/manifest+json", ".woff2": "font/woff2",
}

func newFile(name string, plain []byte) *file {
	kind, ok := kinds[path.Ext(name)]
	if !ok {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	sum := sha256.Sum256(plain)
	f := &file{
		kind:    kind,
		tag:     hex.EncodeToString(sum[:8]),
		forever: strings.HasPrefix(name, "assets/"),
		plain:   plain,
		policy:  policyOf(nil),
		packed:  sync.OnceValue(func() []byte { return pack(plain) }),
	}
	if path.Ext(name) == ".html" {
		f.policy = policyOf(plain)
	}
	return f
}

// pack compresses, or returns nil where that gains nothing.
func pack(plain []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is a good one
	_, _ = w.Write(plain)                                   // memory takes everything
	_ = w.Close()
	if out.Len() >= len(plain)*9/10 {
		return nil
	}
	return out.Bytes()
}

// Has reports whether there is a page or a file of one under that path.
func (p *Pages) Has(urlPath string) bool { return p.find(urlPath) != nil }

// find returns what answers a path. The chat shows a conversation under its own
// address, /c/ and its id: it is the same page.
func (p *Pages) find(urlPath string) *file {
	if urlPath == "/" || strings.HasPrefix(urlPath, "/c/") && strings.Count(urlPath, "/") == 2 {
		urlPath = "/index.html"
	}
	if urlPath == "/admin" {
		urlPath = "/admin.html"
	}
	return p.files[urlPath]
}

// ServeHTTP answers GET and HEAD.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p.find(r.URL.Path)
	if f == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	body, encoding := f.bodyFor(h, r.Header.Values("Accept-Encoding"))
	tag := `"` + f.tag + `"`
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
		tag = `"` + f.tag + "-" + encoding + `"`
	}
	setHeaders(h, f, tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that has left wants no error
	}
}

// bodyFor returns the smallest form of a file that a client takes, and its name.
func (f *file) bodyFor(h http.Header, accepted []string) (body []byte, encoding string) {
	packed := f.packed()
	if f.brotli != nil || packed != nil {
		h.Add("Vary", "Accept-Encoding")
	}
	switch {
	case f.brotli != nil && accepts(accepted, "br"):
		return f.brotli, "br"
	case packed != nil && accepts(accepted, "gzip"):
		return packed, "gzip"
	}
	return f.plain, ""
}

func setHeaders(h http.Header, f *file, tag string) {
	h.Set("Content-Type", f.kind)
	h.Set("ETag", tag)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", f.policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if f.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
}

// accepts reports whether a client takes an encoding.
func accepts(values []string, encoding string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, weight, _ := strings.Cut(part, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == encoding || name == "*" {
				weight, isWeight := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
				q, err := strconv.ParseFloat(weight, 64)
				return !isWeight || err == nil && q > 0
			}
		}
	}
	return false
}

// matches reports whether a client's copies include the one of that tag.
func matches(copies, tag string) bool {
	for one := range strings.SplitSeq(copies, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}
