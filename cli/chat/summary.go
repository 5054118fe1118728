package chat

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"parley/cli/remote"
)

// misses say in words why a prompt was not found in the cache.
var misses = map[string]string{
	"short": "too short to be cached", "new": "not seen before", "diverged": "differs from what is cached",
	"evicted": "was evicted", "other-salt": "is cached only for other organisations",
}

// summary describes how long an answer took, and why.
func summary(r *remote.Reply) (parts []string) {
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if u := r.Usage; u != nil {
		add("%d tokens in %s", u.CompletionTokens, shortMs(r.TotalMs))
	} else {
		add("answered in %s", shortMs(r.TotalMs))
	}
	add("first token %s", shortMs(r.FirstMs))
	if t := r.Timings; t != nil {
		add("%.1f tokens/s", t.PredictedPerSecond)
	} else if u := r.Usage; u != nil && r.TotalMs > r.FirstMs && u.CompletionTokens > 1 {
		add("%.1f tokens/s", float64(u.CompletionTokens-1)/(r.TotalMs-r.FirstMs)*1000)
	}
	if u := r.Usage; u != nil {
		parts = append(parts, promptSummary(r))
	}
	if t := r.Timings; t != nil {
		add("queued %s, prefill %s (%.0f tokens/s)", shortMs(t.QueuedMs), shortMs(t.PrefillMs), t.PromptPerSecond)
		if t.CostMicros > 0 {
			add("cost %.6g", float64(t.CostMicros)/1e6)
		}
	}
	return parts
}

// promptSummary describes what of the prompt was computed and why.
func promptSummary(r *remote.Reply) string {
	u := r.Usage
	text := fmt.Sprintf("%d prompt tokens, %d cached", u.PromptTokens, u.PromptTokensDetails.CachedTokens)
	if r.Timings == nil {
		return text
	}
	if why, ok := misses[r.Timings.CacheMiss]; ok {
		text += " (the rest " + why + ")"
	}
	return text
}

func shortMs(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// printableText is text that a model or a file holds, without what a terminal
// would obey.
func printableText(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
