package kv

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
	u := Use{Total: c.slots.total[t], Free: len(c.slots.free[t]), Cached: c.slots.cached[t]}
	if t == Disk {
		u.Copies = c.copies.n
	}
	u.InUse = u.Total - u.Free - u.Cached - u.Copies
	if t == Device {
		u.Retained = c.cached.retainedBlocks
	}
	return u
}
