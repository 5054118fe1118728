package host

import (
	"iter"

	"parley/compute"
	"parley/engine/kv"
	"parley/route/kvindex"
	"parley/worker"
	"parley/worker/kvevents"
)

// followedKept is how many batches a reader in this process may be behind before it
// takes everything again.
const followedKept = 256

// told returns what passes the events of a cache on to a journal; see
// [engine.Config.Events].
func told(to *worker.Journal) func(iter.Seq[kv.Event]) {
	return func(events iter.Seq[kv.Event]) { to.Append(named(events)) }
}

// named returns events by the keys of their blocks, which are enough for who
// knows how they are made. Runs of one kind in one tier become one event.
func named(events iter.Seq[kv.Event]) (out []kvindex.Event) {
	for e := range events {
		kind, tier := kvindex.Kind(e.Kind), kvindex.CacheTier(e.Tier)
		if n := len(out); n == 0 || out[n-1].Kind != kind || out[n-1].Tier != tier {
			out = append(out, kvindex.Event{Kind: kind, Tier: tier, BlockTokens: compute.BlockTokens})
		}
		if kind != kvindex.Cleared {
			last := &out[len(out)-1]
			last.Keys = append(last.Keys, e.Hash.Key())
		}
	}
	return out
}

// blockEvent returns an event as it travels. The cache's tiers and kinds are in
// the order that the index has. Tokens of a block that came from the disk are
// not known: it has zeros.
func blockEvent(e *kv.Event) kvevents.BlockEvent {
	b := kvevents.BlockEvent{Kind: kvindex.Kind(e.Kind), Tier: kvindex.CacheTier(e.Tier), Hash: e.Hash,
		Parent: e.Parent}
	for _, t := range e.Tokens {
		if t != 0 {
			b.Tokens = e.Tokens
			break
		}
	}
	return b
}

// eventsKept is how many events of the cache one pass may cause: it seals and
// evicts a few dozen blocks, and copies move some hundreds.
const eventsKept = 8192

// eventsWanted returns how many events the cache keeps for a listener.
func eventsWanted(listener func(iter.Seq[kv.Event])) int {
	if listener == nil {
		return 0
	}
	return eventsKept
}
