package main

import (
	"net/url"
	"strconv"
	"strings"

	"parley/gateway/ledger"
	"parley/gateway/limit"
)

// An economy is what answers cost and where the use of limits is kept.
type economy struct {
	prices   ledger.Prices
	redis    string
	gateways int
	// alert is the share of a budget from which on it is told that it will soon be
	// spent, hook where that is posted to.
	alert limit.Share
	hook  string
}

// economySettings are about money and limits.
var economySettings = []setting{
	{
		key:   "prices",
		wants: "MODEL=INPUT/OUTPUT, MODEL=INPUT/CACHED/OUTPUT or MODEL@TIER=…, such as polly=0.10/0.05/0.40",
		many:  true,
		set:   setPrice,
		help:  "set the price per million tokens, `MODEL[@TIER]=INPUT[/CACHED]/OUTPUT`; repeatable (default: free)",
	},
	{
		key:        "redis",
		wants:      "an address such as redis://host:6379/0",
		secret:     true,
		secretFile: "redis-url-file",
		holds:      hasPassword,
		set:        setText(func(s *settings) *string { return &s.economy.redis }),
		help: "share limits among servers through the Redis or Valkey at `URL` (default: each server counts " +
			"for itself)",
	},
	{key: "redis-down", wants: "refuse or share=N", set: setRedisDown,
		help: "while Redis is unreachable, `refuse` requests that have limits, or with share=N apply one Nth of " +
			"each limit (default refuse)"},
	{key: "budget-alert", wants: "a share of 0 (off) to 1 such as 0.8", set: setBudgetAlert,
		help: "alert once a month when a key or tenant has spent this `SHARE` of its monthly budget, unless " +
			"it has its own share; 0 disables it (default 0.8)"},
	{
		key:    "budget-webhook",
		wants:  "an address such as https://example.com/hook",
		secret: true,
		set:    setBudgetWebhook,
		help: "also post budget alerts to `URL`, as JSON with a \"text\" field that chat services display " +
			"(default: none)",
	},
}

func setPrice(s *settings, text string) error {
	if s.economy.prices == nil {
		s.economy.prices = ledger.Prices{}
	}
	return s.economy.prices.Add(text)
}

func setBudgetAlert(s *settings, text string) (err error) {
	if s.economy.alert, err = limit.ParseShare(text); err != nil {
		return errBadValue
	}
	return nil
}

func setBudgetWebhook(s *settings, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errBadValue
	}
	s.economy.hook = text
	return nil
}

func setRedisDown(s *settings, text string) (err error) {
	if text == "refuse" {
		s.economy.gateways = 0
		return nil
	}
	parts, ok := strings.CutPrefix(text, "share=")
	n, err := strconv.Atoi(parts)
	if !ok || err != nil || n < 1 || n > 1000 {
		return errBadValue
	}
	s.economy.gateways = n
	return nil
}
