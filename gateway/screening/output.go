package screening

import (
	"context"

	"parley/gateway/answer"
	"parley/gateway/safety"
)

// Judge returns what has the moderators outside judge an answer that is
// shown as a whole; nil if the policy has none do so. An answer that they block
// is a refusal, as one that is halted in its midst.
func (s *Screening) Judge(ctx context.Context) func(choice int, w *answer.CollectedChoice) error {
	if s.ruling == nil || s.ask == nil || !s.ruling.AsksOfOutput() {
		return nil
	}
	return func(choice int, w *answer.CollectedChoice) error {
		if w.Text.Len() == 0 || w.Finish == answer.FinishFiltered {
			return nil
		}
		blocked, err := s.askModerators(ctx, w.Text.String(), safety.FromModel, choice)
		if blocked {
			*w = answer.CollectedChoice{Finish: answer.FinishFiltered}
			w.Text.WriteString(s.ruling.Refusal)
		}
		return err
	}
}

// Restored returns a text of the prompt with the values that were taken out of it, where answers have them, too.
func (s *Screening) Restored(text string) string {
	if s.ruling == nil || !s.ruling.Restore || s.vault.Empty() {
		return text
	}
	return s.vault.Restore(text)
}

// OutputPolicy is what the answer is screened by; nil if by nothing.
func (s *Screening) OutputPolicy() *answer.OutputPolicy {
	if s.ask == nil {
		return nil
	}
	return answer.NewOutputPolicy(s.ruling, s.screener.Policies.Screen, s.vault,
		func(choice int, text string, decisions []safety.Decision) {
			s.note("output", safety.FromModel, choice, text, "", decisions)
		})
}
