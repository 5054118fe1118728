package safety

import "unicode/utf8"

// A Stream screens an answer while it is written. It holds back the last
// tokens, at most a window of them, and judges what it holds: so whatever is
// found to be wrong has not been shown yet, however the answer was cut into
// pieces. Text leaves the window once it was judged in full view of what
// follows it.
//
// Judging every token anew would cost too much, so that is done every quarter
// of a window; what is held between two judgements counts as part of the window.
type Stream struct {
	screen *Screen
	ruling *Ruling
	vault  *Vault
	// held is the text that is not shown yet; ends[i] is where its i-th token
	// ends.
	held []byte
	ends []int
	// offset is how many bytes of the answer came before held.
	offset int
	// unjudged counts the tokens since the last judgement.
	unjudged int
	halted   bool
	// told is where the last finding ends that was reported.
	told int
	// swallowing is set while the rest of what was redacted still comes.
	swallowing *swallow
	// quiet streams hold nothing back: nothing that is found changes them.
	quiet bool
}

// A StreamOutput is what came out of a stream: text that may be shown, what was
// decided, and whether the answer ends here.
type StreamOutput struct {
	Text string
	// Through is how many bytes of the answer were let through or replaced.
	Through int
	// Hidden are the bytes of the answer that were replaced or left out.
	Hidden    []ByteRange
	Decisions []Decision
	Halted    bool
}

// A ByteRange is the bytes of an answer from Start up to End.
type ByteRange struct{ Start, End int }

// NewStream returns a screen for one answer under a ruling. Prompt has what was taken out of the
// prompt; nil if nothing was.
func (s *Screen) NewStream(r *Ruling, prompt *Vault) *Stream {
	return &Stream{screen: s, ruling: r, vault: prompt.after(), quiet: !acts(&r.Output)}
}

// Push takes a piece of the answer of the given number of tokens. It returns nothing
// once the stream was halted.
func (s *Stream) Push(piece string, tokens int) StreamOutput {
	var hidden []ByteRange
	if s.halted || piece == "" {
		return StreamOutput{Through: s.offset, Halted: s.halted}
	}
	if s.swallowing != nil {
		rest, ended := s.swallowing.rest(piece)
		hidden = append(hidden, ByteRange{s.offset, s.offset + len(piece) - len(rest)})
		s.offset += len(piece) - len(rest)
		if !ended || rest == "" {
			if ended {
				s.swallowing = nil
			}
			return StreamOutput{Through: s.offset, Hidden: hidden}
		}
		s.swallowing, piece = nil, rest
	}
	s.take(piece, max(tokens, 1))
	if s.unjudged < s.stride() {
		if s.quiet {
			return StreamOutput{Text: piece, Through: s.offset + len(s.held)}
		}
		return StreamOutput{Through: s.offset, Hidden: hidden}
	}
	out := s.judge(s.ruling.Window-s.stride(), piece)
	out.Hidden = append(hidden, out.Hidden...)
	return out
}

// Close ends the answer and returns what was held.
func (s *Stream) Close() StreamOutput {
	if s.halted || len(s.held) == 0 {
		return StreamOutput{Through: s.offset, Halted: s.halted}
	}
	return s.judge(0, "")
}

// Held is how many tokens are held back.
func (s *Stream) Held() int { return len(s.ends) }

// stride is how many tokens come between two judgements.
func (s *Stream) stride() int { return max(1, s.ruling.Window/4) }

// take adds a piece; its tokens are taken to be equally long.
func (s *Stream) take(piece string, tokens int) {
	from := len(s.held)
	s.held = append(s.held, piece...)
	for k := 1; k <= tokens; k++ {
		s.ends = append(s.ends, from+len(piece)*k/tokens)
	}
	s.unjudged += tokens
}

// judge judges what is held and lets go of all but the last keep tokens.
func (s *Stream) judge(keep int, piece string) StreamOutput {
	s.unjudged = 0
	text := string(s.held)
	v := s.screen.Judge(Text{Body: text, Origin: FromModel, Names: s.ruling.names(&s.ruling.Output)})
	decisions, sternest := s.ruling.decide(&s.ruling.Output, &v, FromModel)
	fresh := s.fresh(decisions)
	if sternest == Block {
		s.halted = true
		s.held, s.ends = nil, nil
		return StreamOutput{Through: s.offset, Decisions: fresh, Halted: true}
	}
	edge := s.edge(keep, decisions)
	upTo := edge
	if d, ok := s.growing(edge, decisions); ok {
		edge, upTo = d.End, len(s.held)
		s.swallowing = newSwallow(d.Kind, text)
	}
	gone := before(decisions, edge)
	shown, hidden := s.vault.Redact(text[:edge], gone), s.hidden(gone, edge, upTo)
	s.drop(upTo)
	if s.quiet {
		shown = piece
	}
	return StreamOutput{Text: shown, Through: s.offset, Hidden: hidden, Decisions: fresh}
}

// hidden returns where in the answer the text of decisions that are redacted is, and what of held
// is left out: from edge up to upTo.
func (s *Stream) hidden(decisions []Decision, edge, upTo int) (spans []ByteRange) {
	for _, d := range decisions {
		if d.Action == Redact && d.Start < edge {
			spans = append(spans, ByteRange{s.offset + d.Start, s.offset + d.End})
		}
	}
	if upTo > edge {
		spans = append(spans, ByteRange{s.offset + edge, s.offset + upTo})
	}
	return spans
}

// fresh returns the decisions that were not reported before, with offsets in
// the answer.
func (s *Stream) fresh(decisions []Decision) (list []Decision) {
	for _, d := range decisions {
		d.Start += s.offset
		d.End += s.offset
		if d.Start >= s.told {
			list = append(list, d)
		}
	}
	for _, d := range list {
		s.told = max(s.told, d.End)
	}
	return list
}

// growMin is how many bytes must follow what is redacted for it to be complete.
const growMin = 2

// edge is up to where held text may be let go: all but the last keep tokens,
// no part of a character, and no part of what is redacted. What is redacted
// and reaches the end may still grow, so it stays, up to windowMax tokens.
func (s *Stream) edge(keep int, decisions []Decision) int {
	if keep == 0 {
		return len(s.held)
	}
	edge := 0
	if n := len(s.ends) - keep; n > 0 {
		edge = s.ends[n-1]
	}
	for edge > 0 && edge < len(s.held) && !utf8.RuneStart(s.held[edge]) {
		edge--
	}
	for _, d := range decisions {
		if d.Action != Redact || d.Start >= edge || d.End <= edge {
			continue
		}
		if edge = d.Start; d.End+growMin <= len(s.held) {
			edge = d.End
		}
	}
	return edge
}

func before(decisions []Decision, edge int) []Decision {
	for i, d := range decisions {
		if d.Action == Redact && d.End > edge {
			return decisions[:i]
		}
	}
	return decisions
}

// drop lets go of the first n bytes.
func (s *Stream) drop(n int) {
	s.held = append(s.held[:0], s.held[n:]...)
	s.offset += n
	kept := s.ends[:0]
	for _, e := range s.ends {
		if e > n {
			kept = append(kept, e-n)
		}
	}
	s.ends = kept
}

// growing returns the finding that keeps more than windowMax tokens from being
// let go of at edge, if there is one: it reaches the end of what is held.
func (s *Stream) growing(edge int, decisions []Decision) (Decision, bool) {
	kept := 0
	for _, e := range s.ends {
		if e > edge {
			kept++
		}
	}
	if kept <= windowMax-s.stride() {
		return Decision{}, false
	}
	for _, d := range decisions {
		if d.Action == Redact && d.Start == edge && d.End > edge {
			return d, true
		}
	}
	return Decision{}, false
}
