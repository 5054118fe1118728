// Package kvpeer exchanges blocks of an engine in this process with other workers, over
// [parley/worker/kvwire]. Before a request that names a source ([parley.Request.Fetch]) is
// computed, what the engine misses of it is fetched from there; what does not come in time
// is computed. So a fetch never fails a request and never changes a token.
package kvpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/engine"
	"parley/worker/kvwire"
)

// A Peer is this process towards other workers. It is safe for concurrent use.
type Peer struct {
	client kvwire.Client
	server kvwire.Server
	meters *meters
}

// An Owner is an engine and the format of its blocks.
type Owner struct {
	Engine *engine.Engine
	Format kvwire.Format
	// Generate computes a request after a fetch: the engine does, or a store before it reads
	// what did not come.
	Generate func(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error]
	// Follow is that of a [kvwire.Holder].
	Follow func(request string) (changed <-chan struct{}, running bool)
}

const (
	// withinDefault bounds a fetch whose source does not say, withinMax any.
	withinDefault = 2 * time.Second
	withinMax     = 10 * time.Minute
)

// New returns a peer. secure returns how the next connection to an https URL speaks TLS;
// nil means with servers that the system trusts. cfg says how blocks are fetched.
func New(secure func() *tls.Config, cfg kvwire.Config, registry prometheus.Registerer) *Peer {
	transport := kvwire.NewTransport(secure)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p := &Peer{client: kvwire.Client{HTTP: &http.Client{Transport: transport, CheckRedirect: stay}, Config: cfg}}
	p.meters = newMeters(p, registry)
	return p
}

// Close lets go of connections that are idle.
func (p *Peer) Close() { p.client.HTTP.CloseIdleConnections() }

// Held returns how much memory is held for blocks under way.
func (p *Peer) Held() int64 { return p.client.InFlight() + p.server.InFlight() }

// Serve answers another worker's request for blocks. An error is one that it can still
// be told of.
func (p *Peer) Serve(w http.ResponseWriter, r *http.Request, from Owner) error {
	sent, err := p.server.Serve(w, r, kvwire.Holder{
		Format: from.Format,
		Read:   from.Engine.ReadBlocks,
		Follow: from.Follow,
	})
	p.meters.gave(sent)
	return err
}

// Generate fetches what to misses of a request from the request's source and then has it
// computed, if that is wanted; see [parley.Worker]. The first delta says what came.
func (p *Peer) Generate(ctx context.Context, to Owner, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		transfer := p.Fetch(ctx, to, r)
		if r.Fetch.Only {
			yield(parley.Delta{Transfer: transfer, Usage: &parley.Usage{}}, nil)
			return
		}
		for d, err := range to.Generate(ctx, r) {
			d.Transfer, transfer = transfer, nil
			if !yield(d, err) {
				return
			}
		}
	}
}

// Fetch fetches what to misses of a request from the request's source, as far as it comes
// in time. It ends early when the request is cancelled or wanted back.
func (p *Peer) Fetch(ctx context.Context, to Owner, r *parley.Request) *parley.Transfer {
	began := time.Now()
	out := &parley.Transfer{From: r.Fetch.Worker}
	var until deadline
	bounded, cancel := until.start(ctx, r.Fetch)
	defer cancel()
	if w := parley.WithdrawalOf(ctx); w != nil {
		w.OnAsk(cancel)
		defer w.OnAsk(nil) // the engine heeds it from now on
	}
	if err := p.fetch(bounded, to, r, &until, out); err != nil {
		out.Miss = "failed"
		if miss, ok := errors.AsType[*kvwire.MissError](err); ok {
			out.Miss = miss.Reason
		} else if bounded.Err() != nil {
			out.Miss = "too slow"
		}
	}
	out.Took = time.Since(began)
	p.meters.took(out)
	return out
}

func (p *Peer) fetch(ctx context.Context, to Owner, r *parley.Request, until *deadline, out *parley.Transfer) error {
	in, err := to.Engine.OpenIntake(ctx, r, r.Fetch.Tokens)
	if err != nil || in == nil {
		return err
	}
	defer in.Close()
	names := in.Missing()
	out.AskedTokens = len(names) * to.Format.BlockTokens
	until.missing.Store(int64(len(names)) * int64(to.Format.BlockBytes))
	ask := &kvwire.Fetch{
		URL:     r.Fetch.URL,
		Ticket:  r.Fetch.Ticket,
		Format:  to.Format,
		Names:   names,
		Put:     until.counting(in.Put),
		Request: r.Fetch.Request,
	}
	blocks, err := p.client.Run(ctx, ask)
	out.Shared = ask.Shared
	out.CameTokens, out.Bytes = blocks*to.Format.BlockTokens, int64(blocks)*int64(to.Format.BlockBytes)
	return err
}
