package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Value is what templates compute with. It is one of
//
//	nil         None
//	bool        True and False
//	int         an integer; *big.Int beyond 64 bits, which can be printed and compared
//	float64     a float
//	string      a string from outside the template
//	*Text       a string of which the template's author wrote some or all
//	*List       a list, a tuple, a range or a view of a dict
//	*Map        a dict, which keeps the order of its keys
//
// or one of the package's own objects (undefined values, namespaces, functions,
// iterators). Use [FromJSON] or [FromGo] to make one.
type Value = any

// A List is a sequence. Templates can change it only if [Options] say so.
type List struct {
	Items []Value
	// kind is Python's name of the type unless that is list.
	kind string
}

// NewList returns a list of items.
func NewList(items ...Value) *List { return &List{Items: items} }

func tupleOf(items ...Value) *List { return &List{Items: items, kind: "tuple"} }

// isView says that l shows the keys, values or items of a dict.
func (l *List) isView() bool { return strings.HasPrefix(l.kind, "dict_") }

// A generator yields its items once. Unlike those of Python it has computed them.
type generator struct{ items []Value }

// take returns the items and leaves none.
func (g *generator) take() []Value {
	items := g.items
	g.items = nil
	return items
}

// An undefined stands for a value that is not there. It prints as nothing
// and is false; anything else done with it is an error that says what was
// missing. The text of that error is only made when it is needed.
type undefined struct {
	hint        string
	kind        Kind
	owner, name Value
	hasOwner    bool
}

func undefinedHint(hint string) *undefined { return &undefined{hint: hint} }

func undefinedAttr(owner, name Value) *undefined {
	return &undefined{name: name, owner: owner, hasOwner: true}
}

func unsafeAttr(owner Value, name string) *undefined {
	hint := fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe; templates cannot change values", name,
		typeName(owner))
	return &undefined{hint: hint, kind: SecurityError}
}

func (u *undefined) fail() {
	kind := u.kind
	if kind == "" {
		kind = UndefinedError
	}
	name, isStr := asStr(u.name)
	switch owner := typeName(u.owner) + " object"; {
	case u.hint != "":
		fail(kind, "%s", u.hint)
	case !u.hasOwner:
		fail(kind, "'%v' is undefined", u.name)
	case isStr && u.owner == nil:
		fail(kind, "'None' has no attribute '%s'", name)
	case isStr:
		fail(kind, "'%s' has no attribute '%s'", owner, name)
	default:
		fail(kind, "%s has no element %v", owner, u.name)
	}
}

// mustDefine fails if one of the values is undefined.
func mustDefine(values ...Value) {
	for _, v := range values {
		if u, ok := v.(*undefined); ok {
			u.fail()
		}
	}
}

// An object is a value with attributes that belongs to the render.
type object interface {
	typeName() string
	attr(name string) (Value, bool)
}

// A namespace is the one thing a template may assign to from an inner scope.
type namespace struct{ attrs *Map }

func (*namespace) typeName() string { return "Namespace" }

func (ns *namespace) attr(name string) (Value, bool) { return ns.attrs.Get(name) }

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
		if v.kind != "" {
			return v.kind
		}
		return "list"
	case *Map:
		return "dict"
	case *undefined:
		return "Undefined"
	case *generator:
		return "generator"
	case object:
		return v.typeName()
	}
	return "object"
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

// is says whether v has the Go type T.
func is[T any](v Value) bool {
	_, ok := v.(T)
	return ok
}

func isString(v Value) bool { return is[string](v) || is[*Text](v) }

func isInteger(v Value) bool { return is[int](v) || is[*big.Int](v) }

func isNumber(v Value) bool {
	switch v.(type) {
	case int, bool, float64, *big.Int:
		return true
	}
	return false
}

// isSequence says that v has a length and items: a dict does, a view of one
// does not, and an undefined value does too.
func isSequence(v Value) bool {
	if l, ok := v.(*List); ok {
		return !l.isView()
	}
	return isString(v) || is[*Map](v) || is[*undefined](v)
}

// isIterable says that a for loop can run over v.
func isIterable(v Value) bool { return isSequence(v) || is[*List](v) || is[*generator](v) }

// lenOf is Python's len(v); ok is false where there is none.
func lenOf(v Value) (n int, ok bool) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), true
	case *Text:
		return utf8.RuneCountInString(v.text), true
	case *List:
		return len(v.Items), true
	case *Map:
		return v.Len(), true
	case *undefined:
		return 0, true
	}
	return 0, false
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *Text:
		return v.text != ""
	case *List:
		return len(v.Items) > 0
	case *Map:
		return v.Len() > 0
	}
	return true
}

// formatFloat prints a float as Python's repr does.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(fmt.Sprint(f)), "+")
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
