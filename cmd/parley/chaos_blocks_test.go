package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/internal/supervise"
	"parley/worker/kvwire"
)

// A blockFault is something that happens to blocks on their way from worker to worker.
type blockFault struct {
	name string
	// change returns what comes of an answer until the connection ends.
	change func(ctx context.Context, body io.Reader) io.Reader
	times  atomic.Int64
}

// blockFaults returns all faults, and blocks that come as they are.
func blockFaults() []*blockFault {
	stalled := func(ctx context.Context) io.Reader {
		r, w := io.Pipe()
		context.AfterFunc(ctx, func() { w.Close() })
		return r
	}
	return []*blockFault{
		{name: "none", change: func(_ context.Context, body io.Reader) io.Reader { return body }},
		{name: "damaged", change: func(_ context.Context, body io.Reader) io.Reader {
			all, _ := io.ReadAll(body) // what came before it was cut off is damaged, too
			if len(all) > 2 {
				all[len(all)/2] ^= 1
			}
			return bytes.NewReader(all)
		}},
		{name: "truncated", change: func(_ context.Context, body io.Reader) io.Reader {
			return io.LimitReader(body, 10_000)
		}},
		{name: "silent", change: func(ctx context.Context, _ io.Reader) io.Reader { return stalled(ctx) }},
		{name: "silent after a while", change: func(ctx context.Context, body io.Reader) io.Reader {
			return io.MultiReader(io.LimitReader(body, 20_000), stalled(ctx))
		}},
		{name: "cut off", change: func(context.Context, io.Reader) io.Reader { return brokenReader{} }},
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// faultyWay stands before a worker. What gateways say to it passes as it is; blocks that
// other workers fetch meet one fault after the other.
func faultyWay(t *testing.T, target string, faults []*blockFault) string {
	t.Helper()
	at, err := url.Parse("http://" + target)
	if err != nil {
		t.Fatal(err)
	}
	var fetches atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }}
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.URL.Path != kvwire.Path || resp.StatusCode != http.StatusOK {
			return nil
		}
		f := faults[int(fetches.Add(1)-1)%len(faults)]
		f.times.Add(1)
		resp.Body = struct {
			io.Reader
			io.Closer
		}{f.change(resp.Request.Context(), resp.Body), resp.Body}
		return nil
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	return strings.TrimPrefix(front.URL, "http://")
}

// TestFaultyBlocks restarts and kills workers in turn under 64 streams, while blocks that
// workers fetch from each other are damaged, cut off and held up.
func TestFaultyBlocks(t *testing.T) {
	leftToChaos(t)
	c := newCrew(t)
	faults := blockFaults()
	for range 3 {
		addr, err := supervise.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		c.workers = append(c.workers, &hand{addr: addr, via: faultyWay(t, addr, faults)})
	}
	c.open(append([]string{}, calmly...))
	c.under("faulty blocks", func() {
		for end, i := time.Now().Add(*chaosFor), 0; time.Now().Before(end); i++ {
			h := c.workers[i%3]
			if i%2 == 0 {
				_ = h.cmd.Process.Signal(syscall.SIGTERM)
			} else {
				_ = h.cmd.Process.Kill()
			}
			_ = h.cmd.Wait()
			c.start(h)
			c.await(h)
			c.ready(3)
		}
	})
	for _, h := range c.workers {
		if n := gauge(t, "http://"+h.addr, "parley_engine_repairs_total"); n > 0 {
			t.Errorf("the account of blocks of %s was wrong %d times", h.addr, n)
		}
	}
	for _, f := range faults {
		t.Logf("%d fetches met the fault: %s", f.times.Load(), f.name)
	}
}
