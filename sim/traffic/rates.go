package traffic

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rateColumns are those of a file of rates that say what is needed.
var rateColumns = []string{"t_seconds", "rate_rps"}

// A rateReader knows where the columns are.
type rateReader struct {
	at     [2]int
	fields int
}

// ReadRates reads rates that were measured, such as those of ServeGen: CSV with the columns
// t_seconds and rate_rps among others, found by their names; each row is later than the one before.
// Times count from the first row. An error names the line.
func ReadRates(lines iter.Seq2[[]byte, error]) (Rate, error) {
	points, err := readRows(lines, new(rateReader).parse, 0)
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, errors.New("the file has no rates")
	}
	start := points[0].At
	for i := range points {
		points[i].At -= start
	}
	return points, Rate(points).Validate()
}

func (r *rateReader) parse(line []byte) (p RatePoint, ok bool, err error) {
	fields := strings.Split(string(line), ",")
	if r.fields == 0 {
		r.fields = len(fields)
		for i, name := range rateColumns {
			if r.at[i] = slices.Index(fields, name); r.at[i] < 0 {
				return p, false, fmt.Errorf("no column %q: expected a header with %q", name, rateColumns)
			}
		}
		return p, false, nil
	}
	if len(fields) != r.fields {
		return p, false, fmt.Errorf("%d fields: expected %d as in the header", len(fields), r.fields)
	}
	at, err := strconv.ParseFloat(fields[r.at[0]], 64)
	if err != nil || !(at >= 0 && at*1000 <= millisMax) {
		return p, false, fmt.Errorf("time %q: expected seconds from 0 to %g", fields[r.at[0]], millisMax/1000)
	}
	if p.PerSecond, err = strconv.ParseFloat(fields[r.at[1]], 64); err != nil || !(p.PerSecond >= 0) {
		return p, false, fmt.Errorf("rate %q: expected requests per second, 0 or more", fields[r.at[1]])
	}
	p.At = time.Duration(math.Round(at * 1e9))
	return p, true, nil
}

// Part returns the rates from a time on, scaled, in which time passes speed times as fast.
func (r Rate) Part(from time.Duration, scale, speed float64) (out Rate) {
	add := func(at time.Duration, rate float64) {
		at = time.Duration(math.Round(float64(at-from) / speed))
		if n := len(out); n == 0 || at > out[n-1].At { // else two points have become one
			out = append(out, RatePoint{at, rate * scale})
		}
	}
	add(from, r.At(from))
	for _, p := range r {
		if p.At > from {
			add(p.At, p.PerSecond)
		}
	}
	return out
}
