package models

import (
	"maps"
	"slices"

	"parley"
	"parley/gateway/openai"
	"parley/gateway/tenant"
)

// Find returns the model that a caller named, as far as it may use it. One that it may
// not use does not exist for it.
func (s *Set) Find(who *tenant.Identity, name string) (*Model, error) {
	if name == "" {
		return s.fallback(who)
	}
	if m := s.named(name, who.Tier); m != nil && who.MayUse(name, m.ID) {
		return m, nil
	}
	return nil, openai.ModelNotFound(name)
}

// fallback returns the model of a caller that names none: the server's default or, if
// the caller may not use that, the first that it may.
func (s *Set) fallback(who *tenant.Identity) (*Model, error) {
	fallback := s.current.Load().fallback
	if fallback == nil {
		return nil, openai.MissingModel()
	}
	if m, err := s.Find(who, fallback.ID); err == nil {
		return m, nil
	}
	for _, m := range s.All() {
		if who.MayUse(m.ID) {
			return m, nil
		}
	}
	return nil, openai.MissingModel()
}

// named returns the model that a name stands for in a class, nil for none.
func (s *Set) named(name string, class parley.Class) *Model {
	if id := s.aliases[name][class]; id != "" {
		name = id
	}
	for _, m := range s.All() {
		if m.ID == name {
			return m
		}
	}
	return nil
}

// Names lists the names by which a caller gets a model: models in the order of the
// config, then aliases.
func (s *Set) Names(who *tenant.Identity) (names []string) {
	var candidates []string
	for _, m := range s.All() {
		candidates = append(candidates, m.ID)
	}
	for _, name := range slices.Sorted(maps.Keys(s.aliases)) {
		if !slices.Contains(candidates, name) {
			candidates = append(candidates, name)
		}
	}
	for _, name := range candidates {
		if _, err := s.Find(who, name); err == nil {
			names = append(names, name)
		}
	}
	return names
}
