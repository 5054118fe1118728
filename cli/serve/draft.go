package serve

import (
	"fmt"

	"parley/cli/library"
	"parley/cli/settings"
	"parley/internal/builtin"
	"parley/worker/host"
)

// addDraft gives a model the one that guesses ahead for it: the one that the
// settings name, but none for itself, or the one that a built-in model comes
// with.
func addDraft(s *settings.Settings, c *host.Candidate, from string) (err error) {
	name := s.Draft
	if m, ok := builtin.Find(from); name == settings.DraftAuto {
		if !ok || c.Checkpoint.Path != "" {
			return nil
		}
		name = m.Draft
	}
	if name == "" || name == settings.DraftOff || name == from || !s.Speculate {
		return nil
	}
	if c.Config.Draft, err = library.Open(name); err != nil {
		return fmt.Errorf("draft model: %w", err)
	}
	if _, ok := builtin.Find(name); ok && c.Config.Draft.Path == "" {
		c.Config.DraftName = name
	}
	return nil
}
