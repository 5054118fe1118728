package blocks

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"parley"
	"parley/worker/kvwire"
)

// Bar is how much of the speed of a plain copy over loopback two workers on this machine must reach. They share memory
// where the system can, else they use TCP.
const Bar = 0.8

// Options say what is moved.
type Options struct {
	// BlockBytes is the size of a block, Blocks how many a fetch has, Rounds how often each
	// is measured.
	BlockBytes, Blocks, Rounds int
}

// A Result is what was measured.
type Result struct {
	Options
	// Plain, One, Fetch and Shared are the median speeds in bytes a second: of a plain copy, and of fetches over TCP in
	// one stream, over TCP as workers do and through shared memory. OverTCP and InMemory are the medians over rounds of
	// Fetch and Shared as shares of Plain.
	Plain, One, Fetch, Shared, OverTCP, InMemory float64
}

// Ratio is what workers on this machine reach.
func (r *Result) Ratio() float64 {
	if kvwire.Place() == "" {
		return r.OverTCP
	}
	return r.InMemory
}

// Missed reports whether the bar was.
func (r *Result) Missed() bool { return r.Ratio() < Bar }

// WriteText prints the result.
func (r *Result) WriteText(to io.Writer) error {
	_, err := fmt.Fprintf(to, "%d blocks of %d KiB, %d rounds: plain copy %.2f GB/s; fetch through shared memory "+
		"%.2f GB/s, %.2f of it; fetch over TCP %.2f GB/s (%.2f in one stream), %.2f of it; workers on this machine "+
		"reach %.2f, bar %.2f\n",
		r.Blocks, r.BlockBytes>>10, r.Rounds, r.Plain/1e9, r.Shared/1e9, r.InMemory, r.Fetch/1e9, r.One/1e9, r.OverTCP,
		r.Ratio(), Bar)
	return err
}

// Run measures against a process that command starts, which calls [Serve].
func Run(ctx context.Context, o Options, command func(args ...string) *exec.Cmd) (*Result, error) {
	cmd := command(strconv.Itoa(o.BlockBytes), strconv.Itoa(o.Blocks))
	stop, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = stop.Close(); _ = cmd.Wait() }()
	var fabric, plain string
	if _, err := fmt.Fscan(out, &fabric, &plain); err != nil {
		return nil, fmt.Errorf("the other process did not start: %w", err)
	}
	return measure(ctx, o, fabric, plain)
}

// measure takes all speeds in turn.
func measure(ctx context.Context, o Options, fabric, plain string) (*Result, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", plain)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	to := make([]byte, o.BlockBytes*o.Blocks)
	one, f, shared := newFetch(fabric, o, to), newFetch(fabric, o, to), newFetch(fabric, o, to)
	one.client.StreamFrom = math.MaxInt64
	shared.client.ShareFrom = 1
	defer one.client.HTTP.CloseIdleConnections()
	defer f.client.HTTP.CloseIdleConnections()
	defer shared.client.HTTP.CloseIdleConnections()
	var plains, ones, fetches, shares, overTCP, inMemory []float64
	r := &Result{Options: o}
	for round := range o.Rounds + 1 { // the first one touches all memory
		a, err := speed(len(to), func() error { return copyPlain(conn, to) })
		if err != nil {
			return nil, err
		}
		single, err := speed(len(to), func() error { return one.run(ctx) })
		if err != nil {
			return nil, err
		}
		b, err := speed(len(to), func() error { return f.run(ctx) })
		if err != nil {
			return nil, err
		}
		c, err := speed(len(to), func() error { return shared.run(ctx) })
		if err != nil {
			return nil, err
		}
		if round > 0 {
			plains, ones, fetches, shares = append(plains, a), append(ones, single), append(fetches, b), append(shares, c)
			overTCP, inMemory = append(overTCP, b/a), append(inMemory, c/a)
		}
	}
	r.Plain, r.One, r.Fetch, r.Shared = median(plains), median(ones), median(fetches), median(shares)
	r.OverTCP, r.InMemory = median(overTCP), median(inMemory)
	return r, nil
}

// copyPlain asks for all bytes and reads them.
func copyPlain(conn net.Conn, to []byte) error {
	if _, err := conn.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, to)
	return err
}

// A fetch moves all blocks as workers do.
type fetch struct {
	client *kvwire.Client
	url    string
	format kvwire.Format
	names  []parley.BlockHash
	to     []byte
}

// newFetch fetches all blocks from an address into memory.
func newFetch(address string, o Options, to []byte) *fetch {
	f := &fetch{
		client: &kvwire.Client{HTTP: &http.Client{Transport: kvwire.NewTransport(nil)}},
		url:    "http://" + address,
		format: format(o.BlockBytes),
		to:     to,
	}
	for i := range o.Blocks {
		f.names = append(f.names, name(i))
	}
	return f
}

func (f *fetch) run(ctx context.Context) error {
	at := 0
	ask := &kvwire.Fetch{
		URL:    f.url,
		Format: f.format,
		Names:  f.names,
		Put: func(_ context.Context, blocks ...[]byte) error { // as an engine takes them
			for _, block := range blocks {
				at += copy(f.to[at:], block)
			}
			return nil
		},
	}
	_, err := f.client.Run(ctx, ask)
	if err == nil && ask.Shared != (f.client.ShareFrom > 0 && runtime.GOOS == "linux") {
		err = fmt.Errorf("shared memory was used: %t", ask.Shared)
	}
	return err
}

// speed returns how many bytes move in a second.
func speed(bytes int, move func() error) (float64, error) {
	began := time.Now()
	if err := move(); err != nil {
		return 0, err
	}
	return float64(bytes) / time.Since(began).Seconds(), nil
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
