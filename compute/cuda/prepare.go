package cuda

import (
	"math"
	"unsafe"

	"parley"
	"parley/compute"
	"parley/compute/libcuda"
)

// What the kernels prepare and recall of choose.cu are given; the fields are in the order there.
type (
	specialArgs struct {
		row, first, entries, coming, mask, top int32
		repetition, presence, frequency        float32
		_                                      int32
	}
	prepareArgs struct {
		logits, specials, entries, masks, roots libcuda.Address
		before, chosen, surveys                 libcuda.Address
		perUnit                                 float64
		vocab                                   int32
	}
	surveyResult struct {
		sum         float64
		peak, score float32
		count, _    int32
		top         [compute.DrawTopMost]uint64
	}
)

const (
	specialBytes  = int(unsafe.Sizeof(specialArgs{}))
	adjustedBytes = int(unsafe.Sizeof(compute.Adjustment{}))
	surveyBytes   = int(unsafe.Sizeof(surveyResult{}))
	// extrasLeast is the least memory that is taken for what some draws have besides numbers.
	extrasLeast = 256 << 10
)

// An extraRows is what is launched before and after tokens are drawn.
type extraRows struct {
	args     prepareArgs
	specials []specialArgs
}

// special reports whether a draw is more than numbers.
func special(d *compute.Draw) bool {
	return d.Logprobs || d.Mask != nil || len(d.Adjust.Tokens) > 0 || d.Adjust.Coming > 0
}

// extraSizes returns how many draws are special, and how many adjusted tokens and words of masks they have.
func extraSizes(draws []compute.Draw, vocab int) (specials, entries, words int) {
	for i := range draws {
		if d := &draws[i]; special(d) {
			specials++
			entries += len(d.Adjust.Tokens) + 1
			if d.Mask != nil {
				words += (vocab + 63) / 64
			}
		}
	}
	return specials, entries, words
}

// prepareRows has the scores of special draws examined, adjusted and masked on the device.
func (c *CUDA) prepareRows(draws []compute.Draw, vocab int) extraRows {
	specials, entries, words := extraSizes(draws, vocab)
	if specials == 0 {
		return extraRows{}
	}
	atMasks := specialBytes * specials
	atEntries := atMasks + 8*words
	bytes := atEntries + adjustedBytes*entries
	c.must(c.reserveExtras(bytes))
	d := &c.choice
	host, device := d.hosts[d.turn].extras[:bytes], d.extras[d.turn].at
	x := extraRows{
		args: prepareArgs{
			logits:   c.logits.at,
			specials: device,
			entries:  device + libcuda.Address(atEntries),
			masks:    device + libcuda.Address(atMasks),
			roots:    d.roots.at,
			before:   d.chosen[1-d.turn].at,
			chosen:   d.chosen[d.turn].at,
			surveys:  d.surveys[d.turn].at,
			perUnit:  (&compute.Draw{Temperature: 1}).StepsPerUnit(),
			vocab:    int32(vocab),
		},
		specials: view[specialArgs](host[:atMasks]),
	}
	masks, adjustments := view[uint64](host[atMasks:atEntries]), view[compute.Adjustment](host[atEntries:])
	fillExtras(draws, x.specials, masks, adjustments, vocab)
	c.send(device, host)
	start(c, &c.prepare, specials, 1, &x.args)
	return x
}

// fillExtras writes what special draws have besides numbers.
func fillExtras(draws []compute.Draw, specials []specialArgs, masks []uint64, entries []compute.Adjustment, vocab int) {
	n, entry, word := 0, 0, 0
	for i := range draws {
		d := &draws[i]
		if !special(d) {
			continue
		}
		s := specialArgs{
			row:        int32(i),
			first:      int32(entry),
			entries:    int32(len(d.Adjust.Tokens)),
			coming:     int32(d.Adjust.Coming) - 1,
			mask:       -1,
			top:        -1,
			repetition: d.Adjust.Repetition,
			presence:   d.Adjust.Presence,
			frequency:  d.Adjust.Frequency,
		}
		entry += copy(entries[entry:], d.Adjust.Tokens)
		entries[entry] = compute.Adjustment{Token: -1}
		entry++
		if d.Mask != nil {
			s.mask = int32(word)
			word += copy(masks[word:], d.Mask[:(vocab+63)/64])
		}
		if d.Logprobs {
			s.top = int32(min(d.TopLogprobs, compute.DrawTopMost))
		}
		specials[n] = s
		n++
	}
}

// reserveExtras makes room for what the special draws of a step have.
func (c *CUDA) reserveExtras(bytes int) error {
	d := &c.choice
	if len(d.hosts[0].extras) >= bytes {
		return nil
	}
	bytes = max(extrasLeast, 2*bytes)
	if err := c.driver.Synchronize(); err != nil {
		return err
	}
	for i := range d.hosts {
		h := &d.hosts[i]
		if h.extras != nil {
			if err := c.driver.ReleasePinned(h.extras); err != nil {
				return err
			}
			h.extras = nil
		}
		c.grow(&d.extras[i], int64(bytes), "masks and penalties of a step")
		var err error
		if h.extras, err = c.driver.AllocatePinned(bytes); first(c.failed, err) != nil {
			return first(c.failed, err)
		}
	}
	return nil
}

// recallRows has the scores of chosen tokens looked up, as they were before they were adjusted, and
// copied to the host. It returns the row of each survey, -1 where none is wanted.
func (c *CUDA) recallRows(x extraRows) (rows []int) {
	wanted := false
	for i := range x.specials {
		row := -1
		if x.specials[i].top >= 0 {
			row, wanted = int(x.specials[i].row), true
		}
		rows = append(rows, row)
	}
	if !wanted {
		return nil
	}
	start(c, &c.recall, len(x.specials), 1, &x.args)
	d := &c.choice
	c.receive(d.hosts[d.turn].surveys[:surveyBytes*len(x.specials)], d.surveys[d.turn].at)
	return rows
}

// survey reads what log-probabilities are computed of.
func (d *choiceData) survey(to *compute.DrawResult, s *surveyResult) {
	to.Score, to.Peak, to.Sum = s.score, s.peak, s.sum
	from := len(d.top)
	for _, key := range s.top[:s.count] {
		order := uint32(key >> 32)
		if order>>31 == 0 {
			order ^= math.MaxInt32
		}
		d.top = append(d.top, compute.TokenScore{Token: parley.Token(uint32(key)), Score: math.Float32frombits(order)})
	}
	to.Top = d.top[from:len(d.top):len(d.top)]
}
