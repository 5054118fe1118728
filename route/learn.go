package route

import (
	"strconv"
	"time"

	"parley/internal/exactmath"
	"parley/internal/stat"
)

// What is known of links and of workers was measured: a fetch takes a latency and a time for
// each byte, and computing a part of a prompt takes a time for each token and one for each
// earlier token that it looks back on. Both are fitted to what took place, and old
// measurements are forgotten.

const (
	// latencyGuess, linkGuess, sharedGuess and rateGuess stand for what was not measured: what a fetch
	// takes besides its bytes, bytes in a second over a network and through shared memory, and tokens in a second.
	latencyGuess = 3 * time.Millisecond
	linkGuess    = 1 << 30
	sharedGuess  = 3 << 30
	rateGuess    = 10_000
	// linkForgetting and paceForgetting are for [stat.Least]: a link or a worker whose speed
	// has changed is known anew after about ten measurements.
	linkForgetting = 0.1
	paceForgetting = 0.1
	// guessWeight is how much a guess counts beside a measurement.
	guessWeight = 0.01
	// linkDoubt is the age from which on a measurement of a link is doubted, and after twice that time by half: a
	// link that was too slow is tried again some time later, the sooner the less it lacked.
	linkDoubt = 5 * time.Minute
	// mega and lookbackUnit scale features. A measurement that can be explained by tokens as
	// well as by what they look back on is explained by tokens, whose feature is larger.
	mega         = 1e6
	lookbackUnit = 1 << 16
)

// A blockLink is what is known of the way between two workers.
type blockLink struct {
	from, to ID
	fit      stat.Least
	latency  float64   // seconds
	byteTime float64   // seconds
	guess    float64   // byteTime before anything was measured
	measured int       // transfers
	last     time.Time // of them
	rests    time.Time // not to be tried before
}

// learn takes in a transfer.
func (l *blockLink) learn(bytes float64, took time.Duration, now time.Time) {
	if l.measured == 0 { // one transfer does not say what of its time is latency
		guess := min(latencyGuess, max(took, time.Microsecond)/2).Seconds()
		l.fit.Forgetting = linkForgetting
		l.fit.Known[0][0], l.fit.Sums[0] = guessWeight/guess/guess, guessWeight/guess
	}
	scale := 1 / max(took.Seconds(), 1e-6)
	l.fit.Add([3]float64{scale, bytes / mega * scale})
	weight := l.fit.Solve()
	l.latency, l.byteTime = weight[0], weight[1]/mega
	l.measured, l.last = l.measured+1, now
}

// time returns how long bytes are expected to take.
func (l *blockLink) time(bytes float64) time.Duration {
	return seconds(l.latency + float64(bytes*l.byteTime))
}

// doubt returns which part of the time that was measured a transfer may take: less where that
// was long ago, or if transfers were slower than was assumed and there were only one or two. A link on which one
// transfer was slow by chance would not be measured again soon otherwise.
func (l *blockLink) doubt(now time.Time) float64 {
	if l.measured == 0 { // guesses are high
		return 1
	}
	few := 0.0
	if l.byteTime > l.guess {
		few = 1 / float64(1+l.measured)
	}
	age := max(0, now.Sub(l.last)-linkDoubt)
	return (1 - float64(few*few*few)) * exactmath.Exp2(-age.Seconds()/linkDoubt.Seconds())
}

// String returns what is known of the link.
func (l *blockLink) String() string {
	from := "assumed"
	if l.measured > 0 {
		from = "of " + strconv.Itoa(l.measured) + " measured"
	}
	speed := "latency alone"
	if l.byteTime > 0 {
		speed = strconv.FormatFloat(1/l.byteTime/mega, 'f', 1, 64) + " MB/s"
	}
	return rounded(seconds(l.latency)) + " and " + speed + ", " + from
}

// expected returns a link with what is expected of it: what was measured, else the mean of
// those to the same worker that share memory as well or do not either, else guesses.
func (r *Router) expected(from, to ID) blockLink {
	near := r.shares(from, to)
	out := blockLink{from: from, to: to, guess: 1.0 / linkGuess}
	if near {
		out.guess = 1.0 / sharedGuess
	}
	if l := r.linkOf(from, to); l != nil {
		if out.rests = l.rests; l.measured > 0 {
			known := *l
			known.guess = out.guess
			return known
		}
	}
	n := 0.0
	for i := range r.links {
		if o := &r.links[i]; o.to == to && o.measured > 0 && r.shares(o.from, to) == near {
			out.latency, out.byteTime, n = out.latency+o.latency, out.byteTime+o.byteTime, n+1
		}
	}
	if n == 0 {
		out.latency, out.byteTime = latencyGuess.Seconds(), out.guess
		return out
	}
	out.latency, out.byteTime = out.latency/n, out.byteTime/n
	return out
}

// shares reports whether two workers can share memory.
func (r *Router) shares(from, to ID) bool {
	a, b := r.workers[from], r.workers[to]
	return a != nil && b != nil && a.status.Exchange.Place != "" && a.status.Exchange.Place == b.status.Exchange.Place
}

// A promptPace is what is known of how fast a worker computes prompts.
type promptPace struct {
	fit      stat.Least
	weight   [3]float64 // seconds: at all, for a token, for lookbackUnit tokens of looking back
	measured int
}

// lookback returns how many earlier tokens those of a prompt look back on, added up.
func lookback(from, to int) float64 {
	f, t := float64(from), float64(to)
	return (float64(t*t) - float64(f*f) + t - f) / 2
}

// learn takes in that the tokens of a prompt from one to another were computed.
func (p *promptPace) learn(from, to int, took time.Duration) {
	p.fit.Forgetting = paceForgetting
	scale := 1 / max(took.Seconds(), 1e-6)
	x := [3]float64{scale, float64(to-from) * scale, lookback(from, to) / lookbackUnit * scale}
	p.fit.Add(x)
	for _, i := range []int{0, 2} { // prompts of about one length are explained by their tokens
		p.fit.Known[i][i] += float64(guessWeight * x[i] * x[i])
	}
	p.weight = p.fit.Solve()
	p.measured++
}

// time returns how long the tokens of a prompt from one to another are expected to take, as
// a part of those that are computed.
func (p *promptPace) time(from, to int) time.Duration {
	return seconds(float64(float64(to-from)*p.weight[1]) + float64(lookback(from, to)/lookbackUnit*p.weight[2]))
}

// paceOf returns how fast a worker computes prompts: as measured, else as another one with the
// same model and format.
func (r *Router) paceOf(w *worker) *promptPace {
	if w.pace.measured > 0 {
		return &w.pace
	}
	for _, o := range r.workers {
		if o != nil && o.pace.measured > 0 && o.Model == w.Model &&
			o.status.Exchange.Format == w.status.Exchange.Format {
			return &o.pace
		}
	}
	return &promptPace{weight: [3]float64{1: 1.0 / rateGuess}}
}

// paceLeast is how many tokens a prompt must have computed to tell how fast that is.
const paceLeast = 64

// Prefilled notes how long a worker took to compute a prompt, of which it had the cached tokens.
func (r *Router) Prefilled(id ID, cached, prompt int, took time.Duration) {
	if w := r.workers[id]; w != nil && prompt-cached >= paceLeast && took > 0 {
		w.pace.learn(cached, prompt, took)
	}
}

// PromptRate returns how many tokens of a prompt of rateTokens a worker computes in a second; 0 if
// that was not measured.
func (r *Router) PromptRate(id ID) float64 {
	if took := r.workers[id].pace.time(0, rateTokens); took > 0 {
		return rateTokens / took.Seconds()
	}
	return 0
}

const rateTokens = 1024

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
