package infer

import (
	"context"
	"iter"
	"slices"

	"parley"
	"parley/gateway/relay"
)

// relayTries is how often a request joins an answer of other gateways that is then
// lost, before it is computed here whatever they do.
const relayTries = 4

var errRelayDiffers = parley.Errorf(parley.Unavailable,
	"The gateway that computed this answer was lost, and the answer computed again differs. Send the "+
		"request again.")

// across lets equal requests that come to several gateways be computed by one of
// them. Requests that are answered differently each time are not: where the gateway
// that computes is lost, another one must say the same again.
func (s *shares) across(w SharePolicy, key shareKey, next source) source {
	if s.config.Relay == nil || !w.Repeatable || w.Fresh {
		return next
	}
	return func(ctx context.Context, r *parley.Request) iter.Seq2[*Step, error] {
		return func(yield func(*Step, error) bool) {
			a := &relayFollower{shares: s, yield: yield, said: map[int][]parley.Token{}, ended: map[int]bool{}}
			for range relayTries {
				lead, follow, err := s.config.Relay.Join(ctx, key, r.Class)
				if lead != nil {
					a.lead(ctx, r, lead, next)
					return
				}
				if err != nil || follow == nil {
					break
				}
				how := a.follow(ctx, follow)
				if how == relay.Complete {
					return
				}
				if how == relay.Alone {
					break
				}
			}
			a.compute(ctx, r, nil, next)
		}
	}
}

// A relayFollower is one answer that came, or will come, from several gateways. What was
// said is not said again: the gateway that continues repeats it from the beginning.
type relayFollower struct {
	shares *shares
	yield  func(*Step, error) bool
	said   map[int][]parley.Token // by choice
	ended  map[int]bool
	// begun answers have said something, whole ones all.
	begun, whole bool
	// at is how much of said the present gateway has said again.
	at map[int]int
}

// follow gives out what another gateway computes. It returns how that ended; Complete
// also if there is nothing more to be done for another reason.
func (a *relayFollower) follow(ctx context.Context, f *relay.Follow) relay.State {
	defer f.Close()
	a.shares.metrics.relayed.Inc()
	a.at = map[int]int{}
	for {
		deltas, state, err := f.Next(ctx)
		for _, d := range deltas {
			if !a.say(&Step{Delta: d, Shared: true}) {
				return relay.Complete
			}
		}
		switch {
		case ctx.Err() != nil:
			a.yield(&Step{}, context.Cause(ctx))
			return relay.Complete
		case err != nil:
			return relay.Alone
		case a.whole: // even if its leader was lost before it could say so
			return relay.Complete
		case state != relay.Going:
			return state
		}
	}
}

// lead computes the answer for this gateway and those that follow.
func (a *relayFollower) lead(ctx context.Context, r *parley.Request, l *relay.Lead, next source) {
	state := relay.Lost
	defer func() { l.End(state) }()
	if a.compute(ctx, r, l, next) {
		state = relay.Complete
	}
}

// compute has the worker answer, for those that follow l, too, if it is not nil. It
// reports whether the answer is complete.
func (a *relayFollower) compute(ctx context.Context, r *parley.Request, l *relay.Lead, next source) (complete bool) {
	a.at = map[int]int{}
	for s, err := range next(ctx, r) {
		if err != nil {
			a.yield(&Step{}, err)
			return false
		}
		switch {
		case l == nil || s.ticket != nil:
		case s.Delta.HasText(): // others could not compare it with theirs
			l.End(relay.Alone)
		default:
			l.Add(s.Delta)
		}
		if !a.say(s) {
			return false
		}
		complete = a.whole
	}
	return complete
}

// say gives out what of a step was not said before. It reports false if nothing reads
// it, or if it is not what was said before.
func (a *relayFollower) say(s *Step) bool {
	if s.ticket != nil {
		return a.begun || a.yield(s, nil)
	}
	d := &s.Delta
	said := a.said[d.Choice][min(a.at[d.Choice], len(a.said[d.Choice])):]
	again := min(len(said), len(d.Tokens))
	if !slices.Equal(said[:again], d.Tokens[:again]) {
		a.yield(&Step{}, errRelayDiffers)
		return false
	}
	a.at[d.Choice] += len(d.Tokens)
	d.Tokens = d.Tokens[again:]
	d.Logprobs = d.Logprobs[min(again, len(d.Logprobs)):]
	if a.begun {
		d.PromptLogprobs, d.Progress = nil, nil
	}
	if a.ended[d.Choice] {
		d.Finish, d.StopString = "", ""
	}
	if again > 0 && len(d.Tokens) == 0 && d.Finish == "" && d.Usage == nil {
		return true
	}
	a.note(d)
	return a.yield(s, nil)
}

// note remembers what is said.
func (a *relayFollower) note(d *parley.Delta) {
	a.begun = a.begun || d.Count() > 0 || d.PromptLogprobs != nil
	a.said[d.Choice] = append(a.said[d.Choice], d.Tokens...)
	a.ended[d.Choice] = a.ended[d.Choice] || d.Finish != ""
	a.whole = a.whole || d.Usage != nil
}
