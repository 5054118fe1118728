package jinja

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// A Value is what templates compute with. It is one of
//
//	nil         None
//	bool        True and False
//	int         an integer; *big.Int beyond 64 bits
//	float64     a float
//	string      a string from outside the template
//	*Text       a string of which the template's author wrote some or all
//	*List       a list
//	*Tuple      a tuple
//	*Map        a dict, which keeps the order of its keys
//	*Undefined  the absence of a value
//
// or one of the package's own objects (namespaces, macros, iterators). Use
// [FromJSON] or [FromGo] to make one.
type Value = any

// A List is a list. Templates cannot change it once it is made.
type List struct{ Items []Value }

// NewList returns a list of items.
func NewList(items ...Value) *List { return &List{Items: items} }

// A Tuple is an immutable sequence.
type Tuple struct {
	Items  []Value
	fields []string
}

func tupleOf(items ...Value) *Tuple { return &Tuple{Items: items} }

// An Undefined stands for a value that is not there. It prints as nothing
// and is false; anything else done with it is an error that says what was
// missing.
type Undefined struct {
	hint     string
	name     Value
	owner    Value
	hasOwner bool
	kind     Kind
}

func undefinedName(name string) *Undefined { return &Undefined{name: name} }

func undefinedHint(hint string) *Undefined { return &Undefined{hint: hint} }

func undefinedAttr(owner, name Value) *Undefined {
	return &Undefined{name: name, owner: owner, hasOwner: true}
}

func unsafeAttr(owner Value, name string) *Undefined {
	hint := fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe; templates cannot change values", name,
		typeName(owner))
	return &Undefined{hint: hint, kind: SecurityError}
}

func (u *Undefined) err() error {
	kind := u.kind
	if kind == "" {
		kind = UndefinedError
	}
	if u.hint != "" {
		return errorf(kind, "%s", u.hint)
	}
	if !u.hasOwner {
		return errorf(kind, "'%v' is undefined", u.name)
	}
	owner := typeName(u.owner) + " object"
	if u.owner == nil {
		owner = "None"
	}
	if name, ok := asStr(u.name); ok {
		return errorf(kind, "'%s' has no attribute '%s'", owner, name)
	}
	return errorf(kind, "%s has no element %v", owner, u.name)
}

// A namespace is the one thing a template may assign to from an inner scope.
type namespace struct{ attrs *Map }

// A rangeValue is what range() returns.
type rangeValue struct{ start, stop, step int }

func (r rangeValue) len() int {
	switch {
	case r.step > 0 && r.start < r.stop:
		return (r.stop-r.start-1)/r.step + 1
	case r.step < 0 && r.start > r.stop:
		return (r.start-r.stop-1)/-r.step + 1
	}
	return 0
}

// A generator yields values once, lazily; next reports false at the end.
type generator struct {
	next func() (Value, bool, error)
	kind string
}

// A dictView is what keys(), values() and items() return.
type dictView struct {
	of   *Map
	kind string
}

func (d *dictView) at(i int) Value {
	switch d.kind {
	case "dict_keys":
		return d.of.keys[i]
	case "dict_values":
		return d.of.vals[i]
	}
	return tupleOf(d.of.keys[i], d.of.vals[i])
}

// A function is anything callable that is not a macro: globals and bound
// methods.
type function struct {
	name string
	call func(in *interp, args callArgs) (Value, error)
}

type joiner struct {
	sep  Value
	used bool
}

// FromGo converts Go values: nil, booleans, numbers, strings, slices and maps
// with string keys, nested in any way. A Go map has no order, so its keys are
// sorted; use a [*Map] where order matters. Values that already are template
// values pass through.
func FromGo(v any) (Value, error) {
	switch v := v.(type) {
	case nil, bool, int, float64, string, *Text, *big.Int, *List, *Tuple, *Map:
		return v, nil
	case int32:
		return int(v), nil
	case int64:
		return int(v), nil
	case uint32:
		return int(v), nil
	case uint64:
		return shrink(new(big.Int).SetUint64(v)), nil
	case float32:
		return float64(v), nil
	case []any:
		return listFromGo(v)
	case []string:
		return listFromGo(v)
	case []map[string]any:
		return listFromGo(v)
	case map[string]any:
		return mapFromGo(v)
	case map[string]string:
		return mapFromGo(v)
	case []byte:
		return FromJSON(v)
	}
	return nil, fmt.Errorf(
		"a Go value of type %T cannot be given to a template; use a map, a slice, a string, a number or FromJSON", v)
}

func listFromGo[T any](items []T) (Value, error) {
	list := &List{Items: make([]Value, len(items))}
	for i, item := range items {
		v, err := FromGo(item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		list.Items[i] = v
	}
	return list, nil
}

func mapFromGo[T any](m map[string]T) (Value, error) {
	out := NewMap()
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v, err := FromGo(m[key])
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		out.Set(key, v)
	}
	return out, nil
}

// typeName is the name Python gives the type of v.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int, *big.Int:
		return "int"
	case float64:
		return "float"
	case string, *Text:
		return "str"
	case *List:
		return "list"
	case *Tuple:
		return "tuple"
	case *Map:
		return "dict"
	case *Undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case rangeValue:
		return "range"
	case *generator:
		return v.kind
	case *dictView:
		return v.kind
	case *macro:
		return "Macro"
	case *loopState:
		return "LoopContext"
	case *joiner:
		return "Joiner"
	}
	return "function"
}

// asStr returns the text of strings.
func asStr(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case *Text:
		return v.text, true
	}
	return "", false
}

// asInt returns the value of integers and booleans that fit an int.
func asInt(v Value) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case *Undefined:
		return false
	case *loopState:
		return true
	}
	if n, ok := lenOf(v); ok {
		return n > 0
	}
	return true
}

// formatFloat prints a float as Python's repr does.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if exp := math.Abs(f); exp != 0 && (exp < 1e-4 || exp >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
