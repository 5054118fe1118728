package gateway

import (
	"context"
	"sync"
	"sync/atomic"

	"parley"
	"parley/gateway/conversations"
	"parley/gateway/exchange"
	"parley/gateway/infer"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/ops"
	"parley/gateway/prefix"
	"parley/gateway/record"
	"parley/gateway/responses"
	"parley/gateway/runs"
	"parley/gateway/safety"
	"parley/gateway/signin"
	"parley/gateway/tenant"
)

// A Gateway answers HTTP requests for the models it was made with. It is an
// [http.Handler] and safe for concurrent use.
type Gateway struct {
	config Config
	// models is what is served now.
	models *models.Set
	routes routeTable
	// records makes the records of requests.
	records *record.Recorder
	// prefixes watches whether prompts keep hitting the cache.
	prefixes *prefix.Watch
	// operators answers the routes of operators.
	operators *ops.API
	// objectives are what requests are promised; the last one is for all.
	objectives parley.Objectives
	// conversations answers the routes of what is stored.
	conversations *conversations.API
	responses     *responses.Handlers
	sessions      sessions
	// pipeline is what stands between a job and the workers.
	pipeline *infer.Pipeline
	// jobs makes the inference jobs of requests.
	jobs *job.Server
	// who returns the caller of a request; tests replace it.
	who func(*call) (*tenant.Identity, error)
	// runs are the answers that this process stores; nil without a store.
	runs    *runs.Runs
	sockets *socketSet
	// exchanges is what all HTTP exchanges share.
	exchanges *exchange.Server
	draining  atomic.Bool
	batches   *batchWork
	// safety screens prompts and answers.
	safety *safety.Policies
	// cookies are those of the pages' sessions; signIn answers the routes by which
	// people sign in, and those of their accounts.
	cookies *signin.Cookies
	signIn  *signin.Handlers
}

// An endpoint answers one call. The error it returns, if any, is what the
// client sees; an endpoint that has written its answer returns nil.
type endpoint func(*call) error

// Observe reads the counters every few seconds until ctx ends, so that there is a
// history to look back on.
func (g *Gateway) Observe(ctx context.Context) { g.records.Observe(ctx) }

// SetModels changes what is served, while requests run. Models that stay, with the same
// ID and Worker, keep their queues; a request that runs with a model that goes is not
// disturbed.
func (g *Gateway) SetModels(list []models.Config) error { return g.models.Change(list) }

// Drain turns new inference requests away while the ones in flight finish.
// Readiness turns false, so that a load balancer stops sending. Batches stop at
// once; they resume at the next start.
func (g *Gateway) Drain() {
	g.batches.end()
	g.draining.Store(true)
}

// Close waits until ctx ends for answers that the HTTP server does not know
// of, on WebSockets and in the background; then it stops them, and lets go of
// the store. Nothing is left running.
func (g *Gateway) Close(ctx context.Context) {
	g.Drain()
	g.batches.running.Wait()
	g.sockets.connections.Close(ctx, exchange.ErrStopping)
	if g.runs != nil {
		g.runs.Close(ctx)
	}
}

// batchWork is the work on batches, which needs no clients.
type batchWork struct {
	// end makes it stop; what is not complete resumes at the next start.
	end     context.CancelFunc
	running sync.WaitGroup
}
