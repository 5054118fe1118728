package engine

import (
	"parley"
	"parley/compute"
)

// checkEmbed reports what is wrong with a request for an embedding.
func (cfg *Config) checkEmbed(r *parley.Request) error {
	switch {
	case !r.Embed:
		return nil
	case cfg.Width == 0:
		return parley.Invalid("model", "model %s cannot embed", cfg.Model.ID)
	case r.Choices > 1 || r.PromptLogprobs || r.Logprobs || r.Grammar != nil || r.SinkTokens > 0:
		return parley.Invalid("input", "an embedding has no choices, log-probabilities, grammar or sinks")
	}
	return nil
}

// hiddenRows returns where the hidden states of a step are written.
func (l *loop) hiddenRows() []float32 {
	if l.buffers.hidden == nil {
		l.buffers.hidden = make([]float32, l.cfg.Sched.StepTokens*l.cfg.Width)
	}
	return l.buffers.hidden
}

// embed adds the hidden states of a sequence's part of the step to its sum, and
// delivers the mean when the prompt is complete. The sum goes token by token
// in order, so that it does not depend on the chunks.
func (l *loop) embed(c *choice, part *compute.Seq) {
	j, width := c.job, l.cfg.Width
	if part.Past == 0 { // again, if it was preempted on the way
		j.embedding = make([]float64, width)
	}
	for row := part.Row; row < part.Row+part.Rows; row++ {
		for i, v := range l.buffers.hidden[row*width:][:width] {
			j.embedding[i] += float64(v)
		}
	}
	if c.seq.Computed < len(c.seq.Tokens) {
		return
	}
	mean := make([]float32, width)
	for i, sum := range j.embedding {
		mean[i] = float32(sum / float64(len(c.seq.Tokens)))
	}
	j.times.first = l.now
	l.deliver(c, parley.Delta{Embedding: mean, Finish: parley.FinishStop})
}
