package models

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley"
	"parley/gateway/infer"
)

// A Set is the models that are served now. It is safe for concurrent use; a
// request keeps the model that it began with.
type Set struct {
	now      func() time.Time
	pipeline *infer.Pipeline
	// aliases are other names for models, public the system messages that all tenants
	// share.
	aliases map[string]Alias
	public  []string
	// fallbacks are asked where a model does not answer.
	fallbacks map[string]Fallback

	current  atomic.Pointer[servedList]
	changing sync.Mutex
}

// A servedList is what is served at a time. It is not changed: another takes its place.
type servedList struct {
	all []*Model
	// fallback is the model of requests that name none; nil if there is none.
	fallback *Model
}

// NewSet returns a set that serves nothing yet.
func NewSet(now func() time.Time, aliases map[string]Alias, public []string) *Set {
	s := &Set{now: now, aliases: aliases, public: public}
	s.current.Store(&servedList{})
	return s
}

// Open gives the set the pipeline that answers for its models, which there must be
// before a model is.
func (s *Set) Open(p *infer.Pipeline) { s.pipeline = p }

// All returns the models that are served now.
func (s *Set) All() []*Model { return s.current.Load().all }

// Change changes what is served, while requests run. Models that stay, with the same
// ID and Worker, keep their queues; a request that runs with a model that goes is not
// disturbed.
func (s *Set) Change(models []Config) error {
	if err := Check(models); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	next := &servedList{}
	for _, one := range models {
		m, err := s.model(&one, next)
		if err != nil {
			return err
		}
		next.all = append(next.all, m)
		if one.Default {
			next.fallback = m
		}
	}
	s.current.Store(next)
	return nil
}

// model returns the model as it is served now, or a new one beside those of next.
func (s *Set) model(served *Config, next *servedList) (m *Model, err error) {
	for _, m := range s.All() {
		if m.ID == served.ID && m.Tokenizer == served.Tokenizer && infer.SameWorker(m.Worker, served.Worker) {
			return m, nil
		}
	}
	m = newModel(*served, s.now)
	if len(s.public) > 0 {
		m.public = &publicPrompts{texts: s.public, now: s.now, begin: m.beginning}
	}
	m.Pipeline, err = s.pipeline.Open(m.ID, m.Worker, next.pipelines())
	return m, err
}

func (l *servedList) pipelines() (list []*infer.Model) {
	for _, m := range l.all {
		list = append(list, m.Pipeline)
	}
	return list
}

// Pipelines returns the models as the pipeline knows them.
func (s *Set) Pipelines() []*infer.Model { return s.current.Load().pipelines() }

// TextOf returns how tokens of a model read.
func (s *Set) TextOf(id string, tokens []parley.Token) string {
	for _, m := range s.All() {
		if m.ID == id {
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
