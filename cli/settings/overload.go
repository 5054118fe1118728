package settings

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/cli"
	"parley/gateway"
	"parley/queue"
)

// overloadSettings are what keeps a server serving when more is asked of it than
// it can do, and which answers it gives to more than one client.
var overloadSettings = []Setting{
	{Key: "admission", wants: "on or off",
		Help: "queue requests in the gateway: `on`, or off to pass them to the engine at once (default on)",
		set:  setOff(func(s *Settings) *bool { return &s.Admission.Off })},
	{Key: "queue-depth", wants: "a number, 0 or more", Help: "queue at most `N` requests per model (default 1024)",
		set: setCount(func(s *Settings) *int { return &s.Admission.Queue.DepthMax })},
	{
		Key:   "queue-wait",
		wants: "a time such as 30s, or tier=time, or people=time",
		many:  true,
		set:   setQueueWait,
		Help: "reject requests that are queued for longer than `[TIER=]DURATION`, those of people on the chat page " +
			"after people=DURATION; repeatable (default 60s, people=10m)",
	},
	{
		Key:   "tier-weight",
		wants: "tier=number, with a tier of free, pro or enterprise",
		many:  true,
		set:   setTierWeight,
		Help:  "weight of a tier relative to the others, `TIER=N` (default free=1, pro=4, enterprise=16)",
	},
	{Key: "first-token-max", wants: "a time such as 60s",
		Help: "fail a request whose first token takes longer than `DURATION`, queueing included (default 60s)",
		set:  setTime(func(s *Settings) *time.Duration { return &s.Admission.FirstTokenMax })},
	{Key: "worker-wait", wants: "a time such as 5s",
		set:  setTime(func(s *Settings) *time.Duration { return &s.Admission.WorkerWait }),
		Help: "reject a request when no worker of its pools was up for `DURATION` (default 5s)"},
	{Key: "answer-max", wants: "a time such as 15m",
		Help: "fail a request whose answer takes longer than `DURATION` in total (default 15m)",
		set:  setTime(func(s *Settings) *time.Duration { return &s.Admission.AnswerMax })},
	{Key: "shed-start", wants: "a time such as 3s, or off",
		Help: "shed a share of requests, free tier first, while the queue holds `DURATION` of work; off disables " +
			"shedding (default 3s)", set: setShedStart},
	{Key: "shed-stop", wants: "a time such as 1s",
		Help: "stop shedding when the queue is down to `DURATION` of work (default 1s)",
		set:  setTime(func(s *Settings) *time.Duration { return &s.Admission.Queue.Shed.Stop })},
	{Key: "breaker", wants: "on or off",
		Help: "stop sending requests to a failing model until it recovers: `on` or off (default on)",
		set:  setOff(func(s *Settings) *bool { return &s.Admission.Breaker.Off })},
	{Key: "share", wants: "on, local, any or off", set: setShare,
		Help: "compute identical requests once: `on` if their answers must be equal, across servers with the same " +
			"--redis and --store; local only within this server; any for all identical requests in flight on this " +
			"server; or off (default on)"},
	{Key: "share-cache", wants: "a size such as 64MiB",
		Help: "cache complete answers of deterministic requests in up to `SIZE` of memory; 0 disables it " +
			"(default 64MiB)", set: setShareCache},
	{Key: "share-ttl", wants: "a time such as 5m", Help: "keep cached answers for `DURATION` (default 5m)",
		set: setTime(func(s *Settings) *time.Duration { return &s.Share.TTL })},
	{
		Key:   "share-public",
		wants: "the name of a model",
		many:  true,
		Help:  "let all organisations share the answers of `MODEL`; repeatable",
		set:   setMany(func(s *Settings) *[]string { return &s.Share.PublicModels }),
	},
	{
		Key:   "share-public-prompt",
		wants: "a text",
		many:  true,
		Help: "let all organisations share answers to conversations that begin with exactly `TEXT`, such as a system " +
			"prompt; repeatable",
		set: setMany(func(s *Settings) *[]string { return &s.Share.PublicPrompts }),
	},
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

func setQueueWait(s *Settings, text string) error {
	tiers, rest := tiersOf(&s.Admission.Queue, text)
	people := strings.HasPrefix(text, "people=")
	d, err := time.ParseDuration(rest)
	if err != nil || d <= 0 || len(tiers) == 0 && !people {
		return errBadValue
	}
	if people {
		s.Admission.Queue.PersonWaitMax = d
	}
	for _, t := range tiers {
		t.WaitMax = d
	}
	return nil
}

func setTierWeight(s *Settings, text string) error {
	tiers, rest := tiersOf(&s.Admission.Queue, text)
	n, err := strconv.ParseFloat(rest, 64)
	if err != nil || !(n > 0 && n <= 1e6) || len(tiers) != 1 {
		return errBadValue
	}
	tiers[0].Weight = n
	return nil
}

func setShedStart(s *Settings, text string) error {
	s.Admission.Queue.Shed.Off = text == "off"
	if text == "off" {
		return nil
	}
	return setTime(func(s *Settings) *time.Duration { return &s.Admission.Queue.Shed.Start })(s, text)
}

func setShare(s *Settings, text string) error {
	if !slices.Contains([]string{"on", "local", "any", "off"}, text) {
		return errBadValue
	}
	s.Share.Off, s.Share.AnyTemperature, s.ShareLocal = text == "off", text == "any", text == "local"
	return nil
}

func setShareCache(s *Settings, text string) error {
	if err := setSize(func(s *Settings) *int64 { return &s.Share.CacheBytes })(s, text); err != nil {
		return err
	}
	if s.Share.CacheBytes == 0 {
		s.Share.CacheBytes = -1
	}
	return nil
}

// FrontConfig returns what the settings say of the gateway, without what it serves.
func (s *Settings) FrontConfig() gateway.Config {
	admission := s.Admission
	admission.Queue.TokenMax = s.SLO.TPOT // what is promised
	config := gateway.Config{
		Version:        cli.Version,
		Settings:       s.All,
		NoTitles:       !s.Titles,
		NoAddresses:    !s.LogAddresses,
		TierContexts:   s.Tiers,
		Admission:      admission,
		Share:          s.Share,
		SLO:            s.SLO.SLO,
		TTFTShare:      s.SLO.TTFTShare,
		TPOTShare:      s.SLO.TPOTShare,
		Objectives:     s.Targets,
		PublicPrompts:  append(s.PublicPrompts, s.Share.PublicPrompts...),
		CacheScope:     s.CacheScope,
		Aliases:        s.Aliases,
		Fallbacks:      s.Fallbacks,
		AllowOrigins:   s.Origins,
		TrustedProxies: s.Proxies,
		MetricsOpen:    s.MetricsOpen,
	}
	s.limitConfig(&config)
	return config
}
