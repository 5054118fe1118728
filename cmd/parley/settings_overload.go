package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/gateway"
	"parley/queue"
)

// overloadSettings are what keeps a server serving when more is asked of it than
// it can do, and which answers it gives to more than one client.
var overloadSettings = []setting{
	{key: "admission", wants: "on or off",
		help: "queue requests in the gateway: `on`, or off to pass them to the engine at once (default on)",
		set:  setOff(func(s *settings) *bool { return &s.admission.Off })},
	{key: "queue-depth", wants: "a number, 0 or more", help: "queue at most `N` requests per model (default 1024)",
		set: setCount(func(s *settings) *int { return &s.admission.Queue.DepthMax })},
	{
		key:   "queue-wait",
		wants: "a time such as 30s, or tier=time",
		many:  true,
		set:   setQueueWait,
		help:  "reject requests that are queued for longer than `[TIER=]DURATION`; repeatable (default 60s)",
	},
	{
		key:   "tier-weight",
		wants: "tier=number, with a tier of free, pro or enterprise",
		many:  true,
		set:   setTierWeight,
		help:  "weight of a tier relative to the others, `TIER=N` (default free=1, pro=4, enterprise=16)",
	},
	{key: "first-token-max", wants: "a time such as 60s",
		help: "fail a request whose first token takes longer than `DURATION`, queueing included (default 60s)",
		set:  setTime(func(s *settings) *time.Duration { return &s.admission.FirstTokenMax })},
	{key: "worker-wait", wants: "a time such as 5s",
		set:  setTime(func(s *settings) *time.Duration { return &s.admission.WorkerWait }),
		help: "reject a request when no worker of its pools was up for `DURATION` (default 5s)"},
	{key: "answer-max", wants: "a time such as 15m",
		help: "fail a request whose answer takes longer than `DURATION` in total (default 15m)",
		set:  setTime(func(s *settings) *time.Duration { return &s.admission.AnswerMax })},
	{key: "shed-start", wants: "a time such as 3s, or off",
		help: "shed a share of requests, free tier first, while the queue holds `DURATION` of work; off disables " +
			"shedding (default 3s)", set: setShedStart},
	{key: "shed-stop", wants: "a time such as 1s",
		help: "stop shedding when the queue is down to `DURATION` of work (default 1s)",
		set:  setTime(func(s *settings) *time.Duration { return &s.admission.Queue.Shed.Stop })},
	{key: "breaker", wants: "on or off",
		help: "stop sending requests to a failing model until it recovers: `on` or off (default on)",
		set:  setOff(func(s *settings) *bool { return &s.admission.Breaker.Off })},
	{key: "share", wants: "on, local, any or off", set: setShare,
		help: "compute identical requests once: `on` for those that must have the same answer, across servers with " +
			"the same --redis and --store; local only within this server; any also for other identical requests in " +
			"flight, within this server; or off (default on)"},
	{key: "share-cache", wants: "a size such as 64MiB",
		help: "cache complete answers of deterministic requests in up to `SIZE` of memory; 0 disables it " +
			"(default 64MiB)", set: setShareCache},
	{key: "share-ttl", wants: "a time such as 5m", help: "keep cached answers for `DURATION` (default 5m)",
		set: setTime(func(s *settings) *time.Duration { return &s.share.TTL })},
	{
		key:   "share-public",
		wants: "the name of a model",
		many:  true,
		help:  "let all tenants share the answers of `MODEL`; repeatable",
		set:   setMany(func(s *settings) *[]string { return &s.share.PublicModels }),
	},
	{
		key:   "share-public-prompt",
		wants: "a text",
		many:  true,
		help: "let all tenants share answers to conversations that begin with exactly `TEXT`, such as a system " +
			"prompt; repeatable",
		set: setMany(func(s *settings) *[]string { return &s.share.PublicPrompts }),
	},
}

// setOff reads on or off.
func setOff(field func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, text string) error {
		if text != "on" && text != "off" {
			return errBadValue
		}
		*field(s) = text == "off"
		return nil
	}
}

func setMany(field func(*settings) *[]string) func(*settings, string) error {
	return func(s *settings, text string) error {
		if text == "" {
			return errBadValue
		}
		*field(s) = append(*field(s), text)
		return nil
	}
}

// tiersOf returns the tiers that a text begins with the name of, and the rest of
// it; all if it names none.
func tiersOf(q *queue.Config, text string) (tiers []*queue.Tier, rest string) {
	name, rest, named := strings.Cut(text, "=")
	for class := range parley.Class(parley.Classes) {
		if !named || class.String() == name {
			tiers = append(tiers, &q.Tiers[class])
		}
	}
	if !named {
		rest = text
	}
	return tiers, rest
}

func setQueueWait(s *settings, text string) error {
	tiers, rest := tiersOf(&s.admission.Queue, text)
	d, err := time.ParseDuration(rest)
	if err != nil || d <= 0 || len(tiers) == 0 {
		return errBadValue
	}
	for _, t := range tiers {
		t.WaitMax = d
	}
	return nil
}

func setTierWeight(s *settings, text string) error {
	tiers, rest := tiersOf(&s.admission.Queue, text)
	n, err := strconv.ParseFloat(rest, 64)
	if err != nil || !(n > 0 && n <= 1e6) || len(tiers) != 1 {
		return errBadValue
	}
	tiers[0].Weight = n
	return nil
}

func setShedStart(s *settings, text string) error {
	s.admission.Queue.Shed.Off = text == "off"
	if text == "off" {
		return nil
	}
	return setTime(func(s *settings) *time.Duration { return &s.admission.Queue.Shed.Start })(s, text)
}

func setShare(s *settings, text string) error {
	if !slices.Contains([]string{"on", "local", "any", "off"}, text) {
		return errBadValue
	}
	s.share.Off, s.share.AnyTemperature, s.shareLocal = text == "off", text == "any", text == "local"
	return nil
}

func setShareCache(s *settings, text string) error {
	if err := setSize(func(s *settings) *int64 { return &s.share.CacheBytes })(s, text); err != nil {
		return err
	}
	if s.share.CacheBytes == 0 {
		s.share.CacheBytes = -1
	}
	return nil
}

// frontConfig returns what the settings say of the gateway, without what it serves.
func (s *settings) frontConfig() gateway.Config {
	admission := s.admission
	admission.Queue.TokenMax = s.slo.TPOT // what is promised
	config := gateway.Config{
		NoTitles:       !s.titles,
		NoAddresses:    !s.logAddresses,
		TierContexts:   s.tiers,
		Admission:      admission,
		Share:          s.share,
		SLO:            s.slo.SLO,
		TTFTShare:      s.slo.TTFTShare,
		TPOTShare:      s.slo.TPOTShare,
		Objectives:     s.objectives,
		PublicPrompts:  append(s.publicPrompts, s.share.PublicPrompts...),
		CacheScope:     s.cacheScope,
		Aliases:        s.aliases,
		AllowOrigins:   s.origins,
		TrustedProxies: s.proxies,
		MetricsOpen:    s.metricsOpen,
	}
	s.limitConfig(&config)
	return config
}
