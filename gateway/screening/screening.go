package screening

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"parley"
	"parley/gateway/models"
	"parley/gateway/record"
	"parley/gateway/safety"
)

// A Screener is what the screenings of a server share.
type Screener struct {
	Policies *safety.Policies
	Records  *record.Recorder
	Log      *slog.Logger
	Now      func() time.Time
}

// A Screening is what a request knows of its policy: the rules, and what was taken out
// of its prompt. Questions of the server's own pass unseen.
type Screening struct {
	screener *Screener
	record   *record.Request
	// ask has a model of this server say what it thinks of a text; nil for questions of
	// the server's own.
	ask    safety.Guard
	ruling *safety.Ruling
	vault  *safety.Vault
	// noted counts the findings that are logged one by one, unnoted the others.
	noted, unnoted int
}

// For returns the screening of a request. Ask has a model of this server say what it
// thinks of a text.
func (s *Screener) For(r *record.Request, ask safety.Guard) Screening {
	return Screening{screener: s, record: r, ask: ask}
}

// Unseen returns the screening of a question of the server's own, which lets everything
// pass.
func (s *Screener) Unseen(r *record.Request) Screening { return Screening{screener: s, record: r} }

// FindingsMax bounds the findings of a request that are logged and remembered one
// by one: a text may have one in every word. Of the others there is a count.
const FindingsMax = 20

// screen judges the parts of a prompt under the policy of its tenant and model,
// which then holds for its answer, too.
func (s *Screening) screen(ctx context.Context, m *models.Model, param, system string, parts []screenPart) error {
	policies := s.screener.Policies
	s.ruling = policies.For(s.record.Who.Organization, m.ID)
	if s.vault == nil {
		s.vault = safety.NewVault()
	}
	ruling := s.ruling
	if s.ask == nil || !ruling.LooksAtInput() {
		return nil
	}
	for _, p := range parts {
		if !ruling.LooksAt(p.origin) && !ruling.AsksOf(p.origin) {
			continue
		}
		verdict := policies.Screen.Judge(safety.Text{Body: *p.text, Origin: p.origin, System: system,
			Names: ruling.InputNames() && !p.code})
		decisions, sternest := ruling.DecideInput(&verdict, p.origin)
		s.note("input", p.origin, p.index, *p.text, "", decisions)
		if sternest != safety.Block {
			var err error
			if sternest, err = s.moderate(ctx, p, sternest); err != nil {
				return err
			}
		}
		switch sternest {
		case safety.Block:
			return &parley.Error{Code: parley.Filtered, Param: param,
				Message: ruling.Refusal + " The safety policy of this server does not allow the request."}
		case safety.Redact:
			*p.text = s.vault.Redact(*p.text, decisions)
			if p.set != nil {
				p.set(*p.text)
			}
		}
	}
	return nil
}

// moderate asks the moderators outside about a part of a prompt.
func (s *Screening) moderate(ctx context.Context, p screenPart, sternest safety.Action) (safety.Action, error) {
	if !s.ruling.AsksOf(p.origin) || *p.text == "" {
		return sternest, nil
	}
	blocked, err := s.askModerators(ctx, *p.text, p.origin, p.index)
	if blocked {
		sternest = safety.Block
	}
	return sternest, err
}

// askModerators reports whether a moderator outside finds what the policy
// blocks. It is an error if one is needed and does not answer.
func (s *Screening) askModerators(
	ctx context.Context, text string, origin safety.Origin, part int,
) (blocked bool, err error) {
	ruling := s.ruling
	output := origin == safety.FromModel
	direction, decide := "input", ruling.DecideInput
	if output {
		direction, decide = "output", ruling.DecideOutput
	}
	found, down := s.screener.Policies.Moderate(ctx, ruling, text, output, s.ask)
	for name, err := range down {
		closed := ruling.ClosedWithout(name, output)
		s.screener.Records.ModeratorFailed(name)
		s.screener.Log.Warn("moderator did not answer", "moderator", name, "request_id", s.record.ID, "refused",
			closed, "error", err)
		if closed {
			return false, parley.Errorf(parley.Unavailable,
				"The request cannot be checked now, as this server's safety policy requires. Try again later.")
		}
	}
	for name, verdict := range found {
		decisions, action := decide(verdict, origin)
		s.note(direction, origin, part, text, name, decisions)
		blocked = blocked || action == safety.Block
	}
	return blocked, nil
}

// note counts, logs and remembers what was decided: where, and never
// what, unless the policy asks for it. What is decided most sternly comes first.
func (s *Screening) note(direction string, origin safety.Origin, part int, text, by string,
	decisions []safety.Decision) {
	decisions = s.noteworthy(direction, decisions)
	for _, d := range decisions {
		e := safety.Event{
			Time:      s.screener.Now(),
			Request:   s.record.ID,
			Tenant:    s.record.Who.Organization,
			Model:     s.record.Model(),
			Direction: direction,
			Origin:    origin,
			Part:      part,
			Decision:  d,
			By:        by,
		}
		if s.ruling.LogText && d.End <= len(text) {
			e.Text = text[d.Start:d.End]
		}
		e = s.screener.Policies.Note(e)
		line := []any{"request_id", e.Request, "organization", e.Tenant, "model", e.Model, "direction", direction,
			"origin", origin.String(), "part", part,
			"category", d.Category.String(), "kind", d.Kind, "score", d.Score, "start", d.Start, "end", d.End,
			"action", string(d.Action)}
		if by != "" {
			line = append(line, "by", by)
		}
		if e.Text != "" {
			line = append(line, "text", e.Text)
		}
		s.screener.Log.Info("safety", line...)
	}
}

// noteworthy counts decisions, and returns those that are logged one by one.
func (s *Screening) noteworthy(direction string, decisions []safety.Decision) []safety.Decision {
	for _, d := range decisions {
		s.screener.Records.Found(direction, d.Category.String(), string(d.Action))
	}
	room := FindingsMax - s.noted
	if len(decisions) <= room {
		s.noted += len(decisions)
		return decisions
	}
	decisions = slices.SortedStableFunc(slices.Values(decisions), func(a, b safety.Decision) int {
		return cmp.Compare(b.Action.Sternness(), a.Action.Sternness())
	})
	s.noted += room
	s.unnoted += len(decisions) - room
	return decisions[:room]
}

// Finish logs how many findings of a request were not logged one by one.
func (s *Screening) Finish() {
	if n := s.unnoted; n > 0 {
		s.screener.Log.Info("safety", "request_id", s.record.ID, "organization", s.record.Who.Organization, "model",
			s.record.Model(), "more_findings", n)
	}
}
