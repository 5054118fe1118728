package jinja

import (
	"slices"
	"strings"
)

// A method is a Python method; self has the type of its table.
type method func(r *state, self Value, args callArgs) Value

var mapMethods = map[string]method{
	"items": func(r *state, self Value, args callArgs) Value {
		args.none("items")
		return &List{Items: r.pairs(self.(*Map)), kind: "dict_items"}
	},
	"keys": func(_ *state, self Value, args callArgs) Value {
		args.none("keys")
		return &List{Items: self.(*Map).keys, kind: "dict_keys"}
	},
	"values": func(_ *state, self Value, args callArgs) Value {
		args.none("values")
		return &List{Items: self.(*Map).vals, kind: "dict_values"}
	},
	"get": func(_ *state, self Value, args callArgs) Value {
		p := args.bind("get", 1, "key/", "default/")
		if v, ok := self.(*Map).getValue(p.values[0]); ok {
			return v
		}
		return p.value(1, nil)
	},
}

// listChanges change a list, which only lenient templates may. What is appended
// is a plain value, so that no list contains itself.
var listChanges = map[string]method{
	"append": func(r *state, self Value, args callArgs) Value {
		v := args.bind("append", 1, "value/").values[0]
		if _, isPlain := jsonScalar(v); !isPlain && !isString(v) {
			failType("append() takes strings, numbers, booleans and None here, not %s", typeName(v))
		}
		r.allocItems(1)
		list := self.(*List)
		list.Items = append(list.Items, v)
		return nil
	},
	"pop": func(r *state, self Value, args callArgs) Value {
		list := self.(*List)
		at := args.bind("pop", 0, "index/").integer(0, -1)
		if at < 0 {
			at += len(list.Items)
		}
		if at < 0 || at >= len(list.Items) {
			fail(RuntimeError, "IndexError: pop from an empty list or index out of range")
		}
		item := list.Items[at]
		r.work(len(list.Items))
		list.Items = slices.Delete(slices.Clone(list.Items), at, at+1)
		return item
	},
}

var (
	listMutators = []string{"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}
	mapMutators  = []string{"clear", "pop", "popitem", "setdefault", "update"}
)

// methodOf returns the method name of owner, or nil.
func (r *state) methodOf(owner Value, name string) method {
	switch o := owner.(type) {
	case string, *Text:
		return strMethods[name]
	case *Map:
		return mapMethods[name]
	case *List:
		if o.kind == "" && r.options.Lenient {
			return listChanges[name]
		}
	}
	return nil
}

// isRefused says that name is an attribute of owner in Python that the sandbox
// refuses: one that changes it or leads out of the sandbox.
func isRefused(owner Value, name string) bool {
	switch o := owner.(type) {
	case *Map:
		if slices.Contains(mapMutators, name) {
			return true
		}
	case *List:
		if o.kind == "" && slices.Contains(listMutators, name) {
			return true
		}
	case *namespace:
		return false
	}
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// callMethod calls m and gives a string it returns its provenance.
func (r *state) callMethod(m method, self Value, args callArgs) Value {
	v := m(r, self, args)
	if isString(self) {
		v = r.derived(v, self, args)
	}
	return v
}

// attribute returns what Python's getattr finds: methods and fields, not
// items. What would change the value is there but cannot be used.
func (r *state) attribute(owner Value, name string) (Value, bool) {
	if m := r.methodOf(owner, name); m != nil {
		call := func(r *state, args callArgs) Value { return r.callMethod(m, owner, args) }
		return &function{kind: "method", name: name, call: call}, true
	}
	if isRefused(owner, name) {
		return unsafeAttr(owner, name), true
	}
	if o, ok := owner.(object); ok {
		return o.attr(name)
	}
	return nil, false
}

// attr is owner.name: Python's attribute first, then the item.
func (r *state) attr(owner Value, name string) Value {
	mustDefine(owner)
	if v, ok := r.attribute(owner, name); ok {
		return v
	}
	if m, ok := owner.(*Map); ok {
		if v, ok := m.Get(name); ok {
			return v
		}
	}
	return undefinedAttr(owner, name)
}

// item is owner[key]: the item first, then Python's attribute.
func (r *state) item(owner, key Value) Value {
	mustDefine(owner)
	if v, ok := r.element(owner, key); ok {
		return v
	}
	if name, ok := asStr(key); ok {
		if v, ok := r.attribute(owner, name); ok {
			return v
		}
	}
	return undefinedAttr(owner, key)
}
