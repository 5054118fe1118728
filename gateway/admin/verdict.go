package admin

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"parley"
)

// Thresholds above which a number counts.
const (
	kvFull      = 0.9  // of a pool
	busyAll     = 0.85 // of the time
	cancelMany  = 0.3  // of the requests
	retryMany   = 0.2
	refusedMany = 0.5
	rateLeast   = 0.1 // requests per second; a share of fewer means nothing
)

// A State is all that the headline is computed from. It is of one window throughout, the
// last minute, so that a sentence cannot join a load of this second with latencies of
// another.
type State struct {
	// Picture has the averages of rates and the peaks of loads in the window, and the
	// states that workers and breakers have now.
	*Picture
	// Broken lists the objectives that were missed.
	Broken []string
	// Limited lists whose requests limits have refused, the most first.
	Limited []LimitedBy
	// Missed lists the objectives that were missed over an hour, as the panels show them.
	Missed []string
	// Past is what happened some minutes ago; nil if nothing did.
	Past *Episode
}

// Judge finds the bottleneck. It looks in the order of cause and effect:
// failures, then memory, whose lack makes requests wait, then compute, then
// queue limits that are too tight for either; clients last. Without one, it says what
// was wrong before, for as long as the panels show it.
func Judge(s *State) Diagnosis {
	v := Diagnosis{Bottleneck: NoBottleneck, Happy: true}
	for _, look := range []func(*State) *Diagnosis{byFailures, byKV, byCompute, byQueue, byClients, byPast} {
		if found := look(s); found != nil {
			v = *found
			break
		}
	}
	v.Happy = len(s.Broken) == 0 && s.Rates.Failed+s.Rates.TurnedAway == 0 && v.Bottleneck != ByFailures && !v.Past
	if v.Sentence == "" {
		v.Sentence = withoutBottleneck(s)
	}
	return v
}

// missedObjectives describes the objectives that were not met between two readings.
func missedObjectives(from, to *Reading, objectives parley.Objectives) (broken []string) {
	for i := range objectives {
		o := &objectives[i]
		before, after := from.tokensOf(o.Name), to.tokensOf(o.Name)
		whose := ""
		if o.Name != parley.DefaultObjective {
			whose = " of " + o.Name
		}
		if took, text := quantileOf(&before.TTFT, &after.TTFT, o.TTFTShare); o.TTFT > 0 && took > o.TTFT.Seconds() {
			broken = append(broken, fmt.Sprintf("the time to first token%s was %s at %s (SLO: %s)",
				whose, text, percentile(o.TTFTShare), seconds(o.TTFT.Seconds())))
		}
		if took, text := quantileOf(&before.Gap, &after.Gap, o.TPOTShare); o.TPOT > 0 && took > o.TPOT.Seconds() {
			broken = append(broken, fmt.Sprintf("the time between tokens%s was %s at %s (SLO: %s)",
				whose, text, percentile(o.TPOTShare), seconds(o.TPOT.Seconds())))
		}
	}
	return broken
}

// quantileOf returns a quantile of the times between two readings, and its text.
func quantileOf(from, to *Histogram, share float64) (took float64, text string) {
	h := to.since(from)
	took = h.Quantile(share)
	if h.Beyond(share) {
		return took, "over " + seconds(took)
	}
	return took, seconds(took)
}

// percent formats a share, such as 99.9%.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e4)/100, 'f', -1, 64) + "%"
}

// percentile names the percentile of a share, such as p99.
func percentile(share float64) string { return "p" + strings.TrimSuffix(percent(share), "%") }

func byFailures(p *State) *Diagnosis {
	const checkWorker = "Check the log of that worker; it gets requests again as soon as it answers."
	var down, open, absent []string
	for i := range p.Workers {
		if w := &p.Workers[i]; w.State == Absent {
			absent = append(absent, w.Name+" cannot join: "+w.Trouble+".")
		}
		if w := &p.Workers[i]; w.State == "down" || w.State == "failing" {
			down = append(down, w.Name)
		}
	}
	for i := range p.Queues {
		if q := &p.Queues[i]; q.ModelBreaker == "open" || q.WorkerBreaker == "open" {
			open = append(open, q.name())
		}
	}
	switch {
	case len(open) > 0:
		return &Diagnosis{
			Bottleneck: ByFailures,
			Sentence:   fmt.Sprintf("The circuit breaker of %s is open: too many requests failed.", list(open)),
			Do:         "Find the first failure in the log; the breaker sends test requests until one succeeds.",
		}
	case p.fleet && len(p.Workers) == 0:
		return &Diagnosis{
			Bottleneck: ByFailures,
			Sentence:   "No worker has joined, so no request can be served.",
			Do:         "Start a worker; the log says why known workers cannot join.",
		}
	case len(absent) > 0 && len(absent) == len(p.Workers):
		return &Diagnosis{
			Bottleneck: ByFailures,
			Sentence:   "No worker has joined, so no request can be served.",
			Do:         absent[0],
		}
	case len(down) > 0 && len(down) == len(p.Workers):
		return &Diagnosis{
			Bottleneck: ByFailures,
			Sentence: fmt.Sprintf("%s %s not answer, and there is no other worker: no request can be served.",
				list(down), does(len(down))),
			Do: checkWorker,
		}
	case len(down) > 0:
		return &Diagnosis{
			Bottleneck: ByFailures,
			Sentence:   fmt.Sprintf("%s %s not answer; the other workers carry the load.", list(down), does(len(down))),
			Do:         checkWorker,
		}
	case len(absent) > 0:
		return &Diagnosis{
			Bottleneck: ByFailures,
			Sentence:   fmt.Sprintf("%d of %d workers cannot join.", len(absent), len(p.Workers)),
			Do:         absent[0],
		}
	case p.Rates.Failed > 0 && p.Rates.Failed >= (1-AvailabilityGoal)*p.Rates.Requests:
		return &Diagnosis{
			Bottleneck: ByFailures,
			Sentence:   fmt.Sprintf("%s of the last minute failed with server errors.", p.of(p.Rates.Failed)),
			Do:         "Look for level ERROR in the log; each line has the request id.",
		}
	}
	return nil
}

func byKV(p *State) *Diagnosis {
	full := fullest(p.Picture)
	if full == nil || full.KV < kvFull || p.Rates.Preemptions == 0 && p.waiting() == 0 && full.Waiting == 0 {
		return nil
	}
	because := fmt.Sprintf("%d requests waited for memory", p.waiting()+full.Waiting)
	if p.Rates.Preemptions > 0 {
		because = fmt.Sprintf("%.2g sequences per second were preempted", p.Rates.Preemptions)
	}
	return &Diagnosis{
		Bottleneck: ByKV,
		Sentence: fmt.Sprintf("In the last minute the key/value memory of %s was %.0f%% full, and %s%s.%s", full.Name,
			100*full.KV, because, and(p.Broken), p.over()),
		Do: "Enlarge it with --kv-tokens, use a smaller type with --kv-type int8, or add a worker.",
	}
}

func byCompute(p *State) *Diagnosis {
	if p.Busy < busyAll || p.waiting() == 0 && len(p.Broken) == 0 && p.Rates.TurnedAway == 0 {
		return nil
	}
	var what []string
	if n := p.waiting(); n > 0 {
		what = append(what, fmt.Sprintf("%s queued for about %s", requests(n), seconds(p.WaitSeconds)))
	}
	if p.Rates.TurnedAway > 0 {
		what = append(what, p.of(p.Rates.TurnedAway)+" were rejected")
	}
	what = append(what, p.Broken...)
	return &Diagnosis{
		Bottleneck: ByCompute,
		Sentence: fmt.Sprintf("In the last minute compute was %.0f%% busy: %s.%s", 100*p.Busy, strings.Join(what, ", "),
			p.over()),
		Do: "Add a worker, serve a smaller model, or admit fewer requests.",
	}
}

func byQueue(p *State) *Diagnosis {
	if p.waiting() == 0 && p.Rates.TurnedAway == 0 {
		return nil
	}
	if p.waiting() == 0 {
		return &Diagnosis{
			Bottleneck: ByQueue,
			Sentence: fmt.Sprintf("In the last minute %s were rejected although workers were at most %.0f%% busy%s.%s",
				p.of(p.Rates.TurnedAway), 100*p.Busy, and(p.Broken), p.over()),
			Do: "See the reason in parley_shed_total; --queue-depth and --queue-wait set the limits of the queue.",
		}
	}
	return &Diagnosis{
		Bottleneck: ByQueue,
		Sentence: fmt.Sprintf(
			"In the last minute %s queued for about %s while workers were at most %.0f%% busy%s.%s",
			requests(p.waiting()), seconds(p.WaitSeconds), 100*p.Busy, and(p.Broken), p.over()),
		Do: "Raise --seqs so that workers run more at once, or wait: the queue adapts to their measured speed.",
	}
}

func byClients(p *State) *Diagnosis {
	if p.Rates.Requests < rateLeast {
		return nil
	}
	many := func(rate, share float64) bool { return rate > share*p.Rates.Requests }
	v := &Diagnosis{Bottleneck: ByClients}
	switch {
	case many(p.Rates.Retries, retryMany):
		v.Sentence = p.of(p.Rates.Retries) + " of the last minute were retries: " +
			"clients retry faster than the server answers."
		v.Do = "Make clients honour Retry-After; find them under Requests."
	case many(p.Rates.Cancelled, cancelMany):
		v.Sentence = p.of(p.Rates.Cancelled) + " of the last minute were cancelled by their clients " +
			"before the answer was complete."
		v.Do = "Check whether a client timeout is shorter than an answer takes."
	case many(p.Rates.Refused, refusedMany):
		v.Sentence = p.of(p.Rates.Refused) + " of the last minute were invalid."
		v.Do = "Look at the latest ones under Requests: the error says what to change."
	case many(p.Rates.Limited, refusedMany):
		return p.byLimit()
	default:
		return nil
	}
	return v
}

// byLimit names the organisation that is over a limit, and the limit.
func (p *State) byLimit() *Diagnosis {
	v := &Diagnosis{
		Bottleneck: ByClients,
		Sentence:   p.of(p.Rates.Limited) + " of the last minute exceeded a limit of their key or organisation.",
		Do:         "Find them under Requests; limits are changed under Keys.",
	}
	if len(p.Limited) == 0 {
		return v
	}
	most := p.Limited[0]
	v.Sentence = fmt.Sprintf("%s of the last minute exceeded a limit in organisation %s: %s",
		p.of(p.Rates.Limited), most.Organization, most.Limit)
	if more := len(p.Limited) - 1; more > 0 {
		v.Sentence += fmt.Sprintf(" (other limits that were exceeded: %d)", more)
	}
	v.Sentence += "."
	v.Do = fmt.Sprintf("Raise it under Keys, or ask %s to send less.", most.Organization)
	return v
}

// byPast says what was wrong some minutes ago, and what the last hour has missed.
func byPast(p *State) *Diagnosis {
	switch {
	case len(p.Broken) > 0:
		return nil
	case p.Past != nil:
		return &Diagnosis{
			Bottleneck: p.Past.cause(),
			Past:       true,
			Sentence:   p.Past.sentence(p.At),
			Do:         "Find them under Requests. " + remedies[p.Past.cause()],
		}
	case len(p.Missed) > 0:
		return &Diagnosis{
			Bottleneck: NoBottleneck,
			Past:       true,
			Sentence:   fmt.Sprintf("No bottleneck now. Over the last hour %s.", strings.Join(p.Missed, " and ")),
		}
	}
	return nil
}

// withoutBottleneck is the sentence of a server that has none.
func withoutBottleneck(p *State) string {
	switch {
	case len(p.Broken) > 0:
		return fmt.Sprintf("Workers had capacity in the last minute, yet %s: "+
			"single requests are large, or the machine is slow.", strings.Join(p.Broken, " and "))
	case p.Running == 0 && p.Rates.Requests == 0:
		return "All clear. No requests in the last minute."
	case p.Running == 0 || p.calm:
		return "All clear: requests are served as they arrive."
	}
	return fmt.Sprintf("All clear: at most %d running and none queued in the last minute, "+
		"key/value memory %.0f%% full.", p.Running, 100*p.KV)
}

// of says how many of all requests an event of a rate is.
func (p *Picture) of(rate float64) string {
	return fmt.Sprintf("%.0f of %.0f requests", p.count(rate), p.count(p.Rates.Requests))
}

// over ends the sentence about a window whose load is over.
func (p *Picture) over() string {
	if p.calm {
		return " Nothing is running or queued now."
	}
	return ""
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

func fullest(p *Picture) (full *Worker) {
	for i := range p.Workers {
		if w := &p.Workers[i]; full == nil || w.KV > full.KV {
			full = w
		}
	}
	return full
}

func and(broken []string) string {
	if len(broken) == 0 {
		return ""
	}
	return "; " + strings.Join(broken, " and ")
}

func does(n int) string {
	if n == 1 {
		return "does"
	}
	return "do"
}

// list joins names, at most three of them.
func list(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
	}
	return strings.Join(names, " and ")
}

// seconds formats a time, such as 250 ms or 1.5 s.
func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", 1000*s)
	}
	return fmt.Sprintf("%.1f s", s)
}
