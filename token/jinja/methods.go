package jinja

import (
	"math"
	"slices"
)

// A method is a Python method; self has the type of its table.
type method func(in *interp, self Value, args callArgs) (Value, error)

// bind makes a method a value that can be called.
func bind(self Value, name string, m method) (Value, bool, error) {
	if m == nil {
		return nil, false, nil
	}
	return &function{name: name, call: func(in *interp, args callArgs) (Value, error) {
		v, err := m(in, self, args)
		if isString(self) {
			v = in.derivedValue(v, self, args)
		}
		return v, err
	}}, true, nil
}

// absent marks a parameter that got no argument.
type absent struct{}

// params gives arguments to parameters by position and by name. A name that
// ends in a slash takes its argument by position only.
func (a callArgs) params(fn string, names ...string) ([]Value, error) {
	if len(a.pos) > len(names) {
		return nil, typeErrorf("%s() takes at most %d arguments (%d given)", fn, len(names), len(a.pos))
	}
	values := make([]Value, len(names))
	for i := range values {
		values[i] = absent{}
	}
	copy(values, a.pos)
	for i, name := range a.names {
		place := slices.Index(names, name)
		if place < 0 {
			return nil, typeErrorf("%s() got an unexpected keyword argument '%s'", fn, name)
		}
		if _, isFree := values[place].(absent); !isFree {
			return nil, typeErrorf("%s() got multiple values for argument '%s'", fn, name)
		}
		values[place] = a.named[i]
	}
	return values, nil
}

// required is params where the first n must be given.
func (a callArgs) required(fn string, n int, names ...string) ([]Value, error) {
	values, err := a.params(fn, names...)
	if err != nil {
		return nil, err
	}
	for i := range n {
		if _, isAbsent := values[i].(absent); isAbsent {
			return nil, typeErrorf("%s() missing required argument '%s'", fn, names[i])
		}
	}
	return values, nil
}

// none checks that there are no arguments.
func (a callArgs) none(fn string) error {
	_, err := a.params(fn)
	return err
}

func isAbsent(v Value) bool {
	_, ok := v.(absent)
	return ok
}

// intOr returns an integer argument, or d if it is absent.
func intOr(fn string, v Value, d int) (int, error) {
	if isAbsent(v) {
		return d, nil
	}
	if u, ok := v.(*Undefined); ok {
		return 0, u.err()
	}
	n, ok := asInt(v)
	if !ok {
		return 0, typeErrorf("%s(): '%s' object cannot be interpreted as an integer", fn, typeName(v))
	}
	return n, nil
}

// strOr returns a string argument, or d if it is absent.
func strOr(fn string, v Value, d string) (string, error) {
	if isAbsent(v) {
		return d, nil
	}
	s, ok := asStr(v)
	if !ok {
		return "", typeErrorf("%s() argument must be str, not %s", fn, typeName(v))
	}
	return s, nil
}

// boolOr returns the truth of an argument, or d if it is absent.
func boolOr(v Value, d bool) bool {
	if isAbsent(v) {
		return d
	}
	return truth(v)
}

var mapMethods = map[string]method{
	"items":  mapView("dict_items"),
	"keys":   mapView("dict_keys"),
	"values": mapView("dict_values"),
	"get":    mapGet,
	"copy":   mapCopy,
}

func mapView(kind string) method {
	return func(_ *interp, self Value, args callArgs) (Value, error) {
		m, _ := self.(*Map)
		return &dictView{of: m, kind: kind}, args.none(kind)
	}
}

func mapGet(_ *interp, self Value, args callArgs) (Value, error) {
	values, err := args.required("get", 1, "key/", "default/")
	if err != nil {
		return nil, err
	}
	m, _ := self.(*Map)
	v, ok, err := m.getValue(values[0])
	if err != nil {
		return nil, err
	}
	if !ok {
		v = values[1]
		if isAbsent(v) {
			v = nil
		}
	}
	return v, nil
}

func mapCopy(in *interp, self Value, args callArgs) (Value, error) {
	m, _ := self.(*Map)
	if err := in.allocItems(4 * m.Len()); err != nil {
		return nil, err
	}
	return m.copy(), args.none("copy")
}

var listMethods = map[string]method{
	"index": listIndex,
	"count": listCount,
}

// listChanges change a list. What is appended is a plain value, so that no list
// contains itself.
var listChanges = map[string]method{
	"append": listAppend,
	"pop":    listPop,
}

func listAppend(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.required("append", 1, "value/")
	if err != nil {
		return nil, err
	}
	if _, isPlain := jsonScalar(values[0]); !isPlain && !isString(values[0]) {
		return nil, typeErrorf("append() takes strings, numbers, booleans and None here, not %s", typeName(values[0]))
	}
	list, _ := self.(*List)
	list.Items = append(list.Items, values[0])
	return nil, in.work(1)
}

func listPop(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.params("pop", "index/")
	if err != nil {
		return nil, err
	}
	list, _ := self.(*List)
	at := len(list.Items) - 1
	if i, ok := values[0].(int); ok {
		if at = i; i < 0 {
			at += len(list.Items)
		}
	}
	if at < 0 || at >= len(list.Items) {
		return nil, errorf(RuntimeError, "IndexError: pop from an empty list or index out of range")
	}
	item := list.Items[at]
	list.Items = slices.Delete(slices.Clone(list.Items), at, at+1)
	return item, in.work(len(list.Items))
}

func listIndex(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.required("index", 1, "value/", "start/", "stop/")
	if err != nil {
		return nil, err
	}
	items, err := in.collect(self)
	if err != nil {
		return nil, err
	}
	for i, v := range values[1:] {
		if isAbsent(v) {
			values[1+i] = nil
		}
	}
	r, err := sliceRange(len(items), values[1], values[2], nil)
	if err != nil {
		return nil, err
	}
	for i := r.start; i < r.stop; i++ {
		same, err := in.equal(items[i], values[0])
		if err != nil {
			return nil, err
		}
		if same {
			return i, nil
		}
	}
	return nil, valueErrorf("the value is not in the %s", typeName(self))
}

func listCount(in *interp, self Value, args callArgs) (Value, error) {
	values, err := args.required("count", 1, "value/")
	if err != nil {
		return nil, err
	}
	items, err := in.collect(self)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, item := range items {
		same, err := in.equal(item, values[0])
		if err != nil {
			return nil, err
		}
		if same {
			n++
		}
	}
	return n, nil
}

func floatIsInteger(_ *interp, self Value, args callArgs) (Value, error) {
	f, _ := self.(float64)
	return f == math.Trunc(f) && !math.IsInf(f, 0), args.none("is_integer")
}

func intBitLength(_ *interp, self Value, args callArgs) (Value, error) {
	n, _ := asBig(self)
	return n.BitLen(), args.none("bit_length")
}

func (j *joiner) call() (Value, error) {
	if !j.used {
		j.used = true
		return "", nil
	}
	return j.sep, nil
}
