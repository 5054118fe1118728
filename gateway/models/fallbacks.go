package models

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley"
	"parley/gateway/tenant"
)

// A Cause is why a model did not answer, as far as another one may.
type Cause string

// The causes.
const (
	// OnError: its workers failed or are gone.
	OnError Cause = "error"
	// OnOverload: it has no room now, or its service limits the gateway.
	OnOverload Cause = "overload"
	// OnContext: the conversation is too long for it.
	OnContext Cause = "context"
)

// Causes lists all of them.
func Causes() []Cause { return []Cause{OnError, OnOverload, OnContext} }

// CauseOf returns what cause a failure before the first token is; empty if no other model would help,
// as with a request that is wrong or a client that is gone.
func CauseOf(err error) Cause {
	if _, known := errors.AsType[*parley.Error](err); !known {
		return ""
	}
	for cause, codes := range causeCodes {
		if slices.Contains(codes, parley.CodeOf(err)) {
			return cause
		}
	}
	return ""
}

// causeCodes are the codes of errors of each cause.
var causeCodes = map[Cause][]parley.Code{
	OnError:    {parley.Unavailable, parley.NotFound, parley.Internal},
	OnOverload: {parley.Overloaded, parley.RateLimited},
	OnContext:  {parley.ContextTooLong},
}

// Elsewhere returns the codes of errors for which Next has another model to ask.
func (s *Set) Elsewhere(who *tenant.Identity, model string, tried, left []string) (codes []parley.Code) {
	if len(s.fallbacks) == 0 {
		return nil
	}
	for _, cause := range Causes() {
		tried, left := slices.Clone(tried), slices.Clone(left)
		if s.Next(who, model, cause, &tried, &left) != nil {
			codes = append(codes, causeCodes[cause]...)
		}
	}
	return codes
}

// A Fallback says for each cause which models are asked instead, in order.
type Fallback map[Cause][]string

// CheckFallbacks reports which fallbacks are of models that are not served or lead to such, and
// which lead back to where they began.
func CheckFallbacks(fallbacks map[string]Fallback, models []Config) error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	served := func(id string) bool {
		return slices.ContainsFunc(models, func(m Config) bool { return m.ID == id })
	}
	for _, from := range slices.Sorted(maps.Keys(fallbacks)) {
		if !served(from) {
			wrong("fallbacks: %q is not served", from)
		}
		for _, to := range fallbacks[from].all() {
			if !served(to) {
				wrong("fallbacks: %q falls back to %q, which is not served", from, to)
			}
		}
		if path := cycle(fallbacks, []string{from}); path != nil {
			wrong("fallbacks: %s is a cycle", strings.Join(path, " -> "))
		}
	}
	return errors.Join(problems...)
}

// all lists the models of all causes.
func (f Fallback) all() (list []string) {
	for _, cause := range Causes() {
		for _, to := range f[cause] {
			if !slices.Contains(list, to) {
				list = append(list, to)
			}
		}
	}
	return list
}

// cycle returns a way that leads from the first model of path back to it; nil if there is none.
func cycle(fallbacks map[string]Fallback, path []string) []string {
	for _, to := range fallbacks[path[len(path)-1]].all() {
		switch {
		case to == path[0]:
			return append(path, to)
		case slices.Contains(path, to): // a cycle that path[0] is not a part of
		default:
			if found := cycle(fallbacks, append(path[:len(path):len(path)], to)); found != nil {
				return found
			}
		}
	}
	return nil
}

// FallBack has other models asked where one does not answer. It must be called before the set is used.
func (s *Set) FallBack(fallbacks map[string]Fallback) { s.fallbacks = fallbacks }

// Next returns the model to ask instead of one that failed for a cause, as far as the caller may use it:
// the first of its own fallbacks, then of those that are left of models before it, that was not tried. Tried
// and left are brought up to date. It returns nil if there is none.
func (s *Set) Next(who *tenant.Identity, failed string, cause Cause, tried, left *[]string) *Model {
	*tried = append(*tried, failed)
	if cause == "" {
		return nil
	}
	*left = slices.Concat(s.fallbacks[failed][cause], *left)
	for len(*left) > 0 {
		name := (*left)[0]
		*left = (*left)[1:]
		if slices.Contains(*tried, name) {
			continue
		}
		if m, err := s.Find(who, name); err == nil {
			return m
		}
	}
	return nil
}
