package limit

import (
	"fmt"
	"math"
)

// A Reservation is what one answer holds of its accounts: the prompt, and an estimate of the answer's
// length that grows with it.
type Reservation struct {
	// Hold is reserved before anything is computed, with the estimate as its output.
	Hold
	// more are reserved while the answer grows beyond the estimate; granted is how many output
	// tokens are reserved in all, and step how many are added at a time.
	more          []Hold
	granted, step int64
}

// Begin is called when the output of the hold is known.
func (r *Reservation) Begin() { r.granted, r.step = r.Use.Output, r.Use.Output }

// Granted returns how many tokens the answer may have until more must be reserved.
func (r *Reservation) Granted() int64 {
	if len(r.Accounts) == 0 {
		return math.MaxInt64
	}
	return r.granted
}

// More returns what to reserve next, at a price.
func (r *Reservation) More(price Price) *Hold {
	return &Hold{
		ID:       fmt.Sprintf("%s+%d", r.ID, len(r.more)+1),
		Group:    r.Group,
		Accounts: r.Accounts,
		Use:      Use{Output: r.step, Cost: price.Most(0, r.step)},
	}
}

// Grow takes in that h, which [Reservation.More] returned, was reserved.
func (r *Reservation) Grow(h *Hold) {
	r.more = append(r.more, *h)
	r.granted += r.step
}

// Settle calls settle with each hold and what was used of it. What was added while the answer grew goes last,
// so that at no time less is booked than was used.
func (r *Reservation) Settle(used Use, settle func(h *Hold, used Use)) {
	if len(r.Accounts) == 0 {
		return
	}
	settle(&r.Hold, used)
	for i := range r.more {
		settle(&r.more[i], Use{})
	}
}
