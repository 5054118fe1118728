package queue

// A heap keeps items so that the least is found at once. Every item knows its
// own index, so that any of them can be moved or taken out.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	index func(T) *int
}

// absent is the index of what is in no heap.
const absent = -1

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) top() (least T) {
	if len(h.items) > 0 {
		least = h.items[0]
	}
	return least
}

func (h *heap[T]) push(x T) {
	*h.index(x) = len(h.items)
	h.items = append(h.items, x)
	h.up(len(h.items) - 1)
}

func (h *heap[T]) remove(x T) {
	at, last := *h.index(x), len(h.items)-1
	h.swap(at, last)
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	*h.index(x) = absent
	if at < last {
		h.move(at)
	}
}

// fix puts x where it belongs after it has changed.
func (h *heap[T]) fix(x T) { h.move(*h.index(x)) }

func (h *heap[T]) move(at int) {
	if !h.down(at) {
		h.up(at)
	}
}

func (h *heap[T]) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !h.less(h.items[at], h.items[parent]) {
			return
		}
		h.swap(at, parent)
		at = parent
	}
}

func (h *heap[T]) down(at int) (moved bool) {
	for {
		child := 2*at + 1
		if child >= len(h.items) {
			return moved
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], h.items[at]) {
			return moved
		}
		h.swap(at, child)
		at, moved = child, true
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.index(h.items[i]), *h.index(h.items[j]) = i, j
}
