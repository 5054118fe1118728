package route

import (
	"time"

	"parley"
)

// Foreign engines divide requests by their own means: a worker for prompts computes one, and
// keeps its keys and values until the worker that decodes has read them. Some workers that
// decode compute prompts as well; others ([Status.RoleOnly]) need a worker for prompts.

// promptFor returns the query for a worker that computes the prompt of q for another one.
func (q *Request) promptFor(reader *worker) *Request {
	prompt := *q
	prompt.Prefill, prompt.OutputTokens, prompt.reader = true, 1, reader
	return &prompt
}

// computesFor reports whether a worker can compute a prompt whose keys and values another
// one gets.
func (w *worker) computesFor(reader *worker) bool {
	s, to := &w.status, &reader.status
	switch {
	case w == reader:
		return false
	case to.Divides != "":
		return s.Divides == to.Divides && s.Role == parley.RolePrefill && w.Model == reader.Model &&
			w.Pool == reader.Pool
	}
	return s.Role != parley.RoleDecode && w.gives(reader)
}

// needsPrompt reports whether a worker can only decode.
func (w *worker) needsPrompt() bool { return w.status.RoleOnly && w.status.Role == parley.RoleDecode }

// hasPrompter reports whether a worker can compute the prompt of q for another one.
func (r *Router) hasPrompter(q *Request, reader *worker) bool {
	prompt := q.promptFor(reader)
	for id, w := range r.workers {
		if w != nil && w.refuses(prompt, ID(id)) == reasons {
			return true
		}
	}
	return false
}

// Divided reports whether the worker of a decision can only decode.
func (r *Router) Divided(d *Decision) bool { return r.workers[d.Worker].needsPrompt() }

// Pair decides where the prompt of a request is computed that goes to a worker of a foreign
// engine which decodes. It reports false if that worker computes it: little is missing there,
// or no worker for prompts is ready. It must follow the [Router.Pick] of the same request,
// whose decision it completes.
func (r *Router) Pair(q *Request, d *Decision, now time.Time) (Decision, bool) {
	to := r.workers[d.Worker]
	if to.status.Divides == "" || to.status.Role != parley.RoleDecode ||
		!to.needsPrompt() && d.Uncached < prefillLeast {
		return Decision{}, false
	}
	prompt := q.promptFor(to)
	if !to.needsPrompt() {
		prompt.Avoid = append(r.resting(d.Worker, now), q.Avoid...)
	}
	first, err := r.Pick(prompt, now)
	if err != nil {
		return Decision{}, false
	}
	d.pair(first.Name)
	return first, true
}

// resting returns the workers from which keys and values do not come to another one now.
func (r *Router) resting(to ID, now time.Time) (from []ID) {
	for i := range r.links {
		if l := &r.links[i]; l.to == to && now.Before(l.rests) {
			from = append(from, l.from)
		}
	}
	return from
}

// Unpaired notes that the prompt of a request, computed as first decided, cannot be read by the
// worker of d. The pair is left alone for some time.
func (r *Router) Unpaired(first, d *Decision, now time.Time) {
	if r.workers[first.Worker] != nil && r.workers[d.Worker] != nil {
		r.link(first.Worker, d.Worker).rests = now.Add(linkRest)
	}
}
