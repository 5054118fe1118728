package settings

import (
	"net/url"
	"strconv"
	"strings"

	"parley/gateway/ledger"
	"parley/limit"
)

// economySettings are about money and limits.
var economySettings = []Setting{
	{
		Key:   "prices",
		wants: "MODEL=INPUT/OUTPUT, MODEL=INPUT/CACHED/OUTPUT or MODEL@TIER=…, such as polly=0.10/0.05/0.40",
		many:  true,
		set:   setPrice,
		Help:  "set the price per million tokens, `MODEL[@TIER]=INPUT[/CACHED]/OUTPUT`; repeatable (default: free)",
	},
	{
		Key:        "redis",
		wants:      "an address such as redis://host:6379/0",
		secret:     true,
		secretFile: "redis-url-file",
		holds:      hasPassword,
		set:        setText(func(s *Settings) *string { return &s.Economy.Redis }),
		Help: "share limits among servers through the Redis or Valkey at `URL` (default: each server counts " +
			"for itself)",
	},
	{Key: "redis-down", wants: "refuse or share=N", set: setRedisDown,
		Help: "while Redis is unreachable, `refuse` requests that have limits, or with share=N apply one Nth of " +
			"each limit (default refuse)"},
	{Key: "budget-alert", wants: "a share of 0 (off) to 1 such as 0.8", set: setBudgetAlert,
		Help: "alert once a month when a key or organisation has spent this `SHARE` of its monthly budget, unless " +
			"it has its own share; 0 disables it (default 0.8)"},
	{
		Key:    "budget-webhook",
		wants:  "an address such as https://example.com/hook",
		secret: true,
		set:    setBudgetWebhook,
		Help: "also post budget alerts to `URL`, as JSON with a \"text\" field that chat services display " +
			"(default: none)",
	},
}

func setPrice(s *Settings, text string) error {
	if s.Economy.Prices == nil {
		s.Economy.Prices = ledger.Prices{}
	}
	return s.Economy.Prices.Add(text)
}

func setBudgetAlert(s *Settings, text string) (err error) {
	if s.Economy.Alert, err = limit.ParseShare(text); err != nil {
		return errBadValue
	}
	return nil
}

func setBudgetWebhook(s *Settings, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errBadValue
	}
	s.Economy.Hook = text
	return nil
}

func setRedisDown(s *Settings, text string) (err error) {
	if text == "refuse" {
		s.Economy.Gateways = 0
		return nil
	}
	parts, ok := strings.CutPrefix(text, "share=")
	n, err := strconv.Atoi(parts)
	if !ok || err != nil || n < 1 || n > 1000 {
		return errBadValue
	}
	s.Economy.Gateways = n
	return nil
}
