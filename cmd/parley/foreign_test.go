package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A door shows only some routes of a server, or all if none are named, and can break answers off.
type door struct {
	*httptest.Server
	routes   []string
	cutAfter atomic.Int64 // bytes of an answer; less than 0 none
	asked    atomic.Int64
	left     atomic.Int64 // answers whose reader left
}

func newDoor(t *testing.T, to string, routes ...string) *door {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{routes: routes}
	d.cutAfter.Store(-1)
	behind := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(d.routes) == 0 || slices.Contains(d.routes, r.URL.Path) {
			if r.Method == http.MethodPost {
				// A server may answer before the proxy has seen the end of the body, and the proxy would
				// break that answer off.
				body, err := io.ReadAll(r.Body)
				if err != nil {
					panic(http.ErrAbortHandler)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				d.asked.Add(1)
				defer context.AfterFunc(r.Context(), func() { d.left.Add(1) })()
			}
			behind.ServeHTTP(&cutting{ResponseWriter: w, door: d, posted: r.Method == http.MethodPost}, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(d.Close)
	return d
}

// cutting writes an answer until its door wants no more.
type cutting struct {
	http.ResponseWriter
	door   *door
	posted bool
	n      int64
}

func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutting) WriteHeader(status int) {
	if c.posted && c.door.cutAfter.Load() == 0 {
		panic(http.ErrAbortHandler)
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *cutting) Write(p []byte) (int, error) {
	before := c.n
	c.n += int64(len(p))
	if most := c.door.cutAfter.Load(); c.posted && most >= 0 && c.n > most {
		if before < most { // the bytes up to there are read, however many came at once
			_, _ = c.ResponseWriter.Write(p[:most-before])
			_ = http.NewResponseController(c.ResponseWriter).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// frontOf serves polly-mini with workers as a configuration has them.
func frontOf(t *testing.T, config string) *crew {
	t.Helper()
	return frontIn(t, t.TempDir(), config)
}

// frontIn is frontOf with its data in a directory.
func frontIn(t *testing.T, data, config string) *crew {
	t.Helper()
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServerIn(t, data, append([]string{"--config", path}, calmly[2:]...)...)
	go func() {
		for range s.lines {
		}
	}()
	return &crew{t: t, front: s}
}

// post sends a body and returns status and answer.
func post(t *testing.T, at, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(at, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(bodyOf(t, resp))
}

// bodyOf reads all of an answer.
func bodyOf(t *testing.T, resp *http.Response) []byte {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// leave begins to read a stream and breaks it off after its first bytes.
func leave(t *testing.T, at, body string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 400)); err != nil {
		t.Fatal(err)
	}
}

// TestServersWithChatAlone drives two doors to a real server that show nothing but
// chat completions: answers come through whole, a client that leaves is noticed,
// one that is lost before its first word is asked elsewhere, and after it the
// client is told.
func TestServersWithChatAlone(t *testing.T) {
	behind := startServer(t, calmly...)
	go func() {
		for range behind.lines {
		}
	}()
	a, b := newDoor(t, behind.url, "/v1/models", "/v1/chat/completions"), newDoor(t, behind.url, "/v1/models",
		"/v1/chat/completions")
	c := frontOf(t, `model: polly-mini
pools:
  - name: foreign
    purpose: any
    workers: [{url: "`+a.URL+`", kind: openai-chat}, {url: "`+b.URL+`", kind: openai-chat}]
`)
	c.ready(2)
	body := wishes()[0]
	want, err := hearAll(t.Context(), behind.url, body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := hearAll(t.Context(), c.front.url, body); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: got %+v, want %+v", err, got, want)
	}
	if status, text := post(t, c.front.url+"/v1/completions",
		`{"model":"polly-mini","prompt":"Once"}`); status != 400 ||
		!strings.Contains(text, "accept only conversations") {
		t.Errorf("a completion gives %d: %s", status, text)
	}
	leave(t, c.front.url+"/v1/chat/completions", body)
	for until := time.Now().Add(time.Minute); a.left.Load()+b.left.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("nobody noticed that the client left")
		}
	}
	c.loseBeforeAndAfter([]*door{a, b}, body, want)
}

// loseBeforeAndAfter has one of two doors cut its answers before their first
// word, and then both after some.
func (c *crew) loseBeforeAndAfter(doors []*door, body string, want heardStream) {
	c.t.Helper()
	slices.SortFunc(doors, func(a, b *door) int { return cmp.Compare(b.asked.Load(), a.asked.Load()) })
	doors[0].cutAfter.Store(0) // that which requests go to
	for range 8 {
		if got, err := hearAll(c.t.Context(), c.front.url, body); err != nil || !reflect.DeepEqual(got, want) {
			c.t.Errorf("lost before its first word, %v: got %+v, want %+v", err, got, want)
		}
	}
	if c.moved() == 0 {
		c.t.Error("nothing had to move, so nothing was shown")
	}
	for _, d := range doors {
		d.cutAfter.Store(2000)
	}
	c.settle("up", 2)
	got, err := hearAll(c.t.Context(), c.front.url, body)
	if err == nil || got.Done || !strings.Contains(err.Error(), "cannot be resumed") {
		c.t.Errorf("lost after its first words, the client hears %v, %+v", err, got)
	}
	if said := got.Text[0]; said == "" || !strings.HasPrefix(want.Text[0], said) {
		c.t.Errorf("it had said %q of %q", said, want.Text[0])
	}
}

// TestWorkersOfSeveralModels has one foreign server with two models, one of them
// under another name, and a worker of ours with one of them.
func TestWorkersOfSeveralModels(t *testing.T) {
	behind := startServer(t, append([]string{"--model", "theirs=polly-mini"}, calmly...)...)
	go func() {
		for range behind.lines {
		}
	}()
	d := newDoor(t, behind.url, "/v1/models", "/v1/completions")
	c := frontOf(t, `model: [polly-mini, ours=polly-mini]
pools:
  - name: foreign
    purpose: any
    workers: [{url: "`+d.URL+`", kind: openai, models: {ours: theirs}}]
`)
	c.ready(1)
	s := c.standings()[0]
	if len(s.Models) != 2 || !strings.Contains(strings.Join(s.Models, " "), "ours") ||
		!strings.Contains(strings.Join(s.Models, " "), "polly-mini") {
		t.Errorf("it has %v", s.Models)
	}
	for _, model := range []string{"polly-mini", "ours"} {
		body := strings.Replace(wishes()[0], `"polly-mini"`, `"`+model+`"`, 1)
		h, err := hearAll(t.Context(), c.front.url, body)
		if err != nil || h.Text[0] == "" {
			t.Errorf("%s: %v, %+v", model, err, h)
		}
	}
	if d.asked.Load() != 2 {
		t.Errorf("the server was asked %d times for two models", d.asked.Load())
	}
}

// TestUnknownModelsDoNotJoin leaves a worker out that serves nothing of ours, and
// says what to do.
func TestUnknownModelsDoNotJoin(t *testing.T) {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, bytes.NewReader([]byte(`{"object":"list","data":[{"id":"somebody/else"}]}`)))
	}))
	defer behind.Close()
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path,
		[]byte("model: polly-mini\npools: [{name: p, workers: [{url: \""+behind.URL+"\", kind: openai}]}]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--config", path)
	after := time.After(time.Minute)
	for {
		select {
		case line := <-s.lines:
			if strings.Contains(line, "serves somebody/else, which is not a model of this server") &&
				strings.Contains(line, "models: {OURS: THEIRS}") {
				return
			}
		case <-after:
			t.Fatal("nobody was told")
		}
	}
}
