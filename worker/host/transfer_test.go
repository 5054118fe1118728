package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/compute"
	"parley/worker"
	"parley/worker/kvwire"
)

const transferKey = "the key of the fleet"

// transferPrompt is some hundred tokens, and its salt a tenant's.
func transferPrompt(t *testing.T, s *Server) *parley.Request {
	t.Helper()
	return &parley.Request{
		Model:     "polly-mini",
		Prompt:    chatPrompt(t, s.awake.Host, strings.Repeat(longQuestion+" ", 8)),
		MaxTokens: 24,
		Salt:      parley.Salt{1, 2, 3},
		Tenant:    "acme",
		Stop:      parley.Stop{IgnoreEnd: true},
	}
}

// sourceOf is a worker that others fetch from, as a gateway would name it.
func sourceOf(s *Server, url string) *parley.BlockSource {
	return &parley.BlockSource{
		Worker: "source",
		URL:    url,
		Ticket: kvwire.Sign(transferKey, s.instance, time.Now().Add(kvwire.TicketLife)),
		Tokens: 1 << 20,
		Within: time.Minute,
	}
}

// askTransfer returns an answer, its usage and what was fetched.
func askTransfer(t *testing.T, w parley.Worker, r *parley.Request) (tokens []parley.Token, u parley.Usage,
	moved *parley.Transfer) {
	t.Helper()
	for d, err := range w.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, d.Tokens...)
		if d.Transfer != nil {
			moved = d.Transfer
		}
		if d.Usage != nil {
			u = *d.Usage
		}
	}
	return tokens, u, moved
}

// sound wants all blocks of a worker accounted for once it is idle.
func sound(t *testing.T, workers ...*Server) {
	t.Helper()
	for _, s := range workers {
		deadline := time.Now().Add(time.Minute)
		for s.awake.Stats().Pool.InUse > 0 {
			if time.Now().After(deadline) {
				t.Fatalf("blocks are still in use: %+v", s.awake.Stats().Pool)
			}
			time.Sleep(time.Millisecond)
		}
		if n := s.awake.Stats().Repairs; n > 0 {
			t.Errorf("the account of blocks was wrong %d times", n)
		}
	}
}

// TestWorkersFetchBlocks has one worker compute a prompt and another fetch its blocks, over
// all types of the pool, greedily and with seeds: the tokens are those of the first.
func TestWorkersFetchBlocks(t *testing.T) {
	for kind := range compute.KVType(compute.KVTypes) {
		t.Run(kind.String(), func(t *testing.T) {
			model := Config{KVTokens: 8192, ContextTokens: 2048, KVType: kind}
			from, fromURL := startWorker(t, ServerConfig{Key: transferKey}, model)
			to, toURL := startWorker(t, ServerConfig{Key: transferKey}, model)
			first := dialWorker(t, worker.Config{URL: fromURL, Kind: worker.Parley, Key: transferKey})
			second := dialWorker(t, worker.Config{URL: toURL, Kind: worker.Parley, Key: transferKey})
			r := transferPrompt(t, from)
			for seed := range uint64(3) {
				if seed > 0 {
					r.Sampling = parley.Sampling{Temperature: 0.9, Seed: seed}
					r.Prompt = append(slices.Clone(r.Prompt[:len(r.Prompt)-3]), r.Prompt[seed:seed+20]...)
				}
				want, _, _ := askTransfer(t, first, r)
				fetching := *r
				fetching.Fetch = sourceOf(from, fromURL)
				got, u, moved := askTransfer(t, second, &fetching)
				if !slices.Equal(got, want) {
					t.Errorf("seed %d: %v, want %v", seed, got, want)
				}
				full := (len(r.Prompt) - 1) / compute.BlockTokens * compute.BlockTokens
				if moved == nil || moved.Miss != "" || moved.Shared != (runtime.GOOS == "linux") ||
					moved.CameTokens == 0 || moved.CameTokens != moved.AskedTokens ||
					u.CachedTokens != full || moved.From != "source" {
					t.Errorf("seed %d: %+v came, %d of %d tokens cached", seed, moved, u.CachedTokens, full)
				}
			}
			sound(t, from, to)
		})
	}
}

// tamperWith stands before a worker and changes the blocks that it gives.
func tamperWith(t *testing.T, target string, change func(*http.Response) error) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval, proxy.ModifyResponse = -1, change
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The transport looks for the end of a body when it has sent all of it. A server closes the body of a request
		// when it begins to answer, so that look would fail at times, and break the answer off.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// untilLeft is a body of which nothing comes until its reader has left.
func untilLeft(resp *http.Response) io.Reader {
	r, w := io.Pipe()
	context.AfterFunc(resp.Request.Context(), func() { w.Close() })
	return r
}

// A closeReader reads from one reader and closes another.
type closeReader struct {
	io.Reader
	io.Closer
}

// TestFaultsOfAPeerChangeNoToken has the source damage a block, end the stream early, send
// nothing, refuse, be gone and be of another kind: the answer has the same tokens.
func TestFaultsOfAPeerChangeNoToken(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { testFaultsOfAPeer(t, way) })
	}
}

// ways are how blocks come.
var ways = map[string]kvwire.Config{
	"TCP":            {ShareFrom: -1, Streams: 1},
	"TCP in streams": {ShareFrom: -1, Streams: kvwire.StreamsMax, StreamFrom: 1},
	"shared memory":  {ShareFrom: 1},
}

// firstBroken returns how many blocks come before the first that does not, if each stream breaks after a number of
// whole ones and they have some altogether.
func firstBroken(way kvwire.Config, whole, blocks int) int {
	return min(whole*max(1, way.Streams), blocks)
}

// isCame reports whether the tokens came that should have. Of several streams, those that begin after the first one
// has broken off are refused.
func isCame(way kvwire.Config, tokens, want int) bool {
	return tokens == want || way.Streams > 1 && 0 < tokens && tokens < want
}

// frameBytes returns how long the frame of a block is.
func frameBytes(s *Server, way kvwire.Config) int {
	if way.ShareFrom > 0 && runtime.GOOS == "linux" {
		return 5
	}
	return 5 + s.awake.format.BlockBytes
}

func testFaultsOfAPeer(t *testing.T, way kvwire.Config) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	from, fromURL := startWorker(t, ServerConfig{Key: transferKey}, model)
	r := transferPrompt(t, from)
	want, _, _ := askTransfer(t, from, r)
	frame := frameBytes(from, way)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	tampered := func(change func(io.Reader) io.Reader) string {
		return tamperWith(t, fromURL, func(resp *http.Response) error {
			resp.Body = closeReader{change(resp.Body), resp.Body}
			return nil
		})
	}
	silent := tamperWith(t, fromURL, func(resp *http.Response) error {
		resp.Body = closeReader{untilLeft(resp), resp.Body}
		return nil
	})
	other := Config{KVTokens: 8192, ContextTokens: 2048, KVType: compute.KVBF16}
	unlike, unlikeURL := startWorker(t, ServerConfig{Key: transferKey}, other)
	for name, test := range map[string]struct {
		url, ticket string
		within      time.Duration
		blocks      int // that came before the fault
		miss        string
	}{
		"damaged": {blocks: 2, miss: "damaged", url: tampered(func(from io.Reader) io.Reader {
			return &flippedReader{from, 2*frame + frame - 1}
		})},
		"truncated": {blocks: 3, miss: "cut off", url: tampered(func(from io.Reader) io.Reader {
			return io.LimitReader(from, int64(3*frame+frame/2))
		})},
		"slow":            {miss: "too slow", within: 50 * time.Millisecond, url: silent},
		"no ticket":       {miss: "refused", url: fromURL, ticket: "none"},
		"gone":            {miss: "unreachable", url: "http://" + nobody.Addr().String()},
		"of another type": {miss: "incompatible", url: unlikeURL},
	} {
		t.Run(name, func(t *testing.T) {
			to, _ := startWorker(t, ServerConfig{Key: transferKey, Fetch: way}, model)
			fetching := *r
			fetching.Fetch = sourceOf(from, test.url)
			if test.url == unlikeURL {
				fetching.Fetch = sourceOf(unlike, test.url)
			}
			if test.ticket != "" {
				fetching.Fetch.Ticket = test.ticket
			}
			if test.within != 0 {
				fetching.Fetch.Within = test.within
			}
			got, u, moved := askTransfer(t, to, &fetching)
			if !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			came := firstBroken(way, test.blocks, (len(r.Prompt)-1)/compute.BlockTokens) * compute.BlockTokens
			if moved.Miss != test.miss || !isCame(way, moved.CameTokens, came) ||
				u.CachedTokens != moved.CameTokens {
				t.Errorf("%+v, %d cached; want %q and %d", moved, u.CachedTokens, test.miss, came)
			}
			sound(t, from, to)
		})
	}
}

// TestADeadlineHeedsWhatComes has a part of the blocks come at once, and the others after the deadline or never. If the
// source still computes them, a fetch of which half has come is given the same time again.
func TestADeadlineHeedsWhatComes(t *testing.T) {
	const within = 2 * time.Second
	model, way := Config{KVTokens: 8192, ContextTokens: 2048}, ways["TCP"]
	from, fromURL := startWorker(t, ServerConfig{Key: transferKey}, model)
	r := transferPrompt(t, from)
	want, _, _ := askTransfer(t, from, r)
	blocks := (len(r.Prompt) - 1) / compute.BlockTokens
	for name, test := range map[string]struct {
		computes, continues bool
		atOnce              int // blocks
		came                int
		miss                string
	}{
		"half has come":            {computes: true, continues: true, atOnce: blocks/2 + 1, came: blocks},
		"half has come, then none": {computes: true, atOnce: blocks/2 + 1, came: blocks/2 + 1, miss: "too slow"},
		"less than half has come":  {computes: true, continues: true, atOnce: 1, came: 1, miss: "too slow"},
		"without a request":        {continues: true, atOnce: blocks/2 + 1, came: blocks/2 + 1, miss: "too slow"},
	} {
		t.Run(name, func(t *testing.T) {
			to, _ := startWorker(t, ServerConfig{Key: transferKey, Fetch: way}, model)
			paused := tamperWith(t, fromURL, func(resp *http.Response) error {
				rest := untilLeft(resp)
				if test.continues {
					late := sync.OnceFunc(func() { pause(resp.Request.Context(), within*3/2) })
					rest = &onRead{late, resp.Body}
				}
				some := io.LimitReader(resp.Body, int64(test.atOnce*frameBytes(from, way)))
				resp.Body = closeReader{io.MultiReader(some, rest), resp.Body}
				return nil
			})
			fetching := *r
			fetching.Fetch = sourceOf(from, paused)
			fetching.Fetch.Within = within
			if test.computes {
				fetching.Fetch.Request = "a request"
			}
			got, u, moved := askTransfer(t, to, &fetching)
			if !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			came := test.came * compute.BlockTokens
			if moved.Miss != test.miss || moved.CameTokens != came || u.CachedTokens != came {
				t.Errorf("%+v, %d cached; want %q and %d", moved, u.CachedTokens, test.miss, came)
			}
			sound(t, from, to)
		})
	}
}

// pause returns after a time, or at the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A flippedReader changes a bit.
type flippedReader struct {
	io.Reader
	at int
}

func (f *flippedReader) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if f.at >= 0 && f.at < n {
		b[f.at] ^= 1
	}
	f.at -= n
	return n, err
}

// TestAFetchIsCancelled ends requests while they fetch: nothing is left on either side, and
// the next request is answered as ever.
func TestAFetchIsCancelled(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { testAFetchIsCancelled(t, way) })
	}
}

func testAFetchIsCancelled(t *testing.T, way kvwire.Config) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	from, fromURL := startWorker(t, ServerConfig{Key: transferKey}, model)
	to, _ := startWorker(t, ServerConfig{Key: transferKey, Fetch: way}, model)
	r := transferPrompt(t, from)
	want, _, _ := askTransfer(t, from, r)
	frame := frameBytes(from, way)
	for blocks := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		withdrawal := &parley.Withdrawal{}
		fetching := *r
		fetching.Salt = parley.Salt{byte(blocks), 9}
		askTransfer(t, from, &fetching)
		through := tamperWith(t, fromURL, func(resp *http.Response) error {
			left := int64(blocks*frame + 2)
			end := func() {
				if blocks%2 == 0 {
					cancel()
				} else {
					withdrawal.Ask()
				}
			}
			some := io.MultiReader(io.LimitReader(resp.Body, left), &onRead{end, untilLeft(resp)})
			resp.Body = closeReader{some, resp.Body}
			return nil
		})
		fetching.Fetch = sourceOf(from, through)
		var last error
		for _, err := range to.Generate(parley.WithWithdrawal(ctx, withdrawal), &fetching) {
			last = err
		}
		if code := parley.CodeOf(last); code != parley.Cancelled && code != parley.Withdrawn {
			t.Errorf("after %d blocks: %v", blocks, last)
		}
		cancel()
	}
	fetching := *r
	fetching.Fetch = sourceOf(from, fromURL)
	if got, _, moved := askTransfer(t, to, &fetching); !slices.Equal(got, want) || moved.Miss != "" {
		t.Errorf("%v, want %v; %+v", got, want, moved)
	}
	sound(t, from, to)
}

// onRead calls a function before each read.
type onRead struct {
	do func()
	io.Reader
}

func (o *onRead) Read(b []byte) (int, error) { o.do(); return o.Reader.Read(b) }

// TestOnlyTheFleetIsGivenBlocks asks for blocks without a key, with a wrong or expired
// ticket, with one for another process, and under the salt of another tenant.
func TestOnlyTheFleetIsGivenBlocks(t *testing.T) {
	s, at := startWorker(t, ServerConfig{Key: transferKey}, Config{KVTokens: 8192, ContextTokens: 2048})
	r := transferPrompt(t, s)
	askTransfer(t, s, r)
	names := func(salt parley.Salt) (packed []byte) {
		for _, name := range parley.AppendBlockHashes(nil, parley.BlockHash{}, salt, r.Prompt, compute.BlockTokens) {
			packed = append(packed, name[:]...)
		}
		return packed
	}
	soon := time.Now().Add(time.Minute)
	for name, test := range map[string]struct {
		auth   string
		salt   parley.Salt
		status int
		given  bool
	}{
		"nothing":         {"", r.Salt, http.StatusUnauthorized, false},
		"wrong key":       {"Bearer other", r.Salt, http.StatusUnauthorized, false},
		"wrong ticket":    {kvwire.Scheme + kvwire.Sign("other", s.instance, soon), r.Salt, 401, false},
		"expired":         {kvwire.Scheme + kvwire.Sign(transferKey, s.instance, time.Unix(1, 0)), r.Salt, 401, false},
		"another process": {kvwire.Scheme + kvwire.Sign(transferKey, "x", soon), r.Salt, 401, false},
		"key as ticket":   {kvwire.Scheme + transferKey, r.Salt, 401, false},
		"ticket":          {kvwire.Scheme + kvwire.Sign(transferKey, s.instance, soon), r.Salt, 200, true},
		"key":             {"Bearer " + transferKey, r.Salt, 200, true},
		"another tenant":  {"Bearer " + transferKey, parley.Salt{9}, 200, false},
	} {
		body, err := json.Marshal(kvwire.Ask{Format: s.awake.format, Names: names(test.salt)})
		if err != nil {
			t.Fatal(err)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, at+kvwire.Path, bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		if test.auth != "" {
			req.Header.Set("Authorization", test.auth)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if given := len(all) > s.awake.format.BlockBytes; resp.StatusCode != test.status || given != test.given {
			t.Errorf("%s: status %d, %d bytes: %.200q", name, resp.StatusCode, len(all), all)
		}
	}
	ticket := kvwire.Sign(transferKey, s.instance, soon)
	for _, path := range []string{worker.AboutPath, worker.SnapshotPath, "/v1/models"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil)
		req.Header.Set("Authorization", kvwire.Scheme+ticket)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("a ticket for blocks opens %s: status %d", path, resp.StatusCode)
		}
	}
}

// TestAPeerDiesAtEveryStep cuts the connection to the source after every frame, in the middle
// of each and before the first: what came whole is used, and the tokens are the same.
func TestAPeerDiesAtEveryStep(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { testAPeerDies(t, way) })
	}
}

func testAPeerDies(t *testing.T, way kvwire.Config) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	from, fromURL := startWorker(t, ServerConfig{Key: transferKey}, model)
	to, _ := startWorker(t, ServerConfig{Key: transferKey, Fetch: way}, model)
	r := transferPrompt(t, from)
	r.MaxTokens = 4
	frame := frameBytes(from, way)
	blocks := (len(r.Prompt) - 1) / compute.BlockTokens
	longest := (blocks + max(1, way.Streams) - 1) / max(1, way.Streams) // stream, in blocks
	for cut := range 2*longest + 1 {                                    // the last one cuts off the end frame
		r.Salt = parley.Salt{byte(cut), 1}
		want, _, _ := askTransfer(t, from, r)
		through := tamperWith(t, fromURL, func(resp *http.Response) error {
			resp.Body = closeReader{&dyingReader{resp.Body, cut*frame/2 + 2*(cut%2)}, resp.Body}
			return nil
		})
		fetching := *r
		fetching.Fetch = sourceOf(from, through)
		got, u, moved := askTransfer(t, to, &fetching)
		if !slices.Equal(got, want) {
			t.Errorf("cut %d: %v, want %v", cut, got, want)
		}
		came := firstBroken(way, (cut*frame/2+2*(cut%2))/frame, blocks) * compute.BlockTokens
		if moved.Miss == "" || !isCame(way, moved.CameTokens, came) || u.CachedTokens != moved.CameTokens {
			t.Errorf("cut %d: %+v, %d tokens cached, want %d", cut, moved, u.CachedTokens, came)
		}
	}
	sound(t, from, to)
}

// A dyingReader fails after a number of bytes.
type dyingReader struct {
	io.Reader
	left int
}

func (d *dyingReader) Read(b []byte) (int, error) {
	if d.left == 0 {
		return 0, io.ErrUnexpectedEOF // the proxy breaks the connection off then
	}
	n, err := d.Reader.Read(b[:min(len(b), d.left)])
	d.left -= n
	return n, err
}

// TestAReceiverDiesAtEveryStep closes the connection of a worker that fetches after every
// frame, in the middle of each and before the first: the source lets go of all, and answers
// the next one.
func TestAReceiverDiesAtEveryStep(t *testing.T) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	from, fromURL := startWorker(t, ServerConfig{Key: transferKey}, model)
	r := transferPrompt(t, from)
	want, _, _ := askTransfer(t, from, r)
	var names []byte
	for _, name := range parley.AppendBlockHashes(nil, parley.BlockHash{}, r.Salt, r.Prompt, compute.BlockTokens) {
		names = append(names, name[:]...)
	}
	body, err := json.Marshal(kvwire.Ask{Format: from.awake.format, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	frame := from.awake.format.BlockBytes + 5
	blocks := len(r.Prompt) / compute.BlockTokens
	for cut := range 2*blocks + 1 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(fromURL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fromURL+kvwire.Path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+transferKey)
		if err := req.Write(conn); err != nil {
			t.Fatal(err)
		}
		if cut > 0 {
			resp, err := http.ReadResponse(bufio.NewReader(conn), req)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, cut*frame/2)); err != nil {
				t.Fatalf("cut %d: %v", cut, err)
			}
		}
		conn.Close()
	}
	to, _ := startWorker(t, ServerConfig{Key: transferKey}, model)
	fetching := *r
	fetching.Fetch = sourceOf(from, fromURL)
	if got, _, moved := askTransfer(t, to, &fetching); !slices.Equal(got, want) || moved.Miss != "" {
		t.Errorf("%v, want %v; %+v", got, want, moved)
	}
	sound(t, from, to)
	for deadline := time.Now().Add(time.Minute); from.peer.Held() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still held", from.peer.Held())
		}
	}
}
