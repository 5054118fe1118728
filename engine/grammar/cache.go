package grammar

// A cache remembers what was used last, in two generations: when the young one
// is full it becomes the old one, and what was old and not used is forgotten.
type cache[V any] struct {
	young, old map[string]V
	most       int
}

func newCache[V any](most int) cache[V] {
	return cache[V]{young: map[string]V{}, old: map[string]V{}, most: max(1, most/2)}
}

func (c *cache[V]) get(key []byte) (v V, ok bool) {
	if v, ok = c.young[string(key)]; ok {
		return v, true
	}
	if v, ok = c.old[string(key)]; ok {
		c.put(key, v)
	}
	return v, ok
}

func (c *cache[V]) put(key []byte, v V) {
	if len(c.young) >= c.most {
		c.young, c.old = map[string]V{}, c.young
	}
	c.young[string(key)] = v
}
