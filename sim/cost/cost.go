package cost

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// A Pass is what makes a forward pass take time.
type Pass struct {
	// Rows are the tokens computed, Sequences those that they belong to.
	Rows      int `json:"rows"`
	Sequences int `json:"sequences"`
	// Read counts the earlier positions of all sequences, each once: their keys and
	// values are read from memory. Lookback counts them once for each row, and the
	// rows before a row of the same sequence: that is the arithmetic of attention.
	Read     int `json:"read"`
	Lookback int `json:"lookback"`
}

// Add returns the pass with rows more of one sequence that has computed tokens.
func (p Pass) Add(rows, computed int) Pass {
	return Pass{
		Rows:      p.Rows + rows,
		Sequences: p.Sequences + 1,
		Read:      p.Read + computed,
		Lookback:  p.Lookback + rows*computed + rows*(rows+1)/2,
	}
}

// A Knot says that a pass of Rows rows takes Seconds, besides what else is in it.
type Knot struct {
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
}

// A Model says how long passes take. All times are in seconds.
type Model struct {
	// From says where the numbers come from.
	From string `json:"from"`
	// Rows are in order, at least one. Before the first and after the last knot the
	// line of the first and the last two is continued; one knot alone is a line
	// through 0.
	Rows []Knot `json:"rows"`
	// Overhead is for each pass, Sequence for each sequence in it.
	Overhead float64 `json:"overhead,omitempty"`
	Sequence float64 `json:"sequence,omitempty"`
	Lookback float64 `json:"lookback,omitempty"`
	// Request is for each request, besides waiting and passes: HTTP, the gateway and the client.
	Request float64 `json:"request,omitempty"`
	// Weights is how long it takes to read all weights, Read one position of keys
	// and values.
	Weights float64 `json:"weights,omitempty"`
	Read    float64 `json:"read,omitempty"`
	// Overlap says that arithmetic and reading happen at the same time.
	Overlap bool `json:"overlap,omitempty"`
	// Error is how far a fitted model is off.
	Error *FitError `json:"error,omitempty"`
	// Runs are how passes differed from the times of the model when they were measured. Without any, equal passes take
	// equal times.
	Runs []Run `json:"runs,omitempty"`
	// RunRows are how many rows the first pass of each run had, in order; nothing if that is not known.
	RunRows []int `json:"run_rows,omitempty"`
}

const secondsMax = 3600

// Validate reports everything that is wrong with the model.
func (m *Model) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(m.Rows) == 0 {
		wrong("the model of a pass has no rows: write at least one, such as {rows: 1, seconds: 0.01}")
	}
	for i, k := range m.Rows {
		if !(k.Seconds >= 0 && k.Seconds <= secondsMax) || k.Rows < 1 {
			wrong("a pass of %d rows takes %g s: want at least 1 row, and 0 to %d s", k.Rows, k.Seconds, secondsMax)
		}
		if i > 0 && (k.Rows <= m.Rows[i-1].Rows || k.Seconds < m.Rows[i-1].Seconds) {
			wrong("%d rows take %g s after %d rows that take %g s: neither may become less", k.Rows, k.Seconds,
				m.Rows[i-1].Rows, m.Rows[i-1].Seconds)
		}
	}
	for _, row := range []struct {
		name  string
		value float64
	}{
		{"overhead", m.Overhead}, {"sequence", m.Sequence}, {"lookback", m.Lookback}, {"weights", m.Weights},
		{"read", m.Read}, {"request", m.Request},
	} {
		if !(row.value >= 0 && row.value <= secondsMax) {
			wrong("%s is %g s: want 0 to %d", row.name, row.value, secondsMax)
		}
	}
	if n := len(m.RunRows); n > 0 && (n != len(m.Runs) || !sort.IntsAreSorted(m.RunRows)) {
		wrong("%d rows of runs and %d runs: want as many, in order", n, len(m.Runs))
	}
	for _, run := range m.Runs {
		if err := run.validate(); err != nil {
			problems = append(problems, err)
			break
		}
	}
	return errors.Join(problems...)
}

// rows returns how long the arithmetic of n rows takes, without attention.
func (m *Model) rows(n int) float64 {
	if n == 0 {
		return 0
	}
	last := len(m.Rows) - 1
	if last == 0 {
		return float64(n) * (m.Rows[0].Seconds / float64(m.Rows[0].Rows))
	}
	i := 1
	for i < last && n > m.Rows[i].Rows {
		i++
	}
	a, b := m.Rows[i-1], m.Rows[i]
	slope := (b.Seconds - a.Seconds) / float64(b.Rows-a.Rows)
	return max(0, a.Seconds+float64(slope*float64(n-a.Rows)))
}

// A Limit is what a pass waits for.
type Limit uint8

// The limits of a pass.
const (
	// Arithmetic: the operations on rows.
	Arithmetic Limit = iota
	// Memory: reading weights, keys and values.
	Memory
)

// Arithmetic returns for how much of a pass operations on rows are done.
func (m *Model) Arithmetic(p Pass) time.Duration {
	return time.Duration(math.Round(m.arithmetic(p) * 1e9))
}

func (m *Model) arithmetic(p Pass) float64 {
	return m.rows(p.Rows) + float64(m.Lookback*float64(p.Lookback))
}

// Outside returns how long a request takes besides waiting and passes.
func (m *Model) Outside() time.Duration { return time.Duration(math.Round(m.Request * 1e9)) }

// Time returns how long a pass takes, and which of the two takes longer.
func (m *Model) Time(p Pass) (time.Duration, Limit) {
	arithmetic := m.arithmetic(p)
	memory := m.Weights + float64(m.Read*float64(p.Read))
	limit, seconds := Arithmetic, arithmetic+memory
	if m.Overlap {
		seconds = max(arithmetic, memory)
	}
	if memory > arithmetic {
		limit = Memory
	}
	seconds += m.Overhead + float64(m.Sequence*float64(p.Sequences))
	return max(1, time.Duration(math.Round(seconds*1e9))), limit
}

// A Device is what a replica does in a second, all its GPUs together.
type Device struct {
	// PrefillRate is how many tokens it computes, ReadRate how many bytes it reads.
	PrefillRate, ReadRate float64
	// WeightBytes are read for every pass, KVBytes for every position looked back on.
	WeightBytes, KVBytes float64
	// Overhead is what a pass takes besides.
	Overhead time.Duration
}

// Roofline returns the model of a device whose arithmetic and memory work at the same
// time. The arithmetic of attention is left out: it is a few per cent of that of the
// weights for contexts below some ten thousand tokens.
func Roofline(d Device) (*Model, error) {
	for _, row := range []struct {
		name  string
		value float64
	}{
		{"prefill rate", d.PrefillRate}, {"read rate", d.ReadRate}, {"size of the weights", d.WeightBytes},
		{"size of keys and values", d.KVBytes},
	} {
		if !(row.value > 0) || math.IsInf(row.value, 0) {
			return nil, fmt.Errorf("the %s is %g: it must be more than 0", row.name, row.value)
		}
	}
	m := &Model{
		From:     "roofline",
		Rows:     []Knot{{Rows: 1, Seconds: 1 / d.PrefillRate}},
		Weights:  d.WeightBytes / d.ReadRate,
		Read:     d.KVBytes / d.ReadRate,
		Overhead: d.Overhead.Seconds(),
		Overlap:  true,
	}
	return m, m.Validate()
}

// A Bandwidth is how many bytes a network carries in a second between any two machines.
type Bandwidth float64

// Time returns how long bytes take.
func (b Bandwidth) Time(bytes float64) time.Duration {
	return time.Duration(math.Round(bytes / float64(b) * 1e9))
}
