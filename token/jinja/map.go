package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
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

// Len returns the number of keys.
func (m *Map) Len() int { return len(m.keys) }

// Set puts v under key, at the end if key is new.
func (m *Map) Set(key string, v Value) { m.set(key, key, v) }

// Get returns the value under key and whether there is one.
func (m *Map) Get(key string) (Value, bool) {
	if i := m.find(key); i >= 0 {
		return m.vals[i], true
	}
	return nil, false
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
		return -1
	}
	name, ok := hash.(string)
	if !ok {
		return -1
	}
	return m.scan(name)
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
	if m.index == nil {
		if !isString(key) || len(m.keys) >= scanKeysMax {
			m.buildIndex()
		}
	}
	if m.index != nil {
		m.index[hash] = len(m.keys)
	}
	m.keys = append(m.keys, key)
	m.vals = append(m.vals, v)
}

func (m *Map) buildIndex() {
	m.index = make(map[any]int, 2*len(m.keys)+1)
	for i, key := range m.keys {
		hash, _ := hashKey(key) // every key in the map could be hashed
		m.index[hash] = i
	}
}

// setValue is Set for a key of any hashable type.
func (m *Map) setValue(key, v Value) error {
	hash, err := hashKey(key)
	if err != nil {
		return err
	}
	m.set(hash, key, v)
	return nil
}

// getValue is Get for a key of any hashable type.
func (m *Map) getValue(key Value) (Value, bool, error) {
	hash, err := hashKey(key)
	if err != nil {
		return nil, false, err
	}
	if i := m.find(hash); i >= 0 {
		return m.vals[i], true, nil
	}
	return nil, false, nil
}

func (m *Map) copy() *Map {
	out := &Map{}
	for i, key := range m.keys {
		hash, err := hashKey(key)
		if err == nil {
			out.set(hash, key, m.vals[i])
		}
	}
	return out
}

type (
	noneHash      struct{}
	undefinedHash struct{}
	bigHash       string
	tupleHash     string
)

// hashBytesMax bounds the written form of a tuple used as a key.
const hashBytesMax = 1 << 20

// hashKey maps a key to a comparable Go value such that keys equal in Python
// (1, 1.0 and True) meet.
func hashKey(key Value) (any, error) {
	switch k := key.(type) {
	case string, int:
		return k, nil
	case *Text:
		return k.text, nil
	case bool:
		n, _ := asInt(k)
		return n, nil
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<53 {
			return int(k), nil
		}
		return k, nil
	case *big.Int:
		return bigHash(k.String()), nil
	case nil:
		return noneHash{}, nil
	case *Undefined:
		return undefinedHash{}, nil
	case *Tuple:
		var sb strings.Builder
		if err := writeTupleHash(&sb, k, 0); err != nil {
			return nil, err
		}
		return tupleHash(sb.String()), nil
	case *List, *Map:
		return nil, typeErrorf("unhashable type: '%s'", typeName(key))
	}
	return key, nil
}

func writeTupleHash(sb *strings.Builder, t *Tuple, depth int) error {
	if depth > valueDepthMax || sb.Len() > hashBytesMax {
		return limitErrorf("a tuple used as a key is nested more than %d deep or longer than %d bytes", valueDepthMax,
			hashBytesMax)
	}
	for _, item := range t.Items {
		hash, err := any(nil), error(nil)
		if inner, ok := item.(*Tuple); ok {
			sb.WriteByte('(')
			if err := writeTupleHash(sb, inner, depth+1); err != nil {
				return err
			}
			sb.WriteByte(')')
			continue
		}
		if hash, err = hashKey(item); err != nil {
			return err
		}
		writeHash(sb, hash)
	}
	return nil
}

func writeHash(sb *strings.Builder, hash any) {
	switch h := hash.(type) {
	case string:
		sb.WriteString(strconv.Quote(h))
	case int:
		sb.WriteString(strconv.Itoa(h))
	case float64:
		sb.WriteString(formatFloat(h))
	case bigHash:
		sb.WriteString(string(h))
	default:
		sb.WriteString(typeName(h))
	}
	sb.WriteByte(',')
}
