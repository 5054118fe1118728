package jinja

import (
	"maps"
	"math"
	"math/big"
)

// A Map is a dict: keys are unique and keep the order in which they were
// first set, because templates print and serialise dicts in that order.
// Readers may share a Map; Set must not run at the same time.
type Map struct {
	keys []Value
	vals []Value
	// index is nil while the map is small and has only string keys: most
	// messages have two to five keys and a scan is faster than hashing.
	index map[any]int
}

const scanKeysMax = 8

// NewMap returns an empty map.
func NewMap() *Map { return &Map{} }

// usualKeys is how many keys there is room for at first.
const usualKeys = 4

// grow makes room for a number of keys in an empty map.
func (m *Map) grow(keys int) {
	room := make([]Value, 2*keys)
	m.keys, m.vals = room[:0:keys], room[keys:keys]
}

// Copy returns a map with the entries of m, and room for more.
func (m *Map) Copy(more int) *Map {
	c := &Map{index: maps.Clone(m.index)}
	c.grow(len(m.keys) + more)
	c.keys, c.vals = append(c.keys, m.keys...), append(c.vals, m.vals...)
	return c
}

// Len returns the number of keys.
func (m *Map) Len() int { return len(m.keys) }

// Set puts v under key, at the end if key is new.
func (m *Map) Set(key string, v Value) { m.set(key, key, v) }

// Get returns the value under key and whether there is one.
func (m *Map) Get(key string) (Value, bool) {
	i := -1
	if m.index == nil {
		i = m.scan(key)
	} else if at, ok := m.index[key]; ok {
		i = at
	}
	if i < 0 {
		return nil, false
	}
	return m.vals[i], true
}

// Keys returns the string keys in order.
func (m *Map) Keys() []string {
	names := make([]string, 0, len(m.keys))
	for _, key := range m.keys {
		if name, ok := asStr(key); ok {
			names = append(names, name)
		}
	}
	return names
}

func (m *Map) find(hash any) int {
	if m.index != nil {
		if i, ok := m.index[hash]; ok {
			return i
		}
	} else if name, ok := hash.(string); ok {
		return m.scan(name)
	}
	return -1
}

func (m *Map) scan(name string) int {
	for i, key := range m.keys {
		if s, ok := asStr(key); ok && s == name {
			return i
		}
	}
	return -1
}

func (m *Map) set(hash any, key, v Value) {
	if i := m.find(hash); i >= 0 {
		m.vals[i] = v
		return
	}
	if m.index == nil && (!isString(key) || len(m.keys) >= scanKeysMax) {
		m.index = make(map[any]int, 2*len(m.keys)+1)
		for i, key := range m.keys {
			m.index[hashKey(key)] = i
		}
	}
	if m.index != nil {
		m.index[hash] = len(m.keys)
	}
	if m.keys == nil {
		m.grow(usualKeys)
	}
	m.keys = append(m.keys, key)
	m.vals = append(m.vals, v)
}

// setValue is Set for a key of any hashable type.
func (m *Map) setValue(key, v Value) { m.set(hashKey(key), key, v) }

// getValue is Get for a key of any hashable type.
func (m *Map) getValue(key Value) (Value, bool) {
	if name, ok := asStr(key); ok {
		return m.Get(name)
	}
	if i := m.find(hashKey(key)); i >= 0 {
		return m.vals[i], true
	}
	return nil, false
}

type (
	noneHash      struct{}
	undefinedHash struct{}
	bigHash       string
)

// hashKey maps a key to a comparable Go value such that keys equal in Python
// (1, 1.0 and True) meet.
func hashKey(key Value) any {
	switch k := key.(type) {
	case string, int:
		return k
	case *Text:
		return k.text
	case bool:
		n, _ := asInt(k)
		return n
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<53 {
			return int(k)
		}
		return k
	case *big.Int:
		return bigHash(k.String())
	case nil:
		return noneHash{}
	case *undefined:
		return undefinedHash{}
	case *List, *Map:
		failType("unhashable type: '%s'; keys are strings, numbers, booleans and None", typeName(key))
	}
	return key
}
