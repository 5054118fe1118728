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
	{key: "prices", wants: "MODEL=INPUT/OUTPUT, MODEL=INPUT/CACHED/OUTPUT or MODEL@TIER=…, such as polly=0.10/0.05/0.40", many: true, set: setPrice,
		help: "what a million tokens of a model cost, `MODEL[@TIER]=INPUT[/CACHED]/OUTPUT`; repeat it for more models and tiers (default: nothing)"},
	{key: "redis", wants: "an address such as redis://host:6379/0", secret: true, secretFile: "redis-url-file", holds: hasPassword, set: setText(func(s *settings) *string { return &s.economy.redis }),
		help: "keep the use of limits in the Redis or Valkey at this `URL`, so that several servers hold them together (default: in this server alone)"},
	{key: "redis-down", wants: "refuse or share=N", set: setRedisDown,
		help: "what to do while it is out of reach: `refuse` requests that have limits, or share=N to hold each to one part in N of them (default refuse)"},
	{key: "budget-alert", wants: "a share of 0 (off) to 1 such as 0.8", set: setBudgetAlert,
		help: "tell once a month when a key or organisation has spent this `SHARE` of its monthly budget, unless it has a share of its own; 0 is never (default 0.8)"},
	{key: "budget-webhook", wants: "an address such as https://example.com/hook", secret: true, set: setBudgetWebhook,
		help: "post it to this `URL`, too, as JSON; chat programs that show \"text\" understand it (default: nowhere)"},
}

func setPrice(s *settings, text string) error {
	if s.economy.prices == nil {
		s.economy.prices = ledger.Prices{}
	}
	return s.economy.prices.Add(text)
}

func setBudgetAlert(s *settings, text string) (err error) {
	if s.economy.alert, err = limit.ParseShare(text); err != nil {
		return errNotWanted
	}
	return nil
}

func setBudgetWebhook(s *settings, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errNotWanted
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
		return errNotWanted
	}
	s.economy.gateways = n
	return nil
}
