package admin

import "slices"

// poolsOf judges each pool separately, if there are several.
func poolsOf(p *Picture) (pools []PoolPicture) {
	var names []string
	for i := range p.Queues {
		names = append(names, p.Queues[i].Pool)
	}
	for i := range p.Workers {
		names = append(names, p.Workers[i].Pool)
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) < 2 {
		return nil
	}
	for _, name := range names {
		own := p.within(name)
		pool := PoolPicture{Pool: name, Workers: len(own.Workers), Waiting: own.waiting(),
			Verdict: Judge(&State{Picture: own})}
		for i := range own.Workers {
			if own.Workers[i].State == Up {
				pool.Up++
			}
		}
		pools = append(pools, pool)
	}
	return pools
}
