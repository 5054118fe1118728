package main

import (
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/gateway"
	"parley/gateway/limit"
	"parley/gateway/tenant"
)

// limitSettings bound what requests take of the server's memory, and how long what is
// stored is kept.
var limitSettings = []setting{
	{key: "body-total", wants: "a size such as 256MiB", set: setSize(func(s *settings) *int64 { return &s.bodyTotal }),
		help: "limit request bodies in memory to `SIZE` in total; further requests wait briefly, then are rejected " +
			"(default 256MiB)"},
	{key: "body-per-key", wants: "a size such as 16MiB",
		set:  setSize(func(s *settings) *int64 { return &s.bodyPerKey }),
		help: "limit request bodies in memory to `SIZE` per key (default 16MiB)"},
	{key: "sockets-per-key", wants: "a number of at least 1", set: setSockets,
		help: "limit WebSocket connections to `N` per key (default 32)"},
	{key: "keep-conversations", wants: keepWants,
		set: setKeep(func(s *settings) *time.Duration { return &s.retention.Conversations }),
		help: "delete conversations, pinned ones included, that were not changed for `DURATION`, such as 90d " +
			"(default never)"},
	{key: "keep-responses", wants: keepWants, set: setKeep(func(s *settings) *time.Duration {
		return &s.retention.Responses
	}),
		help: "delete stored responses without a follow-up for `DURATION` (default 30d)"},
	{key: "keep-files", wants: keepWants, set: setKeep(func(s *settings) *time.Duration { return &s.keepFiles }),
		help: "delete files and finished batches after `DURATION`, whatever expiry their upload asked for (default " +
			"30d, unless the upload asked for more)"},
	{key: "keep-ledger", wants: "a time of at least 32d, or never", set: setKeepLedger,
		help: "delete ledger entries after `DURATION`, such as 400d (default never)"},
}

const keepWants = "a time such as 90d or 12h, or never"

func setSockets(s *settings, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errBadValue
	}
	s.socketsPerKey = n
	return nil
}

// setKeep reads how long something is kept, also in days; never is 0.
func setKeep(field func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, text string) error {
		if text == "never" {
			*field(s) = 0
			return nil
		}
		d, err := parseDays(text)
		if err != nil || d < time.Hour {
			return errBadValue
		}
		*field(s) = d
		return nil
	}
}

// ledgerLeast is the least that the ledger is kept for: budgets count a month.
const ledgerLeast = 32 * 24 * time.Hour

func setKeepLedger(s *settings, text string) error {
	if err := setKeep(func(s *settings) *time.Duration { return &s.retention.Ledger })(s, text); err != nil {
		return err
	}
	if d := s.retention.Ledger; d != 0 && d < ledgerLeast {
		return errBadValue
	}
	return nil
}

// parseDays reads a duration, also in days.
func parseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// limitConfig adds to a gateway's configuration what limitSettings say.
func (s *settings) limitConfig(c *gateway.Config) {
	c.BodyBytesTotal, c.BodyBytesPerKey, c.SocketsPerKey = s.bodyTotal, s.bodyPerKey, s.socketsPerKey
	c.Retention = s.retention
}

// userSettings are what a tier can be told of its users, and of the users whom its
// callers name: the limits of requests and tokens, and quotas.
func userSettings() (list []tierSetting) {
	rates := []struct {
		name  string
		field func(*limit.Limits) *int64
	}{
		{"requests-per-second", func(l *limit.Limits) *int64 { return &l.RequestsPerSecond }},
		{"requests-per-minute", func(l *limit.Limits) *int64 { return &l.RequestsPerMinute }},
		{"light-requests-per-minute", func(l *limit.Limits) *int64 { return &l.LightRequestsPerMinute }},
		{"input-tokens-per-minute", func(l *limit.Limits) *int64 { return &l.InputTokensPerMinute }},
		{"output-tokens-per-minute", func(l *limit.Limits) *int64 { return &l.OutputTokensPerMinute }},
		{"concurrent-requests", func(l *limit.Limits) *int64 { return &l.ConcurrentRequests }},
	}
	for _, r := range rates {
		list = append(list, limitOf("user-"+r.name, func(t *tenant.Tier) *int64 { return r.field(&t.UserLimits) }))
		if r.name != "light-requests-per-minute" {
			list = append(list, limitOf("end-user-"+r.name, func(t *tenant.Tier) *int64 {
				return r.field(&t.EndUserLimits)
			}))
		}
	}
	for prefix, of := range map[string]func(*tenant.Tier) *tenant.Quota{
		"": func(t *tenant.Tier) *tenant.Quota {
			return &t.Quota
		}, "user-": func(t *tenant.Tier) *tenant.Quota { return &t.UserQuota },
	} {
		list = append(list,
			sizeOf(prefix+"store-bytes", func(t *tenant.Tier) *int64 { return &of(t).StoreBytes }),
			limitOf(prefix+"conversations", func(t *tenant.Tier) *int64 { return &of(t).Conversations }),
			sizeOf(prefix+"file-bytes", func(t *tenant.Tier) *int64 { return &of(t).FileBytes }),
			limitOf(prefix+"files", func(t *tenant.Tier) *int64 { return &of(t).Files }),
			limitOf(prefix+"batches", func(t *tenant.Tier) *int64 { return &of(t).Batches }))
	}
	return list
}

// limitOf is a setting of a tier that is a number, or none.
func limitOf(name string, field func(*tenant.Tier) *int64) tierSetting {
	return tierSetting{name, func(s *settings, class parley.Class, text string) error {
		if err := setLimit(field(&s.tenantTiers[class]), text); err != nil {
			return err
		}
		return s.tenantTiers.Validate()
	}}
}

// sizeOf is a setting of a tier that is a number of bytes, or none.
func sizeOf(name string, field func(*tenant.Tier) *int64) tierSetting {
	return tierSetting{name, func(s *settings, class parley.Class, text string) error {
		if text == noLimit {
			*field(&s.tenantTiers[class]) = 0
			return nil
		}
		var bytes int64
		if err := setSize(func(*settings) *int64 { return &bytes })(s, text); err != nil || bytes <= 0 {
			return errBadValue
		}
		*field(&s.tenantTiers[class]) = bytes
		return nil
	}}
}
