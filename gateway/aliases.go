package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"parley"
	"parley/gateway/openai"
)

// An Alias is another name for models: one for each class of tenants, so that
// free and paid ones can have different models under one name. It goes before a
// model of the same name; a class for which it is empty has no such alias.
type Alias [parley.Classes]string

// AliasOf is an alias of one model for all classes.
func AliasOf(model string) (a Alias) {
	for class := range a {
		a[class] = model
	}
	return a
}

// checkAliases says which aliases stand for nothing.
func (c *Config) checkAliases() error {
	var problems []error
	served := func(id string) bool {
		return slices.ContainsFunc(c.Models, func(m Served) bool { return m.ID == id })
	}
	for name, alias := range c.Aliases {
		for class, id := range alias {
			if id != "" && !served(id) {
				problems = append(problems, fmt.Errorf(
					"the alias %q stands for %q in the tier %s, which is not served", name, id, parley.Class(class)))
			}
		}
	}
	return errors.Join(problems...)
}

// model returns the model that the client of a call named, as far as it may use
// it. One that it may not use does not exist for it.
func (c *call) model(name string) (*model, error) {
	g := c.gateway
	if name == "" {
		return c.defaultModel()
	}
	if m := g.modelNamed(name, c.Identity.Tier); m != nil && c.Identity.MayUse(name, m.ID) {
		return m, nil
	}
	return nil, openai.ModelNotFound(name)
}

// defaultModel is the model of those who name none: the gateway's or, for those
// who may not use that, the first they may.
func (c *call) defaultModel() (*model, error) {
	g := c.gateway
	fallback := g.models.Load().fallback
	if fallback == nil {
		return nil, openai.MissingModel()
	}
	if m, err := c.model(fallback.ID); err == nil {
		return m, nil
	}
	for _, m := range g.served() {
		if c.Identity.MayUse(m.ID) {
			return m, nil
		}
	}
	return nil, openai.MissingModel()
}

// modelNamed returns the model that a name stands for in a class, nil for none.
func (g *Gateway) modelNamed(name string, class parley.Class) *model {
	if id := g.config.Aliases[name][class]; id != "" {
		name = id
	}
	for _, m := range g.served() {
		if m.ID == name {
			return m
		}
	}
	return nil
}

// modelNames lists the names by which the client of a call gets a model: models
// in the order of the config, then aliases.
func (c *call) modelNames() (names []string) {
	g := c.gateway
	var candidates []string
	for _, m := range g.served() {
		candidates = append(candidates, m.ID)
	}
	for _, name := range slices.Sorted(maps.Keys(g.config.Aliases)) {
		if !slices.Contains(candidates, name) {
			candidates = append(candidates, name)
		}
	}
	for _, name := range candidates {
		if _, err := c.model(name); err == nil {
			names = append(names, name)
		}
	}
	return names
}
