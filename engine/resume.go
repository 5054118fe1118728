package engine

import "parley"

// An answer that was begun elsewhere is resumed here. The prompt is computed like
// any other; where the first token would be chosen, each choice takes over what
// it has said, and has only more tokens to catch up with. Nothing else knows.

// checkResume reports what is wrong with what the choices are said to have said.
func (cfg *Config) checkResume(r *parley.Request) error {
	if len(r.Resume) == 0 {
		return nil
	}
	if n := max(1, r.Choices); len(r.Resume) != n {
		return parley.Invalid("resume",
			"n is %d, but the tokens of %d choices are given: give those of each choice", n, len(r.Resume))
	}
	if r.Embed || r.PromptLogprobs {
		return parley.Invalid("resume",
			"an embedding and log-probabilities of the prompt come before the answer: they cannot be asked for "+
				"once it has begun")
	}
	open := 0
	for i := range r.Resume {
		w := &r.Resume[i]
		if !w.Done {
			open++
		}
		if room := cfg.Model.ContextTokens - len(r.Prompt); len(w.Tokens) > room && r.SinkTokens == 0 {
			return parley.Invalid("resume",
				"choice %d has %d tokens after a prompt of %d, more than a context of %d holds", i, len(w.Tokens),
				len(r.Prompt), cfg.Model.ContextTokens)
		}
		for at, t := range w.Tokens {
			if t < 0 || int(t) >= cfg.Vocab {
				return parley.Invalid("resume", "token %d of choice %d is %d: this model has tokens 0 to %d", at, i, t,
					cfg.Vocab-1)
			}
		}
	}
	if open == 0 {
		return parley.Invalid("resume", "all choices are complete: there is nothing to resume")
	}
	return nil
}

// begin starts the choices where the prompt ends, with its last logits.
func (l *loop) begin(j *job, logits []float32) {
	j.begun, j.times.first = true, l.now
	l.fork(j)
	for i, c := range j.choices {
		switch {
		case i >= len(j.req.Resume) || len(j.req.Resume[i].Tokens) == 0 && !j.req.Resume[i].Done:
			l.choose(c, logits)
		case j.req.Resume[i].Done:
			l.drop(c)
			j.open--
		default:
			l.replay(c, j.req.Resume[i].Tokens)
		}
	}
}

// replay makes said the beginning of a choice. One that turns out to be
// complete is ended, in case that was never delivered.
func (l *loop) replay(c *choice, said []parley.Token) {
	l.sched.Rejoin(&c.seq, l.now)
	for i, tok := range said {
		if c.job.done {
			return
		}
		end, allowed := l.take(c, tok)
		last := i == len(said)-1
		if !allowed || end.finish != "" && !last {
			l.fail(c.job,
				parley.Invalid("resume",
					"choice %d cannot have generated %d tokens: it would have ended, or differed, at token %d",
					c.index, len(said), i))
			return
		}
		if end.finish != "" {
			l.deliver(c, parley.Delta{Choice: c.index, Finish: end.finish, StopString: end.matched})
		}
	}
}

// fork starts the job's other choices from the computed prompt.
func (l *loop) fork(j *job) {
	for _, c := range j.choices[1:] {
		l.sched.Fork(&j.choices[0].seq, &c.seq, l.now)
		l.masks.constrain(c)
		l.owner[&c.seq] = c
	}
}
