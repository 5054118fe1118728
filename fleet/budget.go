package fleet

import "time"

// A budget bounds what may be computed again because of failures. Useful work
// fills it, in proportion; so all that failures add is at most that share, and a
// burst. Spending is never rejected, only delayed: a
// caller that spends what is not there yet waits until it would be.
type budget struct {
	share, burst float64 // of tokens
	left         float64 // below 0 is owed
	at           time.Time
	rate         float64 // useful tokens in a second, lately
	sum          float64 // since at
}

const (
	// replayFloor is how many tokens a second may be replayed however little
	// useful work is done, so that no stream waits for ever.
	replayFloor = 256
	rateWindow  = time.Second
	delayMost   = 10 * time.Second
)

func newBudget(share float64, burst int) budget {
	return budget{share: share, burst: float64(burst), left: float64(burst)}
}

// earn notes useful tokens.
func (b *budget) earn(tokens int, now time.Time) {
	b.left = min(b.left+b.share*float64(tokens), b.burst)
	b.sum += float64(tokens)
	b.roll(now)
}

func (b *budget) roll(now time.Time) {
	window := now.Sub(b.at)
	if b.at.IsZero() || window < rateWindow {
		if b.at.IsZero() {
			b.at = now
		}
		return
	}
	b.left = min(b.left+replayFloor*min(window.Seconds(), 60), b.burst)
	b.rate, b.sum, b.at = b.sum/window.Seconds(), 0, now
}

// spend takes tokens and returns how long to wait before they are computed.
func (b *budget) spend(tokens int, now time.Time) time.Duration {
	b.roll(now)
	b.left -= float64(tokens)
	if b.left >= 0 {
		return 0
	}
	wait := -b.left / (b.share*b.rate + replayFloor)
	return min(time.Duration(wait*float64(time.Second)), delayMost)
}
