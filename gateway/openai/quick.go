package openai

import "strconv"

// appendPlain appends the answer as [Encode] would write it, where it is text
// alone and plain: most are, and any JSON costs several times as much. Whatever is
// different is left to the other way.
func (r *ChatResponse) appendPlain(to []byte) ([]byte, bool) {
	w := plainWriter{to: to}
	w.raw(`{"id":`).text(r.ID).raw(`,"object":`).text(r.Object).raw(`,"created":`).number(r.Created).raw(
		`,"model":`).text(r.Model).raw(`,"choices":`)
	if len(r.Choices) == 0 || r.Parley != nil {
		return to, false
	}
	for i := range r.Choices {
		w.raw(separator(i))
		w.choice(&r.Choices[i])
	}
	w.raw(`],"usage":`)
	w.usage(&r.Usage)
	if r.ServiceTier != "" {
		w.raw(`,"service_tier":`).text(r.ServiceTier)
	}
	if r.Timings != nil {
		w.raw(`,"timings":`)
		w.timings(r.Timings)
	}
	w.raw("}")
	return w.to, !w.bad
}

// separator stands before the member of a list with an index.
func separator(i int) string {
	if i == 0 {
		return "["
	}
	return ","
}

// plainWriter writes JSON. Once something is not plain it is bad and stays so.
type plainWriter struct {
	to  []byte
	bad bool
}

func (w *plainWriter) raw(s string) *plainWriter {
	w.to = append(w.to, s...)
	return w
}

// text writes a text in which nothing has to be escaped.
func (w *plainWriter) text(s string) *plainWriter {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			w.bad = true
			return w
		}
	}
	w.to = append(append(append(w.to, '"'), s...), '"')
	return w
}

func (w *plainWriter) number(n int64) *plainWriter {
	w.to = strconv.AppendInt(w.to, n, 10)
	return w
}

// float writes a number that needs no exponent.
func (w *plainWriter) float(f float64) *plainWriter {
	if size := max(f, -f); f != 0 && !(size >= 1e-6 && size < 1e21) {
		w.bad = true
		return w
	}
	w.to = strconv.AppendFloat(w.to, f, 'f', -1, 64)
	return w
}

func (w *plainWriter) choice(c *ChatChoice) {
	m := &c.Message
	w.bad = w.bad || c.Logprobs != nil || m.Content == nil || m.ReasoningContent != "" || m.Refusal != nil ||
		len(m.ToolCalls) > 0
	if w.bad {
		return
	}
	w.raw(`{"index":`).number(int64(c.Index)).raw(`,"message":{"role":`).text(m.Role).raw(`,"content":`).text(
		*m.Content).
		raw(`,"refusal":null},"logprobs":null,"finish_reason":`).text(string(c.FinishReason)).raw("}")
}

func (w *plainWriter) usage(u *Usage) {
	w.raw(`{"prompt_tokens":`).number(int64(u.PromptTokens)).raw(`,"completion_tokens":`).number(
		int64(u.CompletionTokens)).
		raw(`,"total_tokens":`).number(int64(u.TotalTokens)).raw(`,"prompt_tokens_details":{"cached_tokens":`).number(
		int64(u.PromptTokensDetails.CachedTokens))
	if n := u.PromptTokensDetails.DroppedTokens; n != 0 {
		w.raw(`,"dropped_tokens":`).number(int64(n))
	}
	w.raw(`},"completion_tokens_details":{"reasoning_tokens":`).number(
		int64(u.CompletionTokensDetails.ReasoningTokens)).raw("}}")
}

func (w *plainWriter) timings(t *Timings) {
	w.raw(`{"queued_ms":`).float(t.QueuedMs).raw(`,"prefill_ms":`).float(t.PrefillMs).raw(`,"decode_ms":`).float(
		t.DecodeMs).
		raw(`,"prompt_per_second":`).float(t.PromptPerSecond).raw(`,"predicted_per_second":`).float(
		t.PredictedPerSecond).raw(`,"cached":`).number(int64(t.Cached))
	for _, member := range [...]struct{ name, value string }{{`,"cache_miss":`, t.CacheMiss}, {`,"worker":`, t.Worker},
		{`,"worker_reason":`, t.Reason}} {
		if member.value != "" {
			w.raw(member.name).text(member.value)
		}
	}
	if t.TTFTMs != 0 {
		w.raw(`,"ttft_ms":`).float(t.TTFTMs)
	}
	if t.Pool != "" {
		w.raw(`,"pool":`).text(t.Pool)
	}
	if t.Moves != 0 {
		w.raw(`,"moves":`).number(int64(t.Moves))
	}
	if t.CostMicros != 0 {
		w.raw(`,"cost_micros":`).number(t.CostMicros)
	}
	w.raw("}")
}
