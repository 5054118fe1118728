package kvstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"parley"
	"parley/internal/testkit"
)

// placeAt opens a place that is closed with the test.
func placeAt(t *testing.T, url string) place {
	t.Helper()
	p, err := openPlace(url, time.Hour, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.close() })
	return p
}

// keeps wants a place to keep what is written.
func keeps(t *testing.T, p place) {
	t.Helper()
	ctx := t.Context()
	const size, count = 100_000, 40
	var keys []string
	values := make([]byte, size*count)
	_, _ = rand.Read(values)
	for i := range count {
		keys = append(keys, keyOf("digest", &parley.BlockHash{byte(i)}))
		if i == 30 {
			continue
		}
		if err := p.write(ctx, keys[i], values[i*size:(i+1)*size]); err != nil {
			t.Fatal(err)
		}
	}
	room := make([]byte, size*count)
	n, err := p.read(ctx, keys, room)
	if n != 30 || err != nil || !bytes.Equal(room[:30*size], values[:30*size]) {
		t.Errorf("%d values came, %v; want 30", n, err)
	}
	there, err := p.renew(ctx, keys[29:32])
	if err != nil || fmt.Sprint(there) != "[true false true]" {
		t.Errorf("%v are there, %v", there, err)
	}
	if err := p.remove(ctx, keys[2]); err != nil {
		t.Error(err)
	}
	if err := p.remove(ctx, keys[30]); err != nil {
		t.Errorf("what is not there cannot be removed: %v", err)
	}
	if n, err := p.read(ctx, keys[:5], room[:5*size]); n != 2 || err != nil {
		t.Errorf("%d values came after the third was removed, %v", n, err)
	}
	for what, less := range map[string]int{"longer": -1, "shorter": 1} {
		if n, err := p.read(ctx, keys[:1], make([]byte, size+less)); n != 0 || !errors.Is(err, errDamaged) {
			t.Errorf("a value that is %s than it should be: %d came, %v", what, n, err)
		}
	}
	if n, err := p.read(ctx, keys[:1], room[:size]); n != 1 || err != nil {
		t.Errorf("after that %d values came, %v", n, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if n, err := p.read(ended, keys[:1], room[:size]); n != 0 || reasonOf(ended, err) != "cancelled" {
		t.Errorf("a read that was cancelled: %d came, %v", n, err)
	}
}

func TestStoreInRedis(t *testing.T) { keeps(t, placeAt(t, testkit.StartRedis(t).URL)) }

func TestStoreInARedisCluster(t *testing.T) { keeps(t, placeAt(t, testkit.StartRedisCluster(t))) }

func TestStoreInABucket(t *testing.T) { keeps(t, placeAt(t, testkit.StartS3(t))) }

// TestStoreInABucketIsRefused shows wrong credentials to a real server.
func TestStoreInABucketIsRefused(t *testing.T) {
	url := testkit.StartS3(t)
	for name, test := range map[string]struct{ url, reason string }{
		"secret": {strings.Replace(url, "secret%2F", "other", 1), "refused"},
		"name":   {strings.Replace(url, "tester:", "nobody:", 1), "failing"},
		"bucket": {strings.Replace(url, "@blocks/", "@absent/", 1), "failing"},
		"region": {url + "&region=eu-west-1", "failing"},
	} {
		p := placeAt(t, test.url)
		err := p.write(t.Context(), "key", []byte("value"))
		if reason := reasonOf(t.Context(), err); reason != test.reason && reason != "refused" {
			t.Errorf("wrong %s: %q, %v", name, reason, err)
		}
		if n, err := p.read(t.Context(), []string{"key"}, make([]byte, 5)); n != 0 || err == nil {
			t.Errorf("wrong %s: %d values came, %v", name, n, err)
		}
	}
}

// TestFaultsOfRedis has a real server be full, want a password, hold something else under a key,
// be silent and be gone.
func TestFaultsOfRedis(t *testing.T) {
	server := testkit.StartRedis(t)
	options, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(options)
	t.Cleanup(func() { _ = admin.Close() })
	set := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p := placeAt(t, server.URL)
	wants := func(what, want string, err error) {
		t.Helper()
		if got := reasonOf(t.Context(), err); got != want {
			t.Errorf("%s: %q, want %q: %v", what, got, want, err)
		}
	}
	room := make([]byte, 1<<10)
	read := func(key string) error {
		_, err := p.read(t.Context(), []string{key}, room)
		return err
	}
	set("config", "set", "maxmemory", "1mb", "maxmemory-policy", "noeviction")
	wants("full", "full", p.write(t.Context(), "large", make([]byte, 2<<20)))
	wants("read while full", "", read("other"))
	set("config", "set", "maxmemory", "0")
	set("rpush", "list", "x")
	wants("a list", "damaged", read("list"))
	set("config", "set", "requirepass", "secret")
	wants("password", "refused", func() error {
		_, err := placeAt(t, server.URL).read(t.Context(), []string{"x"}, room)
		return err
	}())
	wants("write without password", "refused", placeAt(t, server.URL).write(t.Context(), "x", room))
	set("config", "set", "requirepass", "")
	server.Pause(t)
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = p.read(soon, []string{"x"}, room)
	if got := reasonOf(soon, err); got != "too slow" {
		t.Errorf("silent: %q, %v", got, err)
	}
	server.Resume(t)
	server.Stop()
	wants("gone", "unreachable", read("x"))
	wants("write to one that is gone", "unreachable", p.write(t.Context(), "x", room))
}

// A fakeBucket answers as its function says.
func fakeBucket(t *testing.T, answer http.HandlerFunc) place {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return placeAt(t, "s3://id:secret@bucket/prefix?endpoint="+server.URL)
}

// TestFaultsOfABucket has a server refuse, be overloaded, redirect, fail, send less or more than
// it should, and be silent.
func TestFaultsOfABucket(t *testing.T) {
	const size = 1000
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<Error>said</Error>", code) }
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		read   string
		write  string
	}{
		"403": {status(403), "refused", "refused"},
		"401": {status(401), "refused", "refused"},
		"503": {status(503), "busy", "busy"},
		"429": {status(429), "busy", "busy"},
		"500": {status(500), "failing", "failing"},
		"507": {status(507), "full", "full"},
		"404": {status(404), "", "failing"},
		"no bucket": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<Code>NoSuchBucket</Code>", 404) },
			"failing", "failing"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "failing", "failing"},
		"shorter": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size-1)) },
			"damaged", ""},
		"longer": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size+1)) },
			"damaged", ""},
		"longer than it says": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush() // chunked
			_, _ = w.Write(make([]byte, size+1))
		}, "damaged", ""},
		"cut off": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = w.Write(make([]byte, size/2))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "cut off", ""},
		"hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"unreachable", "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fakeBucket(t, test.answer)
			n, err := p.read(t.Context(), []string{"a", "b", "c"}, make([]byte, 3*size))
			if got := reasonOf(t.Context(), err); n != 0 || got != test.read {
				t.Errorf("read: %d came, %q, want %q: %v", n, got, test.read, err)
			}
			err = p.write(t.Context(), "a", make([]byte, size))
			if got := reasonOf(t.Context(), err); got != test.write {
				t.Errorf("write: %q, want %q: %v", got, test.write, err)
			}
		})
	}
	t.Run("silent", func(t *testing.T) {
		p := fakeBucket(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		n, err := p.read(ctx, []string{"a"}, make([]byte, size))
		if got := reasonOf(ctx, err); n != 0 || got != "too slow" {
			t.Errorf("%d came, %q, %v", n, got, err)
		}
	})
}

// TestRequestsAreSigned compares a signature with one that another program made of the same request,
// and what is sent with what was signed.
func TestRequestsAreSigned(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com/a%20b/c~d", nil)
	s := signer{id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region: "us-east-1"}
	s.sign(r, sha256.Sum256(nil), time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, " +
		"SignedHeaders=host;x-amz-content-sha256;x-amz-date, " +
		"Signature=606fb2d1cdac34a29dc855de2dfcaac6195a8cbd725962196208f7187230a918"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	var mu sync.Mutex
	var seen []string
	p := fakeBucket(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("X-Amz-Content-Sha256")[:8])
	})
	if err := p.write(t.Context(), "a b", []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(seen, ";"); got != "PUT /bucket/prefix/a%20b ba7816bf" {
		t.Error(got)
	}
}

// TestURLsOfStores reads good and bad ones.
func TestURLsOfStores(t *testing.T) {
	env := map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1"}
	for url, want := range map[string]string{
		"redis://host:6379/0":                          "redis host:6379",
		"rediss://user:pass@host:6379":                 "rediss host:6379",
		"valkey://host":                                "valkey host",
		"unix:///run/redis.sock?db=0":                  "redis /run/redis.sock",
		"redis-cluster://a:1?addr=b:2":                 "redis-cluster a:1",
		"valkeys-cluster://a:1":                        "valkeys-cluster a:1",
		"s3://bucket":                                  "https://bucket.s3.eu-west-1.amazonaws.com",
		"s3://bucket/a/b/?endpoint=http://h:9000/":     "http://h:9000/bucket/a/b",
		"s3://bucket?endpoint=https://h&style=virtual": "https://bucket.h",
		"s3://bucket?region=us-west-2":                 "https://bucket.s3.us-west-2.amazonaws.com",
		"":                                             "error: ",
		"memcached://host":                             "error: memcached",
		"redis://user:pa%zz@host":                      "error: not a URL",
		"redis://h/notanumber":                         "error: ",
		"s3:///prefix":                                 "error: no bucket",
		"s3://bucket?endpoint=ftp://h":                 "error: endpoint",
		"s3://bucket?endpoint=http://h&style=other":    "error: style",
		"s3://bucket?endpoint=http://h&secret=x":       "error: parameter",
		"s3://:@bucket?endpoint=http://h":              "error: credentials",
	} {
		p, err := openPlace(url, time.Hour, func(key string) string { return env[key] })
		if word, bad := strings.CutPrefix(want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "pa%") {
				t.Errorf("%s: %v, want %q in it", url, err, word)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		got := p.name()
		if b, ok := p.(*bucket); ok {
			got = b.root.String()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
		_ = p.close()
	}
	if _, err := openPlace("s3://bucket", time.Hour, func(string) string { return "" }); err == nil {
		t.Error("a bucket was opened without credentials")
	}
}
