package gateway

import (
	"fmt"

	"parley/gateway/bill"
	"parley/gateway/conversations"
	"parley/gateway/exchange"
	"parley/gateway/infer"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/ops"
	"parley/gateway/prefix"
	"parley/gateway/record"
	"parley/gateway/responses"
	"parley/gateway/revoke"
	"parley/gateway/runs"
	"parley/gateway/screening"
	"parley/gateway/signin"
)

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
	g.who, g.cookies = g.identify, signin.NewCookies(config.SaltKey)
	g.signIn = g.newSignIn()
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
		Trend:      config.Trend,
	}); err != nil {
		return nil, fmt.Errorf("gateway metrics: %w", err)
	}
	if g.prefixes, err = prefix.New(config.Registry, config.Log, config.Now); err != nil {
		return nil, fmt.Errorf("gateway metrics: %w", err)
	}
	if g.pipeline, err = infer.NewPipeline(config.Admission, config.Share, config.Now, config.Registry,
		g.models.Pipelines); err != nil {
		return nil, err
	}
	g.models.Open(g.pipeline)
	g.models.FallBack(config.Fallbacks)
	if err := g.SetModels(config.Models); err != nil {
		return nil, err
	}
	g.jobs = g.newJobs()
	g.operators = &ops.API{
		Keys:         config.Keys,
		Ledger:       config.Ledger,
		Audit:        config.Audit,
		Fleet:        config.Fleet,
		Prefixes:     g.prefixes,
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
		Process: ops.Process{
			Version:  config.Version,
			Started:  config.Now(),
			Settings: config.Settings,
			Models:   g.models.All,
		},
	}
	g.operators.Scaling.Now = config.Now
	if err := config.Registry.Register(&g.operators.Scaling); err != nil {
		return nil, fmt.Errorf("gateway metrics: %w", err)
	}
	if config.Store != nil {
		if g.runs, err = runs.Open(config.runs()); err != nil {
			return nil, err
		}
	}
	g.conversations = &conversations.API{
		Store:     config.Store,
		Models:    g.models,
		Tiers:     config.TierContexts,
		Runs:      g.runs,
		NoTitles:  config.NoTitles,
		KeepAlive: config.KeepAlive,
		Log:       config.Log,
		Now:       config.Now,
	}
	g.responses = &responses.Handlers{
		Store:     config.Store,
		Runs:      g.runs,
		KeepAlive: config.KeepAlive,
		Log:       config.Log,
		Now:       config.Now,
	}
	g.addRoutes()
	g.batches = g.startBatches()
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
		Bills: &bill.Billing{
			Book:        config.Limits,
			Ledger:      config.Ledger,
			Prices:      config.Prices,
			BudgetAlert: config.BudgetAlert,
			Records:     g.records,
			Log:         config.Log,
			Now:         config.Now,
		},
		Screens: &screening.Screener{
			Policies: config.Safety,
			Records:  g.records,
			Log:      config.Log,
			Now:      config.Now,
		},
		Records:     g.records,
		Prefixes:    g.prefixes,
		Revocations: revoke.New(config.Keys),
		Salts:       job.Salts{Scope: config.CacheScope, Key: config.SaltKey},
		NoticeEvery: config.Admission.NoticeEvery,
		Now:         config.Now,
	}
}
