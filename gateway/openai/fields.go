package openai

import "parley"

// membersMax bounds the members of an object that is read by name. The largest
// real request has about forty.
const membersMax = 1000

// fields reads an object member by member and keeps the first error, so that
// a parser is a plain list of what it takes. An explicit null counts as
// absent; unknown names are ignored; of two members with one name the
// last is read.
type fields struct {
	at  value
	err error
	// few are the members of most objects, in order, in room if that is large enough; the map has them if
	// there are more.
	few     []value
	room    [8]value
	members map[string]value
	// seen has a bit for each name that is there: most names that are looked for are not.
	seen uint64
}

// nameBit is the bit of a name in fields.seen, which other names may have, too.
func nameBit(name string) uint64 {
	if name == "" {
		return 1
	}
	return 1 << ((uint(name[0]) + 7*uint(len(name))) % 64)
}

// fewMembers are found as quickly one by one as in a map, and need none.
const fewMembers = 16

func (v *value) fields() *fields {
	f := &fields{at: *v}
	if !v.isObject() {
		f.err = v.wrongType("an object")
		return f
	}
	f.few = f.room[:0]
	for name, v := range v.members() {
		f.add(name, v)
		if f.err != nil {
			break
		}
	}
	return f
}

// add takes a member.
func (f *fields) add(name string, v value) {
	f.seen |= nameBit(name)
	if f.members == nil && len(f.few) < fewMembers {
		f.few = append(f.few, v)
		return
	}
	if f.members == nil {
		f.members = make(map[string]value, 2*fewMembers)
		for i := range f.few {
			f.members[f.few[i].key] = f.few[i]
		}
	}
	if len(f.members) == membersMax {
		f.err = withCode("invalid_value",
			parley.Invalid(f.at.path(), "An object has more than %d members.", membersMax))
		return
	}
	f.members[name] = v
}

// find returns the last member called name.
func (f *fields) find(name string) (v value, ok bool) {
	if f.members != nil {
		v, ok = f.members[name]
		return v, ok
	}
	for i := len(f.few) - 1; i >= 0; i-- {
		if f.few[i].key == name {
			return f.few[i], true
		}
	}
	return value{}, false
}

// take returns the member called name. It reports false if the member is
// absent or null, or if an error was already met.
func (f *fields) take(name string) (value, bool) {
	if f.seen&nameBit(name) == 0 {
		return value{}, false
	}
	v, ok := f.find(name)
	return v, ok && f.err == nil && !v.isNull()
}

// fail keeps err if it is the first.
func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// missing is the error for a member that must be there.
func (f *fields) missing(name string) error {
	v := value{parent: &f.at, key: name}
	return withCode("missing_required_parameter",
		parley.Invalid(v.path(), "Missing required parameter: '%s'.", v.path()))
}

func (f *fields) text(name string, into *string) {
	if v, ok := f.take(name); ok {
		var err error
		*into, err = v.text()
		f.fail(err)
	}
}

// needed fails if the member is not there.
func (f *fields) needed(name string) {
	if _, ok := f.take(name); !ok {
		f.fail(f.missing(name))
	}
}

// need takes a string that must be there.
func (f *fields) need(name string, into *string) {
	f.needed(name)
	f.text(name, into)
}

func (f *fields) flag(name string, into *bool) {
	if v, ok := f.take(name); ok {
		var err error
		*into, err = v.flag()
		f.fail(err)
	}
}

func (f *fields) integer(name string, low, high int64, into *int) {
	if v, ok := f.take(name); ok {
		n, err := v.integerIn(low, high)
		*into = int(n)
		f.fail(err)
	}
}

func (f *fields) decimal(name string, low, high float64, into *float32) {
	if v, ok := f.take(name); ok {
		d, err := v.decimalIn(low, high)
		*into = float32(d)
		f.fail(err)
	}
}

// refuseUnless rejects a member that an interface does not have, unless its value is neutral
// and asks for nothing.
func refuseUnless(neutral string) func(value) error {
	return func(v value) error {
		if string(v.raw) == neutral {
			return nil
		}
		return v.unsupported("this interface does not have it: leave it out.")
	}
}

// with hands the member called name to read, if it is there.
func (f *fields) with(name string, read func(value) error) {
	if f.seen&nameBit(name) == 0 {
		return
	}
	if v, ok := f.take(name); ok {
		f.fail(read(v))
	}
}

// object reads the members of the object called name.
func (f *fields) object(name string, read func(*fields)) {
	f.with(name, func(v value) error {
		inner := v.fields()
		if inner.err == nil {
			read(inner)
		}
		return inner.err
	})
}
