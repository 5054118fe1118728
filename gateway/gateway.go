package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"parley"
	"parley/gateway/bill"
	"parley/gateway/conversations"
	"parley/gateway/exchange"
	"parley/gateway/infer"
	"parley/gateway/job"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/ops"
	"parley/gateway/record"
	"parley/gateway/revoke"
	"parley/gateway/runs"
	"parley/gateway/safety"
	"parley/gateway/screening"
	"parley/gateway/tenant"
	"parley/internal/local"
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
	// operators answers the routes of operators.
	operators *ops.API
	// objectives are what requests are promised; the last one is for all.
	objectives parley.Objectives
	// conversations answers the routes of what is stored.
	conversations *conversations.API
	sessions      sessions
	// pipeline is what stands between a job and the workers.
	pipeline *infer.Pipeline
	// jobs makes the inference jobs of requests.
	jobs *job.Server
	// who tells who makes a call.
	who func(*call) (tenant.Identity, error)
	// runs are the answers that this process stores; nil without a store.
	runs    *runs.Runs
	sockets *socketSet
	// exchanges is what all HTTP exchanges share.
	exchanges *exchange.Server
	draining  atomic.Bool
	batches   batchWork
	// safety screens prompts and answers.
	safety *safety.Keeper
	// cookieNames are those of the pages' sessions.
	cookieNames map[tenant.Scope]string
}

// An endpoint answers one call. The error it returns, if any, is what the
// client sees; an endpoint that has written its answer returns nil.
type endpoint func(*call) error

// New makes a gateway, or says everything that is wrong with the config.
func New(config Config) (*Gateway, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("gateway config: %w", err)
	}
	config = config.withDefaults()
	g := &Gateway{
		config:  config,
		sockets: newSocketSet(),
		models:  models.NewSet(config.Now, config.Aliases, config.PublicPrompts),
		exchanges: &exchange.Server{
			BodyBytesMax:   config.BodyBytesMax,
			BodyWaitMax:    config.BodyWaitMax,
			WriteWaitMax:   config.WriteWaitMax,
			KeepAlive:      config.KeepAlive,
			Bodies:         exchange.NewBodyGate(config.BodyBytesTotal, config.BodyBytesPerKey),
			NoAddresses:    config.NoAddresses,
			TrustedProxies: config.TrustedProxies,
		},
	}
	g.who, g.cookieNames = g.identify, cookieNames(config.SaltKey)
	g.safety = config.Safety
	var err error
	g.objectives = config.objectives()
	if g.records, err = record.New(record.Config{
		Log:        config.Log,
		Now:        config.Now,
		Registry:   config.Registry,
		Objectives: g.objectives,
		Traces:     config.Traces,
		Fleet:      config.Fleet,
	}); err != nil {
		return nil, fmt.Errorf("gateway metrics: %w", err)
	}
	if g.pipeline, err = infer.NewPipeline(config.Admission, config.Share, config.Now, config.Registry,
		g.models.Pipelines); err != nil {
		return nil, err
	}
	g.models.Open(g.pipeline)
	if err := g.SetModels(config.Models); err != nil {
		return nil, err
	}
	g.jobs = g.newJobs()
	g.operators = &ops.API{
		Keys:         config.Keys,
		Ledger:       config.Ledger,
		Audit:        config.Audit,
		Fleet:        config.Fleet,
		Safety:       config.Safety,
		Records:      g.records,
		Registry:     config.Registry,
		Log:          config.Log,
		Now:          config.Now,
		BudgetAlert:  config.BudgetAlert,
		Currency:     config.Currency,
		WriteWaitMax: config.WriteWaitMax,
		Models:       config.ModelAPI != nil,
		Draining:     g.draining.Load,
		Text:         g.models.TextOf,
		Quotas:       g.quotas,
	}
	g.conversations = &conversations.API{
		Store:  config.Store,
		Models: g.models,
		Tiers:  config.TierContexts,
		Now:    config.Now,
	}
	g.addRoutes()
	if config.Store != nil {
		if g.runs, err = runs.Open(config.runs()); err != nil {
			return nil, err
		}
	}
	g.startBatches()
	return g, nil
}

// newJobs returns what makes jobs, when the rest of the gateway is there.
func (g *Gateway) newJobs() *job.Server {
	config := &g.config
	return &job.Server{
		Models:     g.models,
		Pipeline:   g.pipeline,
		Tiers:      config.TierContexts,
		Objectives: g.objectives,
		Bills: &bill.Office{
			Book:        config.Limits,
			Ledger:      config.Ledger,
			Prices:      config.Prices,
			BudgetAlert: config.BudgetAlert,
			Records:     g.records,
			Log:         config.Log,
			Now:         config.Now,
		},
		Screens: &screening.Screener{
			Keeper:  config.Safety,
			Records: g.records,
			Log:     config.Log,
			Now:     config.Now,
		},
		Records:     g.records,
		Revocations: revoke.New(config.Keys),
		Salts:       job.Salts{Scope: config.CacheScope, Key: config.SaltKey},
		NoticeEvery: config.Admission.NoticeEvery,
		Now:         config.Now,
	}
}

// Observe reads the counters every few seconds until ctx ends, so that there is a
// history to look back on.
func (g *Gateway) Observe(ctx context.Context) { g.records.Observe(ctx) }

// SetModels changes what is served, while requests run. Models that stay, with the same
// ID and Worker, keep their queues; a request that runs with a model that goes is not
// disturbed.
func (g *Gateway) SetModels(list []models.Config) error { return g.models.Change(list) }

// finish lets go of what a call holds, and completes its record.
func (g *Gateway) finish(c *call) {
	c.Bytes.Release()
	retries, err := strconv.Atoi(c.Request.Header.Get("X-Stainless-Retry-Count"))
	c.job.Finish(c.Request.Context(), record.End{
		Status:  c.Status,
		Stream:  c.Stream != nil,
		Remote:  c.Remote(),
		Retried: err == nil && retries > 0,
	})
}

// Drain turns new inference requests away while the ones in flight finish.
// Readiness turns false, so that a load balancer stops sending. Batches stop at
// once; they go on at the next start.
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

// ServeHTTP answers one request: whatever happens, the client gets a request
// id and an error it can read, and the log one line.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.answer(g.newCall(w, r))
}

func (g *Gateway) answer(c *call) {
	leaves := false
	defer func() {
		if !leaves {
			g.finish(c)
		}
	}()
	g.attempt(c, g.dispatch)
	if leaves = g.continueDetached(c); !leaves && c.Stream != nil {
		c.Stream.Release()
	}
}

// attempt runs an endpoint and tells the client if it fails.
func (g *Gateway) attempt(c *call, run endpoint) {
	if err := c.guarded(run); err != nil {
		c.Fail(err)
	}
}

func (g *Gateway) newCall(w http.ResponseWriter, r *http.Request) *call {
	suffix := randomSuffix()
	begun := g.records.Begin(r.Header.Get("Traceparent"))
	if ctx := begun.WithTrace(r.Context()); ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	c := &call{gateway: g, Exchange: &exchange.Exchange{
		Record:   begun,
		Response: &exchange.Response{ResponseWriter: w},
		Request:  r,
		Suffix:   suffix,
		Server:   g.exchanges,
	}}
	c.job = g.jobs.New(begun, c.hooks())
	c.Hooks = exchange.Hooks{
		Body:   c.countEndUser,
		Send:   c.job.ReleaseSlot,
		Detach: c.detachFromHandler,
		Rest:   c.runDetached,
	}
	begun.ID, begun.ClientID, begun.Who = "req_"+suffix, exchange.ClientRequestID(r), &c.Identity
	c.Header().Set("X-Request-Id", c.Record.ID)
	if r.TLS != nil && !local.IsName(r.Host) {
		c.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
	if exchange.IsMessages(r.URL.Path) {
		c.Header().Set("Request-Id", c.Record.ID)
	}
	return c
}

func randomSuffix() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// guarded runs an endpoint. A panic in it becomes an error like any other.
func (c *call) guarded(run endpoint) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = parley.PanicError(p)
		}
	}()
	return run(c)
}

// dispatch runs the endpoint that the request asks for.
func (g *Gateway) dispatch(c *call) error {
	g.allowOrigin(c)
	found, values := g.routes.find(c.Request.URL)
	if found == nil {
		return openai.RouteNotFound(c.Request.Method, c.Request.URL.Path)
	}
	c.Record.Route, c.access, c.Values = found.name, found.access, values
	if c.Request.Method == http.MethodOptions {
		return c.preflight(found)
	}
	run, ok := found.endpoint(c.Request)
	if !ok {
		c.Header().Set("Allow", found.allowed())
		return parley.Errorf(parley.MethodNotAllowed,
			"Not allowed to %s on %s (HINT: perhaps you meant to make a different HTTP method?). Allowed: %s.",
			c.Request.Method, found.name, found.allowed())
	}
	if err := g.checkOrigin(c); err != nil {
		return err
	}
	var err error
	if c.Identity, err = g.who(c); err != nil {
		return err
	}
	if c.access.operates() {
		c.Header().Set("Cache-Control", "no-store")
		g.audit(c)
	}
	if err := g.takeSlot(c); err != nil {
		return err
	}
	if found.worker && c.Request.Method == http.MethodPost { // a WebSocket counts its requests itself
		return g.infer(c, run)
	}
	return run(c)
}

// infer runs an endpoint that reaches a worker.
func (g *Gateway) infer(c *call, run endpoint) error {
	c.Record.Infer()
	c.Record.Took(ledger.Auth, c.Record.Started)
	c.honourCacheControl()
	if c.Identity.Key != "" {
		ctx, cancel := context.WithCancelCause(c.Request.Context())
		c.Request = c.Request.WithContext(ctx)
		c.job.Revocable(ctx, cancel)
	}
	if g.draining.Load() {
		return parley.Errorf(parley.Unavailable, "The server is shutting down. Try again later.")
	}
	return run(c)
}
