package jinja

// A macro is a template function together with the scope it was made in.
type macro struct {
	syntax *macroSyntax
	scope  *scope
}

// call runs the macro and returns what it wrote.
func (m *macro) call(in *interp, args callArgs) (Value, error) {
	sc := &scope{parent: m.scope}
	if err := m.bind(in, sc, args); err != nil {
		return nil, err
	}
	return in.capture(func() error {
		_, err := in.execAll(m.syntax.body, sc)
		return err
	})
}

// bind gives the parameters their arguments or defaults. The names caller,
// kwargs and varargs exist only in bodies that mention them; without them
// surplus arguments are errors.
func (m *macro) bind(in *interp, sc *scope, args callArgs) error {
	s := m.syntax
	given := min(len(args.pos), len(s.params))
	explicitCaller := false
	for i, id := range s.params {
		explicitCaller = explicitCaller || s.names[i] == "caller"
		if i < given {
			sc.set(in, id, args.pos[i])
			continue
		}
		v, ok := args.take(s.names[i])
		if !ok {
			var err error
			if v, err = m.defaultOf(in, sc, i); err != nil {
				return err
			}
		}
		sc.set(in, id, v)
	}
	if s.callerID >= 0 && !explicitCaller {
		caller, ok := args.take("caller")
		if !ok || caller == nil {
			caller = undefinedHint("no caller defined")
		}
		sc.set(in, s.callerID, caller)
	}
	return m.bindSurplus(in, sc, args, given)
}

func (m *macro) defaultOf(in *interp, sc *scope, i int) (Value, error) {
	s := m.syntax
	if d := i - (len(s.params) - len(s.defaults)); d >= 0 {
		return in.eval(s.defaults[d], sc)
	}
	return undefinedHint("parameter '" + s.names[i] + "' was not provided"), nil
}

func (m *macro) bindSurplus(in *interp, sc *scope, args callArgs, given int) error {
	s := m.syntax
	if s.kwargsID >= 0 {
		kwargs := NewMap()
		for i, name := range args.names {
			kwargs.Set(name, args.named[i])
		}
		sc.set(in, s.kwargsID, kwargs)
	} else if len(args.names) > 0 {
		return typeErrorf("macro '%s' takes no keyword argument '%s'", s.name, args.names[0])
	}
	if s.varargID >= 0 {
		sc.set(in, s.varargID, &Tuple{Items: args.pos[given:]})
	} else if len(args.pos) > given {
		return typeErrorf("macro '%s' takes not more than %d argument(s)", s.name, len(s.params))
	}
	return nil
}

func (m *macro) attr(name string) (Value, bool) {
	s := m.syntax
	switch name {
	case "name":
		if s.name == "" {
			return nil, true
		}
		return s.name, true
	case "arguments":
		t := &Tuple{}
		for _, param := range s.names {
			t.Items = append(t.Items, param)
		}
		return t, true
	case "catch_kwargs":
		return s.kwargsID >= 0, true
	case "catch_varargs":
		return s.varargID >= 0, true
	case "caller":
		return s.callerID >= 0, true
	}
	return nil, false
}
