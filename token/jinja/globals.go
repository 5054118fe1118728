package jinja

import "math/big"

// globalTable has the functions every template can call.
var globalTable = map[string]*function{
	"range":           {name: "range", call: callRange},
	"dict":            {name: "dict", call: callDict},
	"namespace":       {name: "namespace", call: callNamespace},
	"joiner":          {name: "joiner", call: callJoiner},
	"raise_exception": {name: "raise_exception", call: callRaise},
	"strftime_now":    {name: "strftime_now", call: callStrftime},
}

func callRange(_ *interp, args callArgs) (Value, error) {
	values, err := args.required("range", 1, "start/", "stop/", "step/")
	if err != nil {
		return nil, err
	}
	bounds := [3]int{0, 0, 1}
	for i, v := range values {
		if bounds[i], err = intOr("range", v, bounds[i]); err != nil {
			return nil, err
		}
	}
	r := rangeValue{bounds[0], bounds[1], bounds[2]}
	if isAbsent(values[1]) {
		r.start, r.stop = 0, bounds[0]
	}
	if r.step == 0 {
		return nil, valueErrorf("range() arg 3 must not be zero")
	}
	if n := r.exactLen(); !n.IsInt64() || n.Int64() > rangeLenMax {
		return nil, limitErrorf("range too big: the sandbox blocks ranges larger than %d", rangeLenMax)
	}
	return r, nil
}

// exactLen is len without overflow.
func (r rangeValue) exactLen() *big.Int {
	span := new(big.Int).Sub(big.NewInt(int64(r.stop)), big.NewInt(int64(r.start)))
	if span.Sign() != big.NewInt(int64(r.step)).Sign() {
		return new(big.Int)
	}
	n, rest := new(big.Int).QuoRem(span, big.NewInt(int64(r.step)), new(big.Int))
	if rest.Sign() != 0 {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// callDict is dict(pairs or mapping, name=value…).
func callDict(in *interp, args callArgs) (Value, error) {
	if len(args.pos) > 1 {
		return nil, typeErrorf("dict expected at most 1 argument, got %d", len(args.pos))
	}
	m := NewMap()
	if len(args.pos) == 1 {
		if err := in.fillMap(m, args.pos[0]); err != nil {
			return nil, err
		}
	}
	if err := in.allocItems(4 * len(args.names)); err != nil {
		return nil, err
	}
	for i, name := range args.names {
		m.Set(name, args.named[i])
	}
	return m, nil
}

func (in *interp) fillMap(m *Map, source Value) error {
	if from, ok := source.(*Map); ok {
		if err := in.allocItems(4 * from.Len()); err != nil {
			return err
		}
		for i, key := range from.keys {
			if err := m.setValue(key, from.vals[i]); err != nil {
				return err
			}
		}
		return nil
	}
	pairs, err := in.collect(source)
	if err != nil {
		return err
	}
	if err := in.allocItems(4 * len(pairs)); err != nil {
		return err
	}
	for _, pair := range pairs {
		items, err := in.unpack(pair, 2)
		if err != nil {
			return err
		}
		if err := m.setValue(items[0], items[1]); err != nil {
			return err
		}
	}
	return nil
}

func callNamespace(in *interp, args callArgs) (Value, error) {
	m, err := callDict(in, args)
	if err != nil {
		return nil, err
	}
	attrs, _ := m.(*Map)
	return &namespace{attrs: attrs}, nil
}

func callJoiner(_ *interp, args callArgs) (Value, error) {
	values, err := args.params("joiner", "sep")
	if err != nil {
		return nil, err
	}
	if isAbsent(values[0]) {
		values[0] = ", "
	}
	return &joiner{sep: values[0]}, nil
}

func callRaise(in *interp, args callArgs) (Value, error) {
	values, err := args.required("raise_exception", 1, "message")
	if err != nil {
		return nil, err
	}
	text, err := in.str(values[0])
	if err != nil {
		return nil, err
	}
	return nil, &Error{Kind: Raised, Message: text}
}

func callStrftime(in *interp, args callArgs) (Value, error) {
	values, err := args.required("strftime_now", 1, "format")
	if err != nil {
		return nil, err
	}
	format, err := strOr("strftime_now", values[0], "")
	if err != nil {
		return nil, err
	}
	if in.now.IsZero() {
		return nil, errorf(RuntimeError,
			"the template asks for the date, but the render was given none; set Context.Now")
	}
	return in.strftime(format)
}
