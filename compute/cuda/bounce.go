package cuda

import "parley/compute/libcuda"

// bounceBytes is half of the memory of a [bounce]: as much as a worker sends of a block at once.
const bounceBytes = 512 << 10

// A bounce is pinned memory between the pool and memory that is not pinned, such as that of blocks on their way
// between workers: the device copies pinned memory by itself, and at the full speed of the bus. One half is
// copied by the device while the host copies the other.
type bounce struct {
	halves [2][]byte
	turn   int     // the half that is used next
	busy   [2]bool // the device may still read it
}

// open takes the memory.
func (b *bounce) open(by driver) error {
	memory, err := by.AllocatePinned(2 * bounceBytes)
	if err == nil {
		b.halves = [2][]byte{memory[:bounceBytes], memory[bounceBytes:]}
	}
	return err
}

// close gives the memory back.
func (b *bounce) close(by driver) error {
	if b.halves[0] == nil {
		return nil
	}
	memory := b.halves[0][:2*bounceBytes]
	b.halves = [2][]byte{}
	return by.ReleasePinned(memory)
}

// downloadBounced copies device memory to memory that is not pinned.
func (c *CUDA) downloadBounced(dst []byte, from libcuda.Address) {
	b := &c.pool.bounce
	started, done := 0, 0
	start := func() {
		part := min(len(dst)-started, bounceBytes)
		c.must(c.driver.Download(b.halves[started/bounceBytes%2][:part], from+libcuda.Address(started)))
		started += part
	}
	for start(); done < len(dst); {
		c.must(c.driver.Synchronize())
		b.busy = [2]bool{}
		half := b.halves[done/bounceBytes%2]
		part := min(len(dst)-done, bounceBytes)
		if started < len(dst) {
			start()
		}
		copy(dst[done:], half[:part])
		done += part
	}
}

// uploadBounced copies memory that is not pinned to the device. What follows on the device finds it there.
func (c *CUDA) uploadBounced(to libcuda.Address, src []byte) {
	b := &c.pool.bounce
	for len(src) > 0 {
		if b.busy[b.turn] {
			c.must(c.driver.Synchronize())
			b.busy = [2]bool{}
		}
		part := b.halves[b.turn][:min(len(src), bounceBytes)]
		copy(part, src)
		c.must(c.driver.Upload(to, part))
		b.busy[b.turn], b.turn = true, 1-b.turn
		to, src = to+libcuda.Address(len(part)), src[len(part):]
	}
}
