package weights

import (
	"math"
	"sort"
)

// A StoredType sums up the tensors that a conversion stored as one type, and how
// far what was stored is from what was read.
type StoredType struct {
	Type       DType `json:"type"`
	Tensors    int   `json:"tensors"`
	Parameters int64 `json:"parameters"`
	Bytes      int64 `json:"bytes"`
	// RMSError is the root of the mean squared difference, RelativeError is
	// that over the root of the mean squared weight. The source's own distance
	// from what it was made of is not known, and not in it.
	RMSError      float64 `json:"rms_error"`
	RelativeError float64 `json:"relative_error"`
}

// A loss is what storing some weights lost, as sums of squares.
type loss struct{ wrong, all float64 }

func lossOf(values, stored []float32) (l loss) {
	for i, v := range values {
		diff := float64(v) - float64(stored[i])
		l.wrong += diff * diff
		l.all += float64(v) * float64(v)
	}
	return l
}

// isFinite is false if a weight was not a finite number, before or after it was stored.
func (l loss) isFinite() bool { return !math.IsInf(l.wrong+l.all, 0) && !math.IsNaN(l.wrong+l.all) }

// A tally adds up what became of the tensors of one type.
type tally struct {
	StoredType
	loss
}

// with counts a tensor; t may be nil.
func (t *tally) with(p plannedTensor) *tally {
	if t == nil {
		t = &tally{StoredType: StoredType{Type: p.dtype}}
	}
	t.Tensors++
	elements := Tensor{Shape: p.shape}.Elements()
	t.Parameters += elements
	t.Bytes += elements / int64(p.dtype.BlockLen()) * int64(p.dtype.BlockBytes())
	return t
}

// add takes the rows' losses in order, so that the sum does not depend on how
// many processors converted them.
func (t *tally) add(rows []loss) {
	for _, l := range rows {
		t.wrong += l.wrong
		t.all += l.all
	}
}

// storedOf returns the sums, the type with the most bytes first.
func storedOf(tallies map[DType]*tally) []StoredType {
	var list []StoredType
	for _, t := range tallies {
		t.RMSError = math.Sqrt(t.wrong / float64(t.Parameters))
		if t.all > 0 {
			t.RelativeError = math.Sqrt(t.wrong / t.all)
		}
		list = append(list, t.StoredType)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Bytes > list[j].Bytes })
	return list
}
