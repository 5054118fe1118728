package sim

import "time"

// An event is something that happens at a time.
type event struct {
	at    time.Duration
	order uint64
	do    func()
}

// A clock is the virtual time and what is to happen: a heap by time, and at one time by
// the order in which events were made.
type clock struct {
	now    time.Duration
	wall   time.Time // what now is for code that takes a time
	made   uint64
	events []event
}

// epoch is when a simulation begins, for code that takes a time.
var epoch = time.Unix(1_000_000_000, 0).UTC()

func newClock() *clock { return &clock{wall: epoch} }

func (c *clock) time() time.Time { return c.wall }

func (c *clock) before(i, j int) bool {
	a, b := &c.events[i], &c.events[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// after lets something happen in a while.
func (c *clock) after(wait time.Duration, do func()) {
	c.made++
	c.events = append(c.events, event{c.now + max(0, wait), c.made, do})
	for i := len(c.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !c.before(i, parent) {
			break
		}
		c.events[i], c.events[parent] = c.events[parent], c.events[i]
		i = parent
	}
}

// next moves the time to the next event and returns it. There must be one.
func (c *clock) next() func() {
	first := c.events[0]
	last := len(c.events) - 1
	c.events[0] = c.events[last]
	c.events[last] = event{}
	c.events = c.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if c.before(child, least) {
				least = child
			}
		}
		if least == i {
			break
		}
		c.events[i], c.events[least] = c.events[least], c.events[i]
		i = least
	}
	c.now, c.wall = first.at, epoch.Add(first.at)
	return first.do
}
