package settings

import (
	"strconv"
	"time"

	"parley"
	"parley/gateway"
	"parley/gateway/tenant"
	"parley/limit"
)

// limitSettings bound what requests take of the server's memory, and how long what is
// stored is kept.
var limitSettings = []Setting{
	{Key: "body-total", wants: "a size such as 256MiB", set: setSize(func(s *Settings) *int64 { return &s.BodyTotal }),
		Help: "limit request bodies in memory to `SIZE` in total; further requests wait briefly, then are rejected " +
			"(default 256MiB)"},
	{Key: "body-per-key", wants: "a size such as 16MiB",
		set:  setSize(func(s *Settings) *int64 { return &s.BodyPerKey }),
		Help: "limit request bodies in memory to `SIZE` per key (default 16MiB)"},
	{Key: "sockets-per-key", wants: "a number of at least 1", set: setSockets,
		Help: "limit WebSocket connections to `N` per key (default 32)"},
	{Key: "keep-conversations", wants: keepWants,
		set: setKeep(func(s *Settings) *time.Duration { return &s.Retention.Conversations }),
		Help: "delete conversations, pinned ones included, that have not changed for `DURATION`, such as 90d " +
			"(default never)"},
	{Key: "keep-responses", wants: keepWants, set: setKeep(func(s *Settings) *time.Duration {
		return &s.Retention.Responses
	}),
		Help: "delete stored responses without a follow-up for `DURATION` (default 30d)"},
	{Key: "keep-files", wants: keepWants, set: setKeep(func(s *Settings) *time.Duration { return &s.KeepFiles }),
		Help: "delete files and finished batches after `DURATION`, whatever expiry their upload asked for (default " +
			"30d, unless the upload asked for more)"},
	{Key: "keep-ledger", wants: "a time of at least 32d, or never", set: setKeepLedger,
		Help: "delete ledger entries after `DURATION`, such as 400d (default never)"},
}

func setSockets(s *Settings, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errBadValue
	}
	s.SocketsPerKey = n
	return nil
}

// ledgerLeast is the least that the ledger is kept for: budgets count a month.
const ledgerLeast = 32 * 24 * time.Hour

func setKeepLedger(s *Settings, text string) error {
	if err := setKeep(func(s *Settings) *time.Duration { return &s.Retention.Ledger })(s, text); err != nil {
		return err
	}
	if d := s.Retention.Ledger; d != 0 && d < ledgerLeast {
		return errBadValue
	}
	return nil
}

// limitConfig adds to a gateway's configuration what limitSettings say.
func (s *Settings) limitConfig(c *gateway.Config) {
	c.BodyBytesTotal, c.BodyBytesPerKey, c.SocketsPerKey = s.BodyTotal, s.BodyPerKey, s.SocketsPerKey
	c.Retention = s.Retention
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
	return tierSetting{name, func(s *Settings, class parley.Class, text string) error {
		if err := SetLimit(field(&s.TenantTiers[class]), text); err != nil {
			return err
		}
		return s.TenantTiers.Validate()
	}}
}

// sizeOf is a setting of a tier that is a number of bytes, or none.
func sizeOf(name string, field func(*tenant.Tier) *int64) tierSetting {
	return tierSetting{name, func(s *Settings, class parley.Class, text string) error {
		if text == NoLimit {
			*field(&s.TenantTiers[class]) = 0
			return nil
		}
		var bytes int64
		if err := setSize(func(*Settings) *int64 { return &bytes })(s, text); err != nil || bytes <= 0 {
			return errBadValue
		}
		*field(&s.TenantTiers[class]) = bytes
		return nil
	}}
}
