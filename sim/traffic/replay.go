package traffic

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// A Replay turns the rows of a trace into requests. The zero value of every
// field leaves the trace as it is.
type Replay struct {
	// Scale multiplies prompts and answers; 0 means 1. A prompt is scaled block
	// by block, so that rows which share blocks still share all of them.
	Scale float64
	// Speed divides the times; 0 means 1, and 10 replays an hour in six minutes.
	Speed float64
	// Spread moves rows with one timestamp apart, evenly over this time or until
	// the next timestamp, if that comes first. Mooncake traces are stamped in
	// batches of 3 seconds, which no real arrivals are; 0 keeps the batches.
	Spread time.Duration
}

// Validate reports everything that is wrong with the numbers.
func (r Replay) Validate() error {
	var problems []error
	if !(r.scale() > 0 && r.scale() <= 16) {
		problems = append(problems, fmt.Errorf("a scale of %g: expected more than 0 and at most 16", r.Scale))
	}
	if !(r.speed() >= 1e-3 && r.speed() <= 1e6) {
		problems = append(problems, fmt.Errorf("a speed of %g: expected 0.001 to 1000000", r.Speed))
	}
	if r.Spread < 0 || r.Spread > gapMeanMax {
		problems = append(problems, fmt.Errorf("a spread of %v: expected 0 to %v", r.Spread, gapMeanMax))
	}
	return errors.Join(problems...)
}

func (r Replay) scale() float64 { return orOne(r.Scale) }
func (r Replay) speed() float64 { return orOne(r.Speed) }

func orOne(x float64) float64 {
	if x == 0 {
		return 1
	}
	return x
}

// BlockTokens is the length of a Mooncake block after scaling.
func (r Replay) BlockTokens() int { return r.scaled(MooncakeBlockTokens) }

func (r Replay) scaled(tokens int) int {
	return max(1, int(math.Round(float64(tokens)*r.scale())))
}

// Requests returns one request for each row, in order of time. The replay must
// be valid, and the rows as [ReadTrace] returns them.
func (r Replay) Requests(rows []Row) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for begin := 0; begin < len(rows); {
			end := begin + 1
			for end < len(rows) && rows[end].At == rows[begin].At {
				end++
			}
			spread := r.Spread
			if end < len(rows) {
				spread = min(spread, rows[end].At-rows[begin].At)
			}
			for i := begin; i < end; i++ {
				at := rows[i].At + spread*time.Duration(i-begin)/time.Duration(end-begin)
				if !yield(r.request(i, &rows[i], at)) {
					return
				}
			}
			begin = end
		}
	}
}

func (r Replay) request(i int, row *Row, at time.Duration) Request {
	return Request{
		At:           time.Duration(float64(at) / r.speed()),
		Prompt:       r.prompt(i, row),
		OutputTokens: r.scaled(row.OutputTokens),
	}
}

// prompt makes a part of each named block, and of what no name covers a part
// that is this row's own.
func (r Replay) prompt(i int, row *Row) (parts []Part) {
	left := row.InputTokens
	for _, id := range row.Blocks {
		if left == 0 {
			return parts
		}
		tokens := min(left, MooncakeBlockTokens)
		left -= tokens
		parts = append(parts, Part{Role: User, Key: key(keyGroup, id), Tokens: r.scaled(tokens)})
	}
	if left > 0 {
		parts = append(parts, Part{Role: User, Key: key(keyFresh, uint64(i)), Tokens: r.scaled(left)})
	}
	return parts
}
