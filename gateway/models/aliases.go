package models

import (
	"errors"
	"fmt"
	"slices"

	"parley"
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

// CheckAliases reports which aliases stand for a model that is not among models.
func CheckAliases(aliases map[string]Alias, models []Config) error {
	var problems []error
	served := func(id string) bool {
		return slices.ContainsFunc(models, func(m Config) bool { return m.ID == id })
	}
	for name, alias := range aliases {
		for class, id := range alias {
			if id != "" && !served(id) {
				problems = append(problems, fmt.Errorf(
					"the alias %q stands for %q in the tier %s, which is not served", name, id, parley.Class(class)))
			}
		}
	}
	return errors.Join(problems...)
}
