package jinja

// Limits bound what one render may take. A zero field means the default.
type Limits struct {
	// Steps bounds the work: evaluated nodes, visited items and, at a lower
	// rate, copied bytes.
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
	// parseDepthMax bounds the recursion of the parser.
	parseDepthMax = 180
	// valueDepthMax bounds walks over nested values (print, compare, JSON).
	valueDepthMax = 900
	// intBitsMax bounds integers; Python refuses to print longer ones.
	intBitsMax = 14_000
	// bytesPerStep says how many copied bytes cost as much as one step.
	bytesPerStep = 64
	// valueBytes is the cost of one list or dict slot.
	valueBytes = 32
	// spanBytes is the cost of one span of a text's provenance.
	spanBytes = 16
)

func (l Limits) withDefaults() Limits {
	if l.Steps <= 0 {
		l.Steps = defaultLimits.Steps
	}
	if l.MemoryBytes <= 0 {
		l.MemoryBytes = defaultLimits.MemoryBytes
	}
	if l.OutputBytes <= 0 {
		l.OutputBytes = defaultLimits.OutputBytes
	}
	if l.Depth <= 0 {
		l.Depth = defaultLimits.Depth
	}
	return l
}

// work pays for n steps.
func (in *interp) work(n int) error {
	in.steps += n
	if in.steps > in.limits.Steps || in.steps < 0 {
		return limitErrorf("the render takes more than %d steps; raise Limits.Steps if the template is trusted",
			in.limits.Steps)
	}
	return nil
}

// alloc pays for n bytes before they are taken.
func (in *interp) alloc(n int) error {
	if n > in.limits.MemoryBytes-in.memoryBytes {
		return limitErrorf(
			"the render takes more than %d bytes of memory; raise Limits.MemoryBytes if the template is trusted",
			in.limits.MemoryBytes)
	}
	in.memoryBytes += n
	return in.work(n / bytesPerStep)
}

// allocString pays for a string of n bytes.
func (in *interp) allocString(n int) error {
	if n > in.limits.OutputBytes {
		return limitErrorf(
			"a string of %d bytes is longer than the %d allowed; raise Limits.OutputBytes if the template is trusted",
			n, in.limits.OutputBytes)
	}
	return in.alloc(n)
}

// allocItems pays for a list of n values.
func (in *interp) allocItems(n int) error {
	if n > in.limits.MemoryBytes/valueBytes {
		return limitErrorf("a list of %d items is longer than the memory limit of %d bytes allows", n,
			in.limits.MemoryBytes)
	}
	return in.alloc(n * valueBytes)
}

// timesString pays for a string made of count pieces of n bytes each.
func (in *interp) timesString(n, count int) error {
	if n > 0 && count > in.limits.OutputBytes/n {
		return limitErrorf("a string of %d times %d bytes is longer than the %d allowed", count, n,
			in.limits.OutputBytes)
	}
	return in.allocString(n * max(count, 0))
}
