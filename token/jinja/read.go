package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// FromGo converts what encoding/json makes of JSON: nil, booleans, numbers, strings,
// []any and map[string]any, nested in any way; bytes are read as JSON. A Go map has no order, so its keys are
// sorted; use a [*Map] where order matters. Values that already are template
// values pass through.
func FromGo(v any) (Value, error) {
	switch v := v.(type) {
	case nil, bool, int, float64, string, *Text, *big.Int, *List, *Map:
		return v, nil
	case []any:
		return listFromGo(v)
	case map[string]any:
		return mapFromGo(v)
	case []byte:
		return FromJSON(v)
	}
	return nil, fmt.Errorf(
		"a Go value of type %T cannot be given to a template; use a map, a slice, a string, a number or FromJSON", v)
}

func listFromGo(items []any) (Value, error) {
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

func mapFromGo(m map[string]any) (Value, error) {
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

const (
	// jsonDepthMax bounds the nesting of JSON that is read; Python's own reader
	// stops near it too.
	jsonDepthMax = 500
	// intDigitsMax bounds integers; Python refuses to print longer ones.
	intDigitsMax = 4300
)

// FromJSON reads one JSON value. Objects keep the order of their keys and
// numbers keep the difference between 1 and 1.0, because both show in what a
// template prints.
func FromJSON(data []byte) (Value, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := readJSON(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("data after the JSON value at byte %d", dec.InputOffset())
	}
	return v, nil
}

func readJSON(dec *json.Decoder, depth int) (Value, error) {
	if depth > jsonDepthMax {
		return nil, fmt.Errorf("JSON nests more than %d levels at byte %d", jsonDepthMax, dec.InputOffset())
	}
	t, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("JSON ends early at byte %d: %w", dec.InputOffset(), io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, fmt.Errorf("JSON is invalid at byte %d: %w", dec.InputOffset(), err)
	}
	switch t := t.(type) {
	case json.Number:
		return readNumber(t.String())
	case json.Delim:
		if t == '[' {
			return readJSONList(dec, depth)
		}
		return readJSONMap(dec, depth)
	}
	return t, nil
}

func readNumber(text string) (Value, error) {
	if n, err := strconv.Atoi(text); err == nil {
		return n, nil
	}
	if !strings.ContainsAny(text, ".eE") {
		if len(text) > intDigitsMax {
			return nil, fmt.Errorf("an integer of %d digits is longer than the %d allowed", len(text), intDigitsMax)
		}
		if n, ok := new(big.Int).SetString(text, 10); ok {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("bad JSON number %q: %w", text, err)
	}
	return f, nil
}

func readJSONList(dec *json.Decoder, depth int) (Value, error) {
	list := &List{}
	for dec.More() {
		item, err := readJSON(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, item)
	}
	return list, endJSON(dec)
}

func readJSONMap(dec *json.Decoder, depth int) (Value, error) {
	m := NewMap()
	for dec.More() {
		key, err := dec.Token()
		name, ok := key.(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("JSON is invalid at byte %d: %w", dec.InputOffset(), err)
		}
		v, err := readJSON(dec, depth+1)
		if err != nil {
			return nil, err
		}
		m.Set(name, v)
	}
	return m, endJSON(dec)
}

func endJSON(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("JSON is invalid at byte %d: %w", dec.InputOffset(), err)
	}
	return nil
}
