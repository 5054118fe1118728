package admin

import "parley"

// Now returns the current picture; an empty one if nothing was read yet. Limited lists
// whose requests limits have refused in the last minute, the most first.
func (h *History) Now(objectives parley.Objectives, limited ...LimitedBy) *Picture {
	if h.latest == nil {
		return &Picture{Waiting: map[string]int{},
			Verdict: Diagnosis{Bottleneck: NoBottleneck, Sentence: "No data yet: the server has just started."}}
	}
	now := h.latest
	p := between(h.before(ratesOver), now)
	minute := h.before(spreadOver)
	p.latencies(minute, h.before(Kept), now)
	promises := h.promises(objectives)
	verdict := Judge(&State{
		Picture: h.window(),
		Broken:  missedObjectives(minute, now, objectives),
		Limited: limited,
		Missed:  missedPromises(promises),
		Past:    h.lastEpisode(),
	})
	return p.judged(promises, verdict, poolsOf(p))
}

// HeadlineWindow is the time that the headline is about.
const HeadlineWindow = spreadOver

// window returns the picture that the headline is computed from.
func (h *History) window() *Picture {
	from := h.before(HeadlineWindow)
	p := between(from, h.latest)
	var within []*Reading
	for i := range h.ring {
		if r := h.at(i); r.At.After(from.At) {
			within = append(within, r)
		}
	}
	return p.raised(within)
}
