package admin

import "slices"

// A PoolPicture is the state of one pool of workers.
type PoolPicture struct {
	Pool string `json:"pool"`
	// Up counts the workers that get requests, of all Workers.
	Up      int `json:"up"`
	Workers int `json:"workers"`
	// Waiting counts the queued requests.
	Waiting int       `json:"waiting"`
	Verdict Diagnosis `json:"verdict"`
}

// name is the model's, with the pool if there may be several.
func (q *Queue) name() string {
	if q.Pool == "" || q.Pool == LocalPool {
		return q.Model
	}
	return q.Model + " in pool " + q.Pool
}

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
		pool := PoolPicture{Pool: name, Workers: len(own.Workers), Waiting: own.waiting(), Verdict: Judge(own, nil)}
		for i := range own.Workers {
			if own.Workers[i].State == Up {
				pool.Up++
			}
		}
		pools = append(pools, pool)
	}
	return pools
}

// within returns the part of the picture that belongs to one pool.
func (p *Picture) within(pool string) *Picture {
	own := &Picture{At: p.At, Waiting: map[string]int{}, fleet: p.fleet}
	for _, q := range p.Queues {
		if q.Pool != pool {
			continue
		}
		own.Queues = append(own.Queues, q)
		own.WaitSeconds = max(own.WaitSeconds, q.WaitSeconds)
		for tier, n := range q.Waiting {
			own.Waiting[tier] += n
		}
	}
	for _, w := range p.Workers {
		if w.Pool == pool {
			own.Workers = append(own.Workers, w)
			own.Running += w.Running
			own.KV, own.Busy = max(own.KV, w.KV), max(own.Busy, w.Busy)
			own.Rates.Preemptions += w.Preemptions
		}
	}
	return own
}
