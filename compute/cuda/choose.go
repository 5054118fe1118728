package cuda

import (
	"math"

	"parley"
	"parley/compute"
	"parley/compute/libcuda"
)

// What the kernels of choose.cu are given; the fields are in the order there.
type (
	drawArgs struct {
		seed, choice, position     uint64
		perUnit, topP, minP, limit float64
		topK, greedy               int32
	}
	chooseArgs struct {
		logits, draws, roots, chosen libcuda.Address
		vocab                        int32
	}
)

// drawBytes is the size of drawArgs.
const drawBytes = 64

// horizonSteps is from which distance below the best score on every weight is 0.
const horizonSteps = 43 * compute.DrawSteps

func (d *choiceData) close(by driver) error {
	var err error
	for i := range d.hosts {
		h := &d.hosts[i]
		for _, memory := range [][]byte{h.draws, h.chosen, h.extras, h.surveys} {
			if memory != nil {
				err = first(err, by.ReleasePinned(memory))
			}
		}
		d.hosts[i] = choiceHost{}
	}
	return err
}

// reserveChoices makes room for the choices of a step.
func (c *CUDA) reserveChoices(outputs int) error {
	d := &c.choice
	if d.roots.bytes == 0 {
		roots := compute.DrawRoots()
		at := c.grow(&d.roots, 8*compute.DrawSteps, "the roots of weights")
		if err := first(c.failed, c.driver.Upload(at, bytesOf(roots[:])), c.driver.Synchronize()); err != nil {
			return err
		}
	}
	outputs = max(outputs, c.limits.Outputs)
	if len(d.hosts[0].chosen) >= 4*outputs {
		return nil
	}
	if err := first(c.driver.Synchronize(), d.close(c.driver)); err != nil {
		return err
	}
	for i := range d.hosts {
		c.grow(&d.draws[i], int64(drawBytes*outputs), "the draws of a step")
		c.grow(&d.chosen[i], int64(4*outputs), "the tokens of a step")
		c.grow(&d.surveys[i], int64(surveyBytes*outputs), "the log-probabilities of a step")
		var errs [3]error
		d.hosts[i].draws, errs[0] = c.driver.AllocatePinned(drawBytes * outputs)
		d.hosts[i].chosen, errs[1] = c.driver.AllocatePinned(4 * outputs)
		d.hosts[i].surveys, errs[2] = c.driver.AllocatePinned(surveyBytes * outputs)
		if err := first(c.failed, errs[0], errs[1], errs[2]); err != nil {
			return err
		}
	}
	return nil
}

// drawTokens draws a token from each row of the logits.
func (c *CUDA) drawTokens(draws []compute.Draw, vocab int) {
	d, n := &c.choice, len(draws)
	c.must(c.reserveChoices(n))
	d.turn = 1 - d.turn
	run := choiceRun{turn: d.turn, outputs: n}
	if n > 0 {
		host, at := &d.hosts[d.turn], d.draws[d.turn].at
		args := view[drawArgs](host.draws)[:n]
		for i := range draws {
			args[i] = drawOf(&draws[i])
		}
		c.send(at, bytesOf(args))
		extra := c.prepareRows(draws, vocab)
		start(c, &c.choose, n, 1, &chooseArgs{
			logits: c.logits.at,
			draws:  at,
			roots:  d.roots.at,
			chosen: d.chosen[d.turn].at,
			vocab:  int32(vocab),
		})
		run.surveyed = c.recallRows(extra)
		c.receive(host.chosen[:4*n], d.chosen[d.turn].at)
	}
	c.must(c.driver.Mark(d.turn))
	d.air = append(d.air, run)
}

func drawOf(d *compute.Draw) drawArgs {
	a := drawArgs{
		seed:     d.Seed,
		choice:   d.Choice,
		position: d.Position,
		perUnit:  d.StepsPerUnit(),
		topP:     d.TopP,
		minP:     d.MinPSteps,
		limit:    math.Nextafter(horizonSteps, 0),
		topK:     int32(d.TopK),
	}
	if d.TopP == 1 {
		a.limit = min(a.limit, d.MinPSteps)
	}
	if d.Greedy {
		a.greedy = 1
	}
	return a
}

// AwaitChosen waits for the oldest step that chose tokens.
func (c *CUDA) AwaitChosen() []compute.DrawResult {
	d := &c.choice
	run := d.air[0]
	d.air = append(d.air[:0], d.air[1:]...)
	c.must(c.driver.Await(run.turn))
	d.choices, d.top = d.choices[:0], d.top[:0]
	for _, t := range view[int32](d.hosts[run.turn].chosen)[:run.outputs] {
		d.choices = append(d.choices, compute.DrawResult{TokenScore: compute.TokenScore{Token: parley.Token(t)}})
	}
	for i, row := range run.surveyed {
		if row >= 0 && d.choices[row].Token >= 0 {
			d.survey(&d.choices[row], &view[surveyResult](d.hosts[run.turn].surveys)[i])
		}
	}
	return d.choices
}
