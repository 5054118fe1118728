package kv

// Stats count what happened since the start. Ratios are the reader's: hits over
// asked tokens, waste over released slots.
type Stats struct {
	// Admitted counts admissions; AskedTokens their prompts, HitTokens what of
	// them need not be computed, and HitBlocks the blocks found, by tier.
	Admitted, AskedTokens, HitTokens uint64
	HitBlocks                        [tiers]uint64
	// Resumed counts those that were admitted again, which the numbers above do
	// not, and ResumedTokens what they needed not compute again.
	Resumed, ResumedTokens uint64
	// Misses counts admissions by the reason of their first missing block,
	// indexed by Miss.
	Misses [misses]uint64
	// Evicted counts the blocks that left each tier for want of room.
	Evicted [tiers]uint64
	// Deduplicated counts blocks that were computed twice and kept once.
	Deduplicated uint64
	// RetainRefused counts blocks whose retention found no room.
	RetainRefused uint64
	// ReleasedSlots counts token slots in the blocks of released tables, and
	// ReleasedTokens how many of them were used: the difference is waste.
	ReleasedSlots, ReleasedTokens uint64
}

func (s *Stats) admitted(a *Admission, claim *Claim) {
	if claim.Again {
		s.Resumed++
		s.ResumedTokens += uint64(a.HitTokens)
		return
	}
	s.Admitted++
	s.AskedTokens += uint64(claim.tokens())
	s.HitTokens += uint64(a.HitTokens)
	for t, n := range a.HitBlocks {
		s.HitBlocks[t] += uint64(n)
	}
	s.Misses[a.Miss]++
}

// Stats returns the counts so far.
func (c *Cache) Stats() Stats { return c.stats }

// A Use says what the blocks of a tier are doing: Free + Cached + InUse + Copies = Total.
type Use struct {
	Total, Free, Cached, InUse int
	// Copies hold on the disk what a higher tier holds, too.
	Copies int
	// Retained is how many of the cached ones are protected for a time.
	Retained int
}

// Use returns what the blocks of a tier are doing now.
func (c *Cache) Use(t Tier) Use {
	if t >= tiers {
		return Use{}
	}
	u := Use{Total: c.total[t], Free: len(c.free[t]), Cached: c.cached[t]}
	if t == Disk {
		u.Copies = c.copies.n
	}
	u.InUse = u.Total - u.Free - u.Cached - u.Copies
	if t == Device {
		u.Retained = c.retainedBlocks
	}
	return u
}
