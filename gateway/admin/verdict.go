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

// Judge finds the bottleneck. It looks in the order of cause and effect:
// failures, then memory, whose lack makes requests wait, then compute, then
// queue limits that are too tight for either; clients last. broken lists the
// objectives that were missed.
func Judge(p *Picture, broken []string) Diagnosis {
	v := Diagnosis{Bottleneck: NoBottleneck, Happy: true}
	for _, look := range []func(*Picture, []string) *Diagnosis{byFailures, byKV, byCompute, byQueue, byClients} {
		if found := look(p, broken); found != nil {
			v = *found
			break
		}
	}
	v.Happy = len(broken) == 0 && p.Rates.Failed+p.Rates.TurnedAway == 0 && v.Bottleneck != ByFailures
	if v.Bottleneck == NoBottleneck {
		v.Sentence = withoutBottleneck(p, broken)
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
		if took := quantileOf(&before.TTFT, &after.TTFT, o.TTFTShare); o.TTFT > 0 && took > o.TTFT.Seconds() {
			broken = append(broken, fmt.Sprintf("first tokens%s take %s (SLO: %s within %s)",
				whose, seconds(took), percent(o.TTFTShare), seconds(o.TTFT.Seconds())))
		}
		if took := quantileOf(&before.Gap, &after.Gap, o.TPOTShare); o.TPOT > 0 && took > o.TPOT.Seconds() {
			broken = append(broken, fmt.Sprintf("tokens%s come every %s (SLO: %s within %s)",
				whose, seconds(took), percent(o.TPOTShare), seconds(o.TPOT.Seconds())))
		}
	}
	return broken
}

func quantileOf(from, to *Histogram, share float64) float64 {
	h := to.since(from)
	return h.Quantile(share)
}

// percent formats a share, such as 99.9%.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e4)/100, 'f', -1, 64) + "%"
}

func byFailures(p *Picture, _ []string) *Diagnosis {
	const checkWorker = "Check the log of that worker; it gets requests again as soon as it answers."
	var down, open, absent []string
	for i := range p.Workers {
		if w := &p.Workers[i]; w.State == "joining" && w.Trouble != "" {
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
			Do:         "Find the first failure in the log; the breaker retries by itself.",
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
			Sentence: fmt.Sprintf("%.2g of %.3g requests per second fail with server errors.", p.Rates.Failed,
				p.Rates.Requests),
			Do: "Look for level ERROR in the log; each line has the request id.",
		}
	}
	return nil
}

func byKV(p *Picture, broken []string) *Diagnosis {
	full := fullest(p)
	if full == nil || full.KV < kvFull || p.Rates.Preemptions == 0 && p.waiting() == 0 && full.Waiting == 0 {
		return nil
	}
	because := fmt.Sprintf("%d requests wait for memory", p.waiting()+full.Waiting)
	if p.Rates.Preemptions > 0 {
		because = fmt.Sprintf("%.2g sequences per second are preempted", p.Rates.Preemptions)
	}
	return &Diagnosis{
		Bottleneck: ByKV,
		Sentence: fmt.Sprintf("The key/value memory of %s is %.0f%% full, and %s%s.", full.Name, 100*full.KV,
			because, and(broken)),
		Do: "Enlarge it with --kv-tokens, use a smaller type with --kv-type int8, or add a worker.",
	}
}

func byCompute(p *Picture, broken []string) *Diagnosis {
	if p.Busy < busyAll || p.waiting() == 0 && len(broken) == 0 && p.Rates.TurnedAway == 0 {
		return nil
	}
	what := fmt.Sprintf("%d running", p.Running)
	if n := p.waiting(); n > 0 {
		what += fmt.Sprintf(", %d queued for about %s", n, seconds(p.WaitSeconds))
	}
	if p.Rates.TurnedAway > 0 {
		what += fmt.Sprintf(", %.2g per second rejected", p.Rates.TurnedAway)
	}
	return &Diagnosis{
		Bottleneck: ByCompute,
		Sentence:   fmt.Sprintf("Compute is %.0f%% busy: %s%s.", 100*p.Busy, what, and(broken)),
		Do:         "Add a worker, serve a smaller model, or admit fewer requests.",
	}
}

func byQueue(p *Picture, broken []string) *Diagnosis {
	if p.waiting() == 0 && p.Rates.TurnedAway == 0 {
		return nil
	}
	if p.waiting() == 0 {
		return &Diagnosis{
			Bottleneck: ByQueue,
			Sentence: fmt.Sprintf("%.2g requests per second are rejected although workers have capacity%s.",
				p.Rates.TurnedAway, and(broken)),
			Do: "See the reason in parley_shed_total; --queue-depth and --queue-wait set the limits of the queue.",
		}
	}
	return &Diagnosis{
		Bottleneck: ByQueue,
		Sentence: fmt.Sprintf("%d requests are queued for about %s while workers are %.0f%% busy%s.",
			p.waiting(), seconds(p.WaitSeconds), 100*p.Busy, and(broken)),
		Do: "Raise --seqs so that workers run more at once, or wait: the queue adapts to their measured speed.",
	}
}

func byClients(p *Picture, _ []string) *Diagnosis {
	all := p.Rates.Requests
	if all < rateLeast {
		return nil
	}
	for _, kind := range []struct {
		rate, least  float64
		sentence, do string
	}{
		{
			p.Rates.Retries, retryMany,
			"%.0f%% of requests are retries: clients retry faster than the server answers.",
			"Make clients honour Retry-After; find them under Requests.",
		},
		{
			p.Rates.Cancelled, cancelMany,
			"%.0f%% of requests are cancelled by their clients before the answer is complete.",
			"Check whether a client timeout is shorter than an answer takes.",
		},
		{
			p.Rates.Refused, refusedMany,
			"%.0f%% of requests are invalid.",
			"Look at the latest ones under Requests: the error says what to change.",
		},
		{
			p.Rates.Limited, refusedMany,
			"%.0f%% of requests exceed a limit or budget of their key or tenant.",
			"Raise the limit, or ask the owner of the key to slow down.",
		},
	} {
		if kind.rate > kind.least*all {
			return &Diagnosis{Bottleneck: ByClients,
				Sentence: fmt.Sprintf(kind.sentence, 100*kind.rate/all), Do: kind.do}
		}
	}
	return nil
}

// withoutBottleneck is the sentence of a server that has none.
func withoutBottleneck(p *Picture, broken []string) string {
	switch {
	case len(broken) > 0:
		return fmt.Sprintf("Workers have capacity, yet %s: single requests are large, or the machine is slow.",
			strings.Join(broken, " and "))
	case p.Running == 0 && p.Rates.Requests == 0:
		return "No bottleneck: the server is idle."
	case p.Running == 0:
		return "No bottleneck: requests are served as they arrive."
	}
	return fmt.Sprintf("No bottleneck: %d running, none queued, key/value memory %.0f%% full.", p.Running, 100*p.KV)
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
