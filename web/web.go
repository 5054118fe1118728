// Package web holds the pages that people see: the chat at / and the operator's
// page at /admin, built from the TypeScript and Svelte sources in src and
// embedded as they were built, so that the program needs no Node and no other
// files. Texts are embedded compressed alone, by gzip and by Brotli: almost every
// client takes one of the two, and for the others gzip is unpacked.
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
	"io"
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

// Licenses returns the licences of the packages that the pages are built with.
func Licenses() string { return string(mustUnpack("dist/licenses.txt.gz")) }

// mustUnpack returns the contents of an embedded file. It panics if that was not built, which
// the tests find.
func mustUnpack(name string) []byte {
	packed, err := built.ReadFile(name)
	if err != nil {
		panic("web: " + err.Error())
	}
	plain, err := unpack(packed)
	if err != nil {
		panic("web: " + name + ": " + err.Error())
	}
	return plain
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

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
	// brotli and packed, of gzip, are the forms that the build made, nil if it made none.
	brotli, packed []byte
	plain          func() ([]byte, error)
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
	stored := map[string][]byte{}
	err := fs.WalkDir(dist, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == sourcesName {
			return err
		}
		stored[name], err = fs.ReadFile(dist, name)
		return err
	})
	p := &Pages{files: map[string]*file{}}
	for name := range stored {
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, brotliSuffix) {
			continue
		}
		name = strings.TrimSuffix(name, gzipSuffix)
		p.files["/"+name], err = newFile(name, stored)
	}
	return p, err
}

// Endings of files that hold the compressed form of another.
const (
	brotliSuffix = ".br"
	gzipSuffix   = ".gz"
)

// sourcesName is the file in which the build records the hash of its sources.
const sourcesName = "sources.sha256"

// kinds are the types that the system's own table may lack or name otherwise.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".webmanifest": "application/manifest+json", ".woff2": "font/woff2",
}

// newFile returns the file of that name from all that is stored.
func newFile(name string, stored map[string][]byte) (*file, error) {
	kind, ok := kinds[path.Ext(name)]
	if !ok {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	f := &file{
		kind:    kind,
		forever: strings.HasPrefix(name, "assets/"),
		brotli:  stored[name+brotliSuffix],
		packed:  stored[name+gzipSuffix],
		policy:  policyOf(nil),
	}
	content := f.packed
	f.plain = sync.OnceValues(func() ([]byte, error) { return unpack(content) })
	if f.packed == nil {
		content = stored[name]
		f.plain = func() ([]byte, error) { return content, nil }
	}
	sum := sha256.Sum256(content)
	f.tag = hex.EncodeToString(sum[:8])
	if path.Ext(name) != ".html" {
		return f, nil
	}
	plain, err := f.plain()
	f.policy = policyOf(plain)
	return f, err
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
	body, encoding, err := f.bodyFor(h, r.Header.Values("Accept-Encoding"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
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
func (f *file) bodyFor(h http.Header, accepted []string) (body []byte, encoding string, err error) {
	if f.brotli != nil || f.packed != nil {
		h.Add("Vary", "Accept-Encoding")
	}
	switch {
	case f.brotli != nil && accepts(accepted, "br"):
		return f.brotli, "br", nil
	case f.packed != nil && accepts(accepted, "gzip"):
		return f.packed, "gzip", nil
	}
	body, err = f.plain()
	return body, "", err
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
