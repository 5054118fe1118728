package testkit

import (
	"crypto/sha1" //nolint:gosec // git names its objects by it
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// HubCommit is the commit that every repository of a [Hub] is at.
const HubCommit = "0123456789abcdef0123456789abcdef01234567"

// A Hub is a web server that speaks the protocol of the Hugging Face Hub: a listing
// with checksums, large files behind a redirect to blob storage on another host with a
// signature in the address, small ones behind a redirect on the same host. Storage
// fails the test if it is shown a token.
type Hub struct {
	t       testing.TB
	Server  *httptest.Server
	Storage *httptest.Server

	mu    sync.Mutex
	repos map[string]map[string][]byte
	// Token is what the Hub wants to be shown; empty for nothing. Gated makes
	// repositories ask for consent, which no token has.
	Token string
	Gated bool
	// Listing is sent instead of what is true, if it is not nil.
	Listing any
	// BreakAfter ends every answer of the storage after that many bytes; 0 for never.
	BreakAfter int
	// NoRanges makes the storage send whole files alone; Corrupt flips a bit in them.
	NoRanges, Corrupt bool
	// Refusals are statuses that the next requests to the storage get instead, and
	// RetryAfter the seconds they say.
	Refusals   []int
	RetryAfter int
	// Gate, if not nil, is received from before each answer of the storage.
	Gate chan struct{}

	active   sync.WaitGroup
	sent     int64
	requests int
}

// largeBytes is from which size on files are in large file storage.
const largeBytes = 4 << 10

// NewHub starts a Hub that the test ends.
func NewHub(t testing.TB) *Hub {
	h := &Hub{t: t, repos: map[string]map[string][]byte{}}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	h.Storage = httptest.NewServer(http.HandlerFunc(h.serveBlob))
	t.Cleanup(h.Server.Close)
	t.Cleanup(h.Storage.Close)
	return h
}

// Add puts a file into a repository.
func (h *Hub) Add(repo, path string, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.repos[repo] == nil {
		h.repos[repo] = map[string][]byte{}
	}
	h.repos[repo][path] = data
}

// Sent returns how many bytes the storage has sent, and how often it was asked. It waits
// until the storage has noticed that clients left.
func (h *Hub) Sent() (bytes int64, requests int) {
	h.active.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent, h.requests
}

// Set changes how the Hub behaves while it runs.
func (h *Hub) Set(change func(*Hub)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/api/resolve-cache/models/"); ok {
		repo, file, _ := strings.Cut(rest, "/"+HubCommit+"/")
		data := h.repos[repo][file]
		w.Header().Set("ETag", `"`+gitSHA1(data)+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
		return
	}
	repo, rest, isFile := strings.Cut(strings.TrimPrefix(path, "/"), "/resolve/")
	if !isFile {
		repo, rest, _ = strings.Cut(strings.TrimPrefix(path, "/api/models/"), "/revision/")
	}
	if !h.admits(w, r, repo) {
		return
	}
	if !isFile {
		h.list(w, repo, rest)
		return
	}
	rev, file, _ := strings.Cut(rest, "/")
	data, ok := h.repos[repo][file]
	if !ok || rev != HubCommit && rev != "main" {
		refuse(w, http.StatusNotFound, "EntryNotFound")
		return
	}
	w.Header().Set("X-Repo-Commit", HubCommit)
	if len(data) < largeBytes {
		http.Redirect(w, r, "/api/resolve-cache/models/"+repo+"/"+HubCommit+"/"+file, http.StatusTemporaryRedirect)
		return
	}
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(data)))
	w.Header().Set("X-Linked-Etag", `"`+sha256Hex(data)+`"`)
	http.Redirect(w, r, h.Storage.URL+"/blobs/"+repo+"/"+file+"?Signature=secret", http.StatusFound)
}

// admits checks the token as the Hub does: a repository that the caller may not see
// looks like one that does not exist.
func (h *Hub) admits(w http.ResponseWriter, r *http.Request, repo string) bool {
	shown := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case h.Token != "" && shown != h.Token:
		refuse(w, http.StatusUnauthorized, "RepoNotFound")
	case h.Gated:
		refuse(w, http.StatusForbidden, "GatedRepo")
	case h.repos[repo] == nil && shown == "":
		refuse(w, http.StatusUnauthorized, "RepoNotFound")
	case h.repos[repo] == nil:
		refuse(w, http.StatusNotFound, "RepoNotFound")
	default:
		return true
	}
	return false
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Error-Code", code)
	w.WriteHeader(status)
}

func (h *Hub) list(w http.ResponseWriter, repo, rev string) {
	if h.Listing != nil {
		_ = json.NewEncoder(w).Encode(h.Listing)
		return
	}
	if rev != "main" && rev != HubCommit {
		refuse(w, http.StatusNotFound, "RevisionNotFound")
		return
	}
	var siblings []any
	for name, data := range h.repos[repo] {
		s := map[string]any{"rfilename": name, "size": len(data), "blobId": gitSHA1(data)}
		if len(data) >= largeBytes {
			s["lfs"] = map[string]any{"sha256": sha256Hex(data), "size": len(data), "pointerSize": 134}
		}
		siblings = append(siblings, s)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": repo, "sha": HubCommit, "tags": []string{"gguf", "license:apache-2.0"}, "siblings": siblings,
	})
}

func (h *Hub) serveBlob(w http.ResponseWriter, r *http.Request) {
	h.active.Add(1)
	defer h.active.Done()
	if r.Header.Get("Authorization") != "" {
		h.t.Errorf("the storage was shown a token: %s", r.URL)
	}
	h.mu.Lock()
	h.requests++
	gate, limit := h.Gate, h.BreakAfter
	repo, file := splitBlob(strings.TrimPrefix(r.URL.Path, "/blobs/"))
	data := h.repos[repo][file]
	status := 0
	if len(h.Refusals) > 0 {
		status, h.Refusals = h.Refusals[0], h.Refusals[1:]
	}
	if h.NoRanges {
		r.Header.Del("Range")
	}
	if h.Corrupt {
		data = append([]byte(nil), data...)
		data[len(data)/2] ^= 1
	}
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if status != 0 {
		w.Header().Set("Retry-After", strconv.Itoa(h.RetryAfter))
		w.WriteHeader(status)
		return
	}
	w.Header().Set("ETag", `"`+sha256Hex(data)[:32]+`"`)
	out := &limitedAnswer{ResponseWriter: w, hub: h, left: limit}
	if limit == 0 {
		out.left = len(data) + 1
	}
	http.ServeContent(out, r, "", time.Time{}, strings.NewReader(string(data)))
}

func splitBlob(path string) (repo, file string) {
	parts := strings.SplitN(path, "/", 3)
	return parts[0] + "/" + parts[1], parts[2]
}

// A limitedAnswer counts what is sent, and breaks the connection when it was enough.
type limitedAnswer struct {
	http.ResponseWriter
	hub  *Hub
	left int
}

// Write sends what is left to send.
func (c *limitedAnswer) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	c.hub.mu.Lock()
	c.hub.sent += int64(n)
	c.hub.mu.Unlock()
	if _, err := c.ResponseWriter.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func gitSHA1(data []byte) string {
	sum := sha1.New()
	fmt.Fprintf(sum, "blob %d\x00%s", len(data), data)
	return hex.EncodeToString(sum.Sum(nil))
}
