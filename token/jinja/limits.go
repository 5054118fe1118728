package jinja

import "cmp"

// Limits bound what one render may take. A zero field means the default.
type Limits struct {
	// Steps bounds the work: evaluated operations, visited items and, at a
	// lower rate, copied bytes.
	Steps int
	// MemoryBytes bounds what a render allocates over its whole life,
	// including strings that are already garbage.
	MemoryBytes int
	// OutputBytes bounds the rendered text and any single string on the way.
	OutputBytes int
	// Depth bounds nested evaluation, and with it macro recursion.
	Depth int
}

// defaultLimits are generous for a conversation of a million tokens and end
// a runaway template within about a second.
var defaultLimits = Limits{
	Steps:       30_000_000,
	MemoryBytes: 1 << 30,
	OutputBytes: 64 << 20,
	Depth:       4000,
}

const (
	// rangeLenMax is the sandbox's own bound in jinja2; templates may rely
	// on the error.
	rangeLenMax = 100_000
	// sourceBytesMax is far above the largest known chat template (60 kB).
	sourceBytesMax = 1 << 20
	// parseDepthMax bounds the recursion of the parser, and with it how deep
	// the evaluation of one statement nests.
	parseDepthMax = 400
	// valueDepthMax bounds walks over nested values (print, compare, JSON).
	valueDepthMax = 900
	// bytesPerStep says how many copied bytes cost as much as one step.
	bytesPerStep = 64
	// valueBytes is the cost of one list or dict slot.
	valueBytes = 32
	// spanBytes is the cost of one span of a text's provenance.
	spanBytes = 16
)

func (l Limits) withDefaults() Limits {
	return Limits{
		Steps:       cmp.Or(max(l.Steps, 0), defaultLimits.Steps),
		MemoryBytes: cmp.Or(max(l.MemoryBytes, 0), defaultLimits.MemoryBytes),
		OutputBytes: cmp.Or(max(l.OutputBytes, 0), defaultLimits.OutputBytes),
		Depth:       cmp.Or(max(l.Depth, 0), defaultLimits.Depth),
	}
}

// A budget is what a render has used of its limits.
type budget struct {
	limits      Limits
	steps       int
	memoryBytes int
	depth       int
}

// work pays for n steps.
func (b *budget) work(n int) {
	b.steps += n
	if b.steps > b.limits.Steps || b.steps < 0 {
		failLimit("the render takes more than %d steps; raise Limits.Steps if the template is trusted", b.limits.Steps)
	}
}

// scan pays for reading n bytes.
func (b *budget) scan(n int) { b.work(n / bytesPerStep) }

// alloc pays for n bytes before they are taken.
func (b *budget) alloc(n int) {
	if n > b.limits.MemoryBytes-b.memoryBytes {
		failLimit("the render takes more than %d bytes of memory; raise Limits.MemoryBytes if the template is trusted",
			b.limits.MemoryBytes)
	}
	b.memoryBytes += n
	b.scan(n)
}

// allocString pays for a string of n bytes.
func (b *budget) allocString(n int) {
	if n > b.limits.OutputBytes {
		failLimit("a string of %d bytes is longer than the %d allowed; raise Limits.OutputBytes if the template is "+
			"trusted", n, b.limits.OutputBytes)
	}
	b.alloc(n)
}

// allocItems pays for a list of n values.
func (b *budget) allocItems(n int) {
	if n > b.limits.MemoryBytes/valueBytes {
		failLimit("a list of %d items is longer than the memory limit of %d bytes allows", n, b.limits.MemoryBytes)
	}
	b.alloc(n * valueBytes)
}

// timesString pays for a string made of count pieces of n bytes each.
func (b *budget) timesString(n, count int) {
	if n > 0 && count > b.limits.OutputBytes/n {
		failLimit("a string of %d times %d bytes is longer than the %d allowed", count, n, b.limits.OutputBytes)
	}
	b.allocString(n * max(count, 0))
}

// enter counts levels of nested evaluation until leave is called.
func (b *budget) enter(levels int) {
	if b.depth += levels; b.depth > b.limits.Depth {
		failLimit("evaluation nests more than %d levels; does a macro call itself forever?", b.limits.Depth)
	}
}

func (b *budget) leave(levels int) { b.depth -= levels }
