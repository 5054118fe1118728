package admin

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"parley"
)

// What can bind a server.
const (
	ByNothing  = "nothing"
	ByQueue    = "queue"
	ByKV       = "kv"
	ByCompute  = "compute"
	ByClients  = "clients"
	ByFailures = "failures"
)

// A Verdict says what keeps a server from serving more or faster, and why one
// thinks so.
type Verdict struct {
	// Binds is nothing, queue, kv, compute, clients or failures.
	Binds string `json:"binds"`
	// Happy: users are served as promised.
	Happy    bool   `json:"happy"`
	Sentence string `json:"sentence"`
	// Do is what to do about it; empty if nothing need be done.
	Do string `json:"do,omitempty"`
}

// Where numbers begin to mean something.
const (
	kvFull      = 0.9  // of a pool
	busyAll     = 0.85 // of the time
	cancelMany  = 0.3  // of the requests
	retryMany   = 0.2
	refusedMany = 0.5
	rateLeast   = 0.1 // requests a second; fewer tell nothing of a share
)

// Judge says what binds. The order is that of cause and effect: what fails, then
// the memory, whose want makes others wait, then the processors, then lines that
// are too short for no reason of either; clients last.
func Judge(p *Picture, broken []string) Verdict {
	v := Verdict{Binds: ByNothing, Happy: true}
	for _, look := range []func(*Picture, []string) *Verdict{byFailures, byKV, byCompute, byQueue, byClients} {
		if found := look(p, broken); found != nil {
			v = *found
			break
		}
	}
	v.Happy = len(broken) == 0 && p.Rates.Failed+p.Rates.TurnedAway == 0 && v.Binds != ByFailures
	if v.Binds == ByNothing {
		v.Sentence = atEase(p, broken)
	}
	return v
}

// brokenPromises names the objectives that were not met between two readings.
func brokenPromises(from, to *Reading, objectives parley.Objectives) (broken []string) {
	for i := range objectives {
		o := &objectives[i]
		before, after := from.tokensOf(o.Name), to.tokensOf(o.Name)
		whose := ""
		if o.Name != parley.DefaultObjective {
			whose = " of " + o.Name
		}
		if took := quantileOf(&before.TTFT, &after.TTFT, o.TTFTShare); o.TTFT > 0 && took > o.TTFT.Seconds() {
			broken = append(broken, fmt.Sprintf("first tokens%s take %s (%s within %s are promised)",
				whose, seconds(took), hundreds(o.TTFTShare), seconds(o.TTFT.Seconds())))
		}
		if took := quantileOf(&before.Gap, &after.Gap, o.TPOTShare); o.TPOT > 0 && took > o.TPOT.Seconds() {
			broken = append(broken, fmt.Sprintf("tokens%s come every %s (%s within %s are promised)",
				whose, seconds(took), hundreds(o.TPOTShare), seconds(o.TPOT.Seconds())))
		}
	}
	return broken
}

func quantileOf(from, to *Histogram, share float64) float64 {
	h := to.since(from)
	return h.Quantile(share)
}

// hundreds writes a share as people say it.
func hundreds(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e4)/100, 'f', -1, 64) + " of 100"
}

func byFailures(p *Picture, _ []string) *Verdict {
	var down, open []string
	for i := range p.Workers {
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
		return &Verdict{Binds: ByFailures, Sentence: fmt.Sprintf("Requests for %s are kept from their workers, because too many have failed.", list(open)),
			Do: "Look at the log for the first failure; the breaker tries again by itself."}
	case p.fleet && len(p.Workers) == 0:
		return &Verdict{Binds: ByFailures, Sentence: "No worker has joined, so nobody can be answered.", Do: "Start one; the log says why those that the server knows of cannot join."}
	case len(down) > 0 && len(down) == len(p.Workers):
		return &Verdict{Binds: ByFailures, Sentence: fmt.Sprintf("%s %s not answer, and there is no other, so nobody can be answered.", list(down), does(len(down))),
			Do: "Look at the log of that worker; it is used again as soon as it answers."}
	case len(down) > 0:
		return &Verdict{Binds: ByFailures, Sentence: fmt.Sprintf("%s %s not answer, so the others carry the load.", list(down), does(len(down))),
			Do: "Look at the log of that worker; it is used again as soon as it answers."}
	case p.Rates.Failed > 0 && p.Rates.Failed >= (1-AvailabilityGoal)*p.Rates.Requests:
		return &Verdict{Binds: ByFailures, Sentence: fmt.Sprintf("%.2g requests a second fail by our own fault, of %.3g.", p.Rates.Failed, p.Rates.Requests),
			Do: "Look at the log for level ERROR; each line has the request id."}
	}
	return nil
}

func byKV(p *Picture, broken []string) *Verdict {
	full := fullest(p)
	if full == nil || full.KV < kvFull || p.Rates.Preemptions == 0 && p.waiting() == 0 && full.Waiting == 0 {
		return nil
	}
	because := fmt.Sprintf("%d wait for memory", p.waiting()+full.Waiting)
	if p.Rates.Preemptions > 0 {
		because = fmt.Sprintf("%.2g sequences a second are set back to make room", p.Rates.Preemptions)
	}
	return &Verdict{Binds: ByKV, Sentence: fmt.Sprintf("The key/value memory of %s is %.0f%% in use, and %s%s.", full.Name, 100*full.KV, because, and(broken)),
		Do: "Give it more with --kv-tokens, keep smaller values with --kv-type int8, or add a worker."}
}

func byCompute(p *Picture, broken []string) *Verdict {
	if p.Busy < busyAll || p.waiting() == 0 && len(broken) == 0 && p.Rates.TurnedAway == 0 {
		return nil
	}
	what := beingAnswered(p.Running)
	if n := p.waiting(); n > 0 {
		what += fmt.Sprintf(" and %d wait for %s", n, seconds(p.WaitSeconds))
	}
	if p.Rates.TurnedAway > 0 {
		what += fmt.Sprintf(", %.2g a second are turned away", p.Rates.TurnedAway)
	}
	return &Verdict{Binds: ByCompute, Sentence: fmt.Sprintf("The processors are busy %.0f%% of the time: %s%s.", 100*p.Busy, what, and(broken)),
		Do: "Add a worker, serve a smaller model, or let fewer in."}
}

func byQueue(p *Picture, broken []string) *Verdict {
	if p.waiting() == 0 && p.Rates.TurnedAway == 0 {
		return nil
	}
	if p.waiting() == 0 {
		return &Verdict{Binds: ByQueue, Sentence: fmt.Sprintf("%.2g requests a second are turned away although the workers have room%s.", p.Rates.TurnedAway, and(broken)),
			Do: "See which reason parley_shed_total gives; bounds of the queue are set with --queue-depth and --queue-wait."}
	}
	return &Verdict{Binds: ByQueue, Sentence: fmt.Sprintf("%d requests wait for their turn, about %s, while the workers are busy %.0f%% of the time%s.",
		p.waiting(), seconds(p.WaitSeconds), 100*p.Busy, and(broken)),
		Do: "Let the workers take more at once with --seqs, or wait: the queue learns what they bear."}
}

func byClients(p *Picture, _ []string) *Verdict {
	all := p.Rates.Requests
	if all < rateLeast {
		return nil
	}
	switch {
	case p.Rates.Retries > retryMany*all:
		return &Verdict{Binds: ByClients, Sentence: fmt.Sprintf("%.0f%% of the requests were sent before: clients try again faster than we answer.", 100*p.Rates.Retries/all),
			Do: "Have clients obey Retry-After; look who they are under Requests."}
	case p.Rates.Cancelled > cancelMany*all:
		return &Verdict{Binds: ByClients, Sentence: fmt.Sprintf("%.0f%% of the requests are left by their clients before the answer is complete.", 100*p.Rates.Cancelled/all),
			Do: "See whether a time limit of the clients is shorter than their answers take."}
	case p.Rates.Refused > refusedMany*all:
		return &Verdict{Binds: ByClients, Sentence: fmt.Sprintf("%.0f%% of the requests are wrong and answered with an error.", 100*p.Rates.Refused/all),
			Do: "Look at the latest ones under Requests: the error says what to change."}
	case p.Rates.Limited > refusedMany*all:
		return &Verdict{Binds: ByClients, Sentence: fmt.Sprintf("%.0f%% of the requests are over a limit of their own key.", 100*p.Rates.Limited/all),
			Do: "Raise the limit of that key, or ask its holder to slow down."}
	}
	return nil
}

// atEase is the sentence where nothing binds.
func atEase(p *Picture, broken []string) string {
	switch {
	case len(broken) > 0:
		return fmt.Sprintf("The workers have room, yet %s: single requests are large, or the machine is slow.", strings.Join(broken, " and "))
	case p.Running == 0 && p.Rates.Requests == 0:
		return "Nothing binds: nobody is asking for anything."
	case p.Running == 0:
		return "Nothing binds: requests are answered as they come, and nobody waits."
	}
	return fmt.Sprintf("Nothing binds: %s, nobody waits, and the key/value memory is %.0f%% in use.", beingAnswered(p.Running), 100*p.KV)
}

func beingAnswered(n int) string {
	if n == 1 {
		return "1 request is being answered"
	}
	return fmt.Sprintf("%d requests are being answered", n)
}

// waiting counts who waits, of all tiers.
func (p *Picture) waiting() (n int) {
	for _, tier := range p.Waiting {
		n += tier
	}
	return n
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

// list names at most three.
func list(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:2], ", "), len(names)-2)
	}
	return strings.Join(names, " and ")
}

// seconds writes a time as people say it.
func seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", 1000*s)
	}
	return fmt.Sprintf("%.1f s", s)
}
