package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/internal/stat"
)

// A Typing is a user who writes into the middle of a long file while an
// editor asks for a completion at every keystroke.
type Typing struct {
	// Tokens is how long the file is, about: the server's count of a first piece
	// of it decides how much text that is.
	Tokens int
	// Keystrokes is how many are measured, after a first request that reads the
	// file.
	Keystrokes int
	// OutputTokens bounds each completion.
	OutputTokens int
	// AfterFirst asks for the text after the cursor to be read first.
	AfterFirst bool
}

// A TypingResult is what the server made of it. The first request does not count.
type TypingResult struct {
	// PromptTokens and CachedTokens add up over the keystrokes.
	PromptTokens, CachedTokens int
	// FirstText are the waits for the first text of each completion, in order.
	FirstText []time.Duration
}

// CachedShare is how much of the prompts did not have to be computed.
func (t *TypingResult) CachedShare() float64 {
	return float64(t.CachedTokens) / float64(max(t.PromptTokens, 1))
}

// Percentile returns the wait that the share p of the keystrokes did not exceed.
func (t *TypingResult) Percentile(p float64) time.Duration {
	if len(t.FirstText) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.FirstText))
	return sorted[stat.Rank(p, len(sorted))]
}

// The lines of the file, and what is typed into it.
const (
	fileLine  = "func step%d(state *machine, input int) int { return state.next(input + %d) }\n"
	typedLine = "for i, item := range items { total += item.price * float64(item.count); log.Println(i, total) } " +
		"// the sum of all items "
)

// Type sends the keystrokes one after the other, as an editor does that waits
// for each completion.
func (c *Client) Type(ctx context.Context, t Typing) (*TypingResult, error) {
	if t.Tokens < 1 || t.Keystrokes < 1 || t.OutputTokens < 1 {
		return nil, errors.New("typing needs a file, keystrokes and completions of at least one token")
	}
	const probeLines = 20
	probe, _, err := c.keystroke(ctx, t, fileOf(probeLines), "\n")
	if err != nil {
		return nil, err
	}
	lines := max(2, t.Tokens*probeLines/max(probe.PromptTokens, 1))
	file := fileOf(lines)
	cursor := strings.LastIndexByte(file[:len(file)*3/5], '\n') + 1
	before, after := file[:cursor], file[cursor:]
	if _, _, err := c.keystroke(ctx, t, before, after); err != nil {
		return nil, err
	}
	result := &TypingResult{}
	for i := range t.Keystrokes {
		before += string(typedLine[i%len(typedLine)])
		usage, wait, err := c.keystroke(ctx, t, before, after)
		if err != nil {
			return nil, fmt.Errorf("keystroke %d: %w", i+1, err)
		}
		result.PromptTokens += usage.PromptTokens
		result.CachedTokens += usage.PromptTokensDetails.CachedTokens
		result.FirstText = append(result.FirstText, wait)
	}
	return result, nil
}

func fileOf(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, fileLine, i, i)
	}
	return b.String()
}

// keystroke asks for one completion and reads it to its end.
func (c *Client) keystroke(ctx context.Context, t Typing, before, after string) (usage, time.Duration, error) {
	body, err := json.Marshal(map[string]any{
		"model": c.target.Model, "prompt": before, "suffix": after, "suffix_first": t.AfterFirst,
		"max_tokens": t.OutputTokens,
		"ignore_eos": true, "temperature": 0, "stream": true, "stream_options": map[string]bool{"include_usage": true},
		"prompt_cache_key": "typing",
	})
	if err != nil {
		return usage{}, 0, err
	}
	var got answer
	var sent time.Time
	if err := c.post(ctx, "/fim/completions", body, &got, func() { sent = time.Now() }); err != nil {
		return usage{}, 0, err
	}
	if got.usage == nil || got.pieces == 0 {
		return usage{}, 0, errors.New("the server sent no text, or no usage")
	}
	return *got.usage, got.first.Sub(sent), nil
}
