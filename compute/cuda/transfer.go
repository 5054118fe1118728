package cuda

import "parley/compute/libcuda"

// copyArgs are those of the kernel copy_words, as in kernels/choose.cu.
type copyArgs struct {
	from, to           libcuda.Address
	words, first, rows int32
	chosen             libcuda.Address
}

// copyBlocks bounds the blocks of threads of a copy: more would not be quicker over the bus.
const copyBlocks = 128

// send copies pinned memory, whole words of 4 bytes, to the device. Kernels that follow find it there.
func (c *CUDA) send(to libcuda.Address, pinned []byte) {
	c.copyBetween(copyArgs{
		from:  c.driver.Mapped(pinned),
		to:    to,
		words: int32(len(pinned) / 4),
	})
}

// receive copies device memory, whole words of 4 bytes, to pinned memory.
func (c *CUDA) receive(pinned []byte, from libcuda.Address) {
	c.copyBetween(copyArgs{
		from:  from,
		to:    c.driver.Mapped(pinned),
		words: int32(len(pinned) / 4),
	})
}

// sendStep copies the step's data to the device. The first time, tokens that the step before chose come to their
// places.
func (c *CUDA) sendStep() {
	s := &c.step
	args := copyArgs{
		from:  c.driver.Mapped(bytesOf(s.ints)),
		to:    s.device,
		words: int32(len(s.ints)),
	}
	if s.fed {
		args.first, args.rows = s.ints[atTokens], int32(s.rows)
		args.chosen = c.choice.chosen[c.choice.turn].at // the present one takes its turn later
		s.fed = false
	}
	c.copyBetween(args)
}

func (c *CUDA) copyBetween(args copyArgs) {
	if args.words > 0 {
		start(c, &c.copyWords, min(copyBlocks, int(args.words+255)/256), 1, &args)
	}
}
