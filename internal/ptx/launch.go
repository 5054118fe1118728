package ptx

import (
	"fmt"
	"sync"

	"parley/internal/ptx/arith"
)

// Launch runs a kernel to its end. params is the parameter buffer as Pack makes
// it. A cluster of zero size is a cluster of one block. The error is a *Fault
// when the kernel is at fault; of several blocks at fault the first is named.
func (d *Device) Launch(k *Kernel, grid, block, cluster Dim, dynamicShared int, params []byte) error {
	l := &launch{
		d:       d,
		k:       k,
		grid:    grid.fill(),
		block:   block.fill(),
		cluster: cluster.fill(),
		dynamic: dynamicShared,
	}
	l.params = append([]byte(nil), params...)
	if err := l.check(); err != nil {
		return fmt.Errorf("ptx: launch of %s: %w", k.Name, err)
	}
	image, err := d.image(k.module)
	if err != nil {
		return err
	}
	d.launch.Lock()
	defer d.launch.Unlock()
	l.memory = *d.memory.Load()
	l.template(image)
	l.idle = d.clusters(k, l)
	clusters := l.grid.count() / l.cluster.count()
	l.errAt = clusters
	var wg sync.WaitGroup
	for range min(d.options.Workers, clusters) {
		wg.Go(func() { (&worker{l}).work(clusters) })
	}
	wg.Wait()
	return l.err
}

// clusters returns the pool of clusters of former launches of this shape.
func (d *Device) clusters(k *Kernel, l *launch) *sync.Pool {
	key := shape{k, l.block, l.cluster, l.dynamic}
	if d.idle[key] == nil {
		d.idle[key] = new(sync.Pool)
	}
	return d.idle[key]
}

func (l *launch) check() error {
	threads := l.block.count()
	switch {
	case threads > 1024:
		return fmt.Errorf("%d threads in a block; at most 1024 are possible", threads)
	case l.k.ReqThreads != Dim{} && l.k.ReqThreads.fill() != l.block:
		return fmt.Errorf("blocks of %v threads, where .reqntid asks for %v", l.block, l.k.ReqThreads)
	case l.k.MaxThreads != Dim{} && threads > l.k.MaxThreads.fill().count():
		return fmt.Errorf("%d threads in a block; .maxntid allows %v", threads, l.k.MaxThreads)
	case len(l.params) != l.k.ParamBytes:
		return fmt.Errorf("%d bytes of parameters, where the kernel takes %d", len(l.params), l.k.ParamBytes)
	case l.dynamic < 0 || l.k.dynamic-sharedBase+l.dynamic > l.d.options.SharedMax:
		return fmt.Errorf("%d bytes of shared memory; a block can have %d",
			l.k.dynamic-sharedBase+l.dynamic, l.d.options.SharedMax)
	case l.cluster.count() > 16:
		return fmt.Errorf("%d blocks in a cluster; at most 16 are possible", l.cluster.count())
	}
	for i := range l.grid {
		if l.grid[i]%l.cluster[i] != 0 {
			return fmt.Errorf("grid %v is not a multiple of cluster %v", l.grid, l.cluster)
		}
	}
	return nil
}

// template fills constants into the registers that every warp starts with.
func (l *launch) template(image map[string]uint64) {
	l.r, l.q = make([]arith.Lanes32, l.k.n32), make([]arith.Lanes64, l.k.n64)
	for v, s := range l.k.const32 {
		for i := range l.r[s] {
			l.r[s][i] = v
		}
	}
	set := func(s slot, v uint64) {
		for i := range l.q[s] {
			l.q[s][i] = v
		}
	}
	for v, s := range l.k.const64 {
		set(s, v)
	}
	for _, rel := range l.k.symbols {
		set(rel.slot, image[rel.symbol]+uint64(rel.offset))
	}
}

// take hands out the next cluster, until one has failed.
func (l *launch) take(clusters int) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || l.next >= clusters {
		return 0, false
	}
	l.next++
	return l.next - 1, true
}

// failed keeps the error of the first cluster of the grid's order.
func (l *launch) failed(at int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at < l.errAt {
		l.err, l.errAt = err, at
	}
}
