package host

import (
	"parley"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/spec"
)

// readings registers what can be asked of a running engine.
func (r register) readings(e *engine.Engine, blockBytes int64) {
	r.load(e)
	r.planning(e)
	r.prefixes(e)
	r.guesses(e)
	r.tiers(e, blockBytes)
	r.copies(e, blockBytes)
}

// load is how much there is to do.
func (r register) load(e *engine.Engine) {
	r.gauge(e, title{"parley_engine_running", "vllm:num_requests_running", "Sequences being computed."},
		func(s engine.Stats) float64 { return float64(s.Running) })
	r.gauge(e, title{"parley_engine_kv_usage", "vllm:kv_cache_usage_perc", "Share of the key/value pool in use."},
		func(s engine.Stats) float64 { return float64(s.Pool.InUse) / float64(s.Pool.Total) })
	r.gauge(e, title{"", "vllm:num_requests_waiting", "Requests waiting."}, func(s engine.Stats) (sum float64) {
		for _, waiting := range s.Waiting {
			sum += float64(waiting)
		}
		return sum
	})
	for c := range parley.Class(parley.Classes) {
		r.gauge(e, title{"parley_engine_waiting", "", "Requests waiting."},
			func(s engine.Stats) float64 { return float64(s.Waiting[c]) }, "class", c.String())
		r.gauge(e,
			title{"parley_engine_fairness", "", "Jain's fairness index of the service to active organisations."},
			func(s engine.Stats) float64 { return s.Fairness[c] }, "class", c.String())
	}
	r.total(e,
		title{"parley_engine_preemptions_total", "vllm:num_preemptions_total", "Sequences preempted for memory."},
		func(s engine.Stats) float64 { return float64(s.Preempted - s.Yielded) })
	r.total(e,
		title{"parley_engine_seat_preemptions_total", "", "Sequences preempted for a request of a higher class."},
		func(s engine.Stats) float64 { return float64(s.Yielded) })
	r.total(e, title{"parley_engine_preempted_tokens_total", "", "Computed tokens lost to preemption."},
		func(s engine.Stats) float64 { return float64(s.Lost) })
}

// planning is how well the host keeps up with the device.
func (r register) planning(e *engine.Engine) {
	ahead := "Forward passes launched before the tokens of the previous pass were known."
	r.total(e, title{"parley_engine_steps_ahead_total", "", ahead},
		func(s engine.Stats) float64 { return float64(s.Ahead) })
	exposed := "Time between forward passes in which the device waited for the host, while there was work."
	r.total(e, title{"parley_engine_host_seconds_total", "", exposed},
		func(s engine.Stats) float64 { return s.Exposed.Seconds() })
}

// prefixes is what was found in the prefix cache, and why the rest was not.
func (r register) prefixes(e *engine.Engine) {
	r.total(e, title{"parley_engine_prefix_tokens_total", "vllm:prefix_cache_queries_total",
		"Prompt tokens looked up in the prefix cache."},
		func(s engine.Stats) float64 { return float64(s.Cache.AskedTokens) })
	r.total(e, title{"parley_engine_prefix_hit_tokens_total", "vllm:prefix_cache_hits_total",
		"Prompt tokens that hit the prefix cache."},
		func(s engine.Stats) float64 { return float64(s.Cache.HitTokens) })
	for reason := range kv.Misses {
		r.total(e,
			title{"parley_engine_prefix_misses_total", "", "Admitted prompts by the cause of their first cache miss."},
			func(s engine.Stats) float64 { return float64(s.Cache.Misses[reason]) }, "reason", kv.Miss(reason).String())
	}
}

// guesses is what came of guessing ahead: by drafter under our names, added up
// under vLLM's.
func (r register) guesses(e *engine.Engine) {
	for _, g := range []struct {
		name, vllm, help string
		of               func(engine.Guesses) uint64
	}{
		{"parley_engine_guess_rounds_total", "vllm:spec_decode_num_drafts_total", "Drafts made for a sequence.",
			func(g engine.Guesses) uint64 { return g.Rounds }},
		{"parley_engine_guessed_tokens_total", "vllm:spec_decode_num_draft_tokens_total", "Draft tokens.",
			func(g engine.Guesses) uint64 { return g.Guessed }},
		{"parley_engine_guessed_right_tokens_total", "vllm:spec_decode_num_accepted_tokens_total",
			"Draft tokens accepted.", func(g engine.Guesses) uint64 { return g.Right }},
	} {
		for d := range spec.Drafter(spec.Drafters) {
			r.total(e, title{g.name, "", g.help}, func(s engine.Stats) float64 {
				return float64(g.of(s.Guesses[d]))
			}, "drafter", d.String())
		}
		r.total(e, title{"", g.vllm, g.help}, func(s engine.Stats) (sum float64) {
			for _, by := range s.Guesses {
				sum += float64(g.of(by))
			}
			return sum
		})
	}
	r.total(e, title{"parley_engine_draft_seconds_total", "", "Computing time of the draft model."},
		func(s engine.Stats) float64 { return s.DraftTime.Seconds() })
	r.total(e, title{"parley_engine_draft_failures_total", "", "Failures of the draft model."},
		func(s engine.Stats) float64 { return float64(s.DraftFailures) })
}

// tierNames are what metrics call the tiers.
var tierNames = [kv.Tiers]string{"device", "host", "disk"}

// tiers is what each tier of the memory holds.
func (r register) tiers(e *engine.Engine, blockBytes int64) {
	states := map[string]func(kv.Use) int{
		"in_use": func(u kv.Use) int { return u.InUse },
		"cached": func(u kv.Use) int { return u.Cached + u.Copies },
		"free":   func(u kv.Use) int { return u.Free },
	}
	for t, tier := range tierNames {
		for state, blocks := range states {
			r.gauge(e, title{"parley_engine_kv_bytes", "", "Bytes of keys and values by tier and state."},
				func(s engine.Stats) float64 {
					return float64(blocks(s.Tiers[t])) * float64(blockBytes)
				}, "tier", tier, "state", state)
		}
		r.total(e, title{"parley_engine_prefix_hit_blocks_total", "", "Blocks found in the prefix cache, by tier."},
			func(s engine.Stats) float64 { return float64(s.Cache.HitBlocks[t]) }, "tier", tier)
		r.total(e, title{"parley_engine_evicted_blocks_total", "", "Blocks evicted from a tier."},
			func(s engine.Stats) float64 { return float64(s.Cache.Evicted[t]) }, "tier", tier)
	}
}

// copies is what went from tier to tier, and what was lost on the way.
func (r register) copies(e *engine.Engine, blockBytes int64) {
	for f, from := range tierNames {
		for t, to := range tierNames {
			r.total(e, title{"parley_engine_copied_bytes_total", "", "Bytes of keys and values copied between tiers."},
				func(s engine.Stats) float64 {
					return float64(s.Copied[f][t].Blocks) * float64(blockBytes)
				}, "from", from, "to", to)
			r.total(e, title{"parley_engine_copy_seconds_total", "", "Time spent copying between tiers."},
				func(s engine.Stats) float64 { return s.Copied[f][t].Time.Seconds() }, "from", from, "to", to)
		}
	}
	r.total(e,
		title{"parley_engine_damaged_blocks_total", "", "Blocks that could not be copied, or whose content was lost."},
		func(s engine.Stats) float64 { return float64(s.Damaged) })
	r.total(e, title{"parley_engine_repairs_total", "", "Repairs of the block accounting."},
		func(s engine.Stats) float64 { return float64(s.Repairs) })
}
