package models

import (
	"errors"
	"fmt"
	"time"

	"parley"
	"parley/token"
	"parley/token/gauge"
)

// A Config is one model as clients see it.
type Config struct {
	// ID is the name clients use and the one the worker knows. It may hold / and :.
	ID string
	// Worker computes the answers.
	Worker parley.Worker
	// Tokenizer belongs to the model's vocabulary.
	Tokenizer *token.Tokenizer
	// Template renders conversations; nil serves plain completions only.
	Template *token.ChatTemplate
	// Gauge is set for a model whose own tokenizer is not known: Tokenizer is then another one, and
	// the gauge estimates from its counts what the model will count.
	Gauge *gauge.Gauge
	// ContextTokens bounds prompt and answer together; default: what the worker says.
	ContextTokens int
	// OwnedBy is shown in the list of models; default "parley".
	OwnedBy string
	// Created is shown in the list of models; default: when the gateway was made.
	Created time.Time
	// About is what is shown of the model's file.
	About About
	// Demo marks a model that is too small for real work: titles of its conversations are
	// taken from the first question, and pages say how to add a real one.
	Demo bool
	// Default makes this the model of requests that name none. At most one.
	Default bool
}

func (m *Config) validate() error {
	switch {
	case m.ID == "":
		return errors.New("the ID is empty")
	case m.Worker == nil:
		return errors.New("there is no Worker")
	case m.Tokenizer == nil:
		return errors.New("there is no Tokenizer")
	case m.Context() <= 0:
		return errors.New("the context is unknown: set ContextTokens, or let the worker list the model")
	}
	return nil
}

// Context returns the configured context or, where none is, the worker's.
func (m *Config) Context() int {
	if m.ContextTokens != 0 {
		return m.ContextTokens
	}
	for _, known := range m.Worker.Models() {
		if known.ID == m.ID {
			return known.ContextTokens
		}
	}
	return 0
}

// Check reports everything that is wrong with a list of models.
func Check(models []Config) error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(models) == 0 {
		wrong("no model is served: give Models at least one entry")
	}
	seen, defaults := map[string]bool{}, 0
	for i := range models {
		m := &models[i]
		if err := m.validate(); err != nil {
			wrong("model %d (%q): %w", i, m.ID, err)
		}
		if seen[m.ID] {
			wrong("model %d: the ID %q is used twice", i, m.ID)
		}
		seen[m.ID] = true
		if m.Default {
			defaults++
		}
	}
	if defaults > 1 {
		wrong("%d models are marked as the default: mark at most one", defaults)
	}
	return errors.Join(problems...)
}
