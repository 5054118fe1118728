package gateway

import (
	"errors"
	"fmt"
	"strings"

	"parley"
	"parley/gateway/infer"
)

// A modelSet is what is served at a time. It is not changed: another takes its place. A
// request keeps the model that it began with.
type modelSet struct {
	list []*model
	// fallback is the model of requests that name none; nil if there is none.
	fallback *model
}

// served returns the models that are served now.
func (g *Gateway) served() []*model { return g.models.Load().list }

// SetModels changes what is served, while requests run. Models that stay, with the same
// ID and Worker, keep their queues; a request that runs with a model that goes is not
// disturbed.
func (g *Gateway) SetModels(models []Served) error {
	if err := checkServed(models); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	g.changingModels.Lock()
	defer g.changingModels.Unlock()
	set := &modelSet{}
	for _, s := range models {
		m := g.kept(&s)
		if m == nil {
			m = newModel(s, g.config.Now())
			m.now = g.config.Now
			if len(g.config.PublicPrompts) > 0 {
				m.public = &publicPrompts{texts: g.config.PublicPrompts}
			}
			var err error
			if m.pipeline, err = g.pipeline.Open(m.ID, m.Worker, set.pipelines()); err != nil {
				return err
			}
		}
		set.list = append(set.list, m)
		if s.Default {
			set.fallback = m
		}
	}
	g.models.Store(set)
	return nil
}

// kept returns the model as it is served now, nil if it is not or has changed.
func (g *Gateway) kept(s *Served) *model {
	now := g.models.Load()
	if now == nil {
		return nil
	}
	for _, m := range now.list {
		if m.ID == s.ID && m.Tokenizer == s.Tokenizer && infer.SameWorker(m.Worker, s.Worker) {
			return m
		}
	}
	return nil
}

func (s *modelSet) pipelines() (list []*infer.Model) {
	for _, m := range s.list {
		list = append(list, m.pipeline)
	}
	return list
}

// pipelines returns the models as the pipeline knows them.
func (g *Gateway) pipelines() []*infer.Model { return g.models.Load().pipelines() }

// checkServed reports everything that is wrong with a list of models.
func checkServed(models []Served) error {
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

// textOf returns how tokens of a model read.
func (g *Gateway) textOf(model string, tokens []parley.Token) string {
	for _, m := range g.served() {
		if m.ID == model {
			decoder := m.Tokenizer.NewAnswerDecoder()
			var text strings.Builder
			for _, t := range tokens {
				text.WriteString(decoder.Push(t))
			}
			return text.String() + decoder.Flush()
		}
	}
	return ""
}
