package main

import (
	"fmt"

	"parley/internal/builtin"
	"parley/worker/host"
)

// The values of the draft setting beside names and paths.
const (
	draftAuto = "auto"
	draftOff  = "off"
)

// setDraft takes auto, off, or what openModel opens.
func setDraft(s *settings, text string) error {
	if text == "" {
		return errBadValue
	}
	s.draft = text
	return nil
}

// addDraft gives a model the one that guesses ahead for it: the one that the
// settings name, but none for itself, or the one that a built-in model comes
// with.
func (s *settings) addDraft(c *host.Candidate, from string) (err error) {
	name := s.draft
	if m, ok := builtin.Find(from); name == draftAuto {
		if !ok || c.Checkpoint.Path != "" {
			return nil
		}
		name = m.Draft
	}
	if name == "" || name == draftOff || name == from || !s.speculate {
		return nil
	}
	if c.Config.Draft, err = openModel(name); err != nil {
		return fmt.Errorf("draft model: %w", err)
	}
	if _, ok := builtin.Find(name); ok && c.Config.Draft.Path == "" {
		c.Config.DraftName = name
	}
	return nil
}
