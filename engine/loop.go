package engine

import (
	"fmt"
	"runtime/debug"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/grammar"
	"parley/engine/sample"
	"parley/engine/sched"
	"parley/model/weights"
)

// A loop is the state of the goroutine that owns the device.
type loop struct {
	e       *Engine
	sched   *sched.Scheduler
	owner   map[*sched.Seq]*choice
	step    compute.Step
	logits  []float32 // [StepOutputs][Vocab]
	scratch sample.Scratch
	now     time.Time // when the present pass was computed
	masker  *grammar.Masker
	masked  []float32 // scores of the tokens that a grammar allows
	hidden  []float32 // [StepTokens][Width], for embeddings
	worked  bool      // since blocks were last accounted for

	published uint64 // the last event that was told

	reported time.Time // when those that wait were last told so

	guesses guesses
	drafter *drafter // nil without a draft network

	air   []*flight // launched, and not landed yet; the oldest first
	flown int       // passes since one was last computed without being launched
	ended time.Time // the last pass; zero if nothing is computed after it at once
}

func (l *loop) init(e *Engine) error {
	s, err := sched.New(e.cfg.Sched)
	if err != nil {
		return err
	}
	s.Adopt(e.cfg.Found)
	*l = loop{e: e, sched: s, owner: map[*sched.Seq]*choice{},
		logits: make([]float32, e.cfg.Sched.StepOutputs*e.cfg.Vocab)}
	l.guesses.typical, l.drafter = typicalFirst, newDrafter(&e.cfg)
	return nil
}

// run goes round until the engine is closed.
func (e *Engine) run() {
	defer close(e.stopped)
	debug.SetPanicOnFault(true) // a model file cut short fails the step, not the process
	for !e.loop.round() {
	}
	e.loop.learned(true)
}

// learned says what is known of how long passes take.
func (l *loop) learned(last bool) {
	if tell, pace := l.e.cfg.Learned, l.sched.Pace(); tell != nil && pace.Known() {
		tell(pace, last)
	}
}

// round computes one pass, or sleeps until there is something to compute. It
// reports whether the engine is closed.
func (l *loop) round() (closed bool) {
	defer func() {
		if p := recover(); p != nil {
			l.restart(panicError(p))
		}
	}()
	if l.attend() {
		return true
	}
	l.publish()
	l.answerLooks()
	l.speculate()
	now := l.e.cfg.Now()
	plan := l.sched.Next(now)
	l.expire(plan.Expired)
	l.reportWaiting(now)
	switch {
	case len(plan.Parts)+len(plan.Copies) > 0:
		l.pass(plan)
	case len(l.air) > 0:
		l.land()
	default:
		l.ended = time.Time{}
		l.idle()
	}
	return false
}

// restart begins anew after a fault outside a pass, when the scheduler's state
// cannot be trusted any more: every request fails, and the cache is empty.
func (l *loop) restart(err error) {
	l.e.cfg.Log.Error("engine restarted", "model", l.e.cfg.Model.ID, "error", err, "sequences", len(l.owner))
	for _, c := range l.owner {
		c.job.done = true
		c.job.mail.fail(fmt.Errorf("engine: %w", err))
	}
	l.e.mu.Lock()
	l.e.stats.Failures++
	l.e.mu.Unlock()
	l.discard()
	l.e.cfg.Found = nil // what the disk holds by now is not known
	l.e.cfg.Sched.Pace = l.sched.Pace()
	if err := l.init(l.e); err != nil {
		panic(err) // the same configuration was good before
	}
	l.forgetAll()
}

// attend takes in the jobs that joined and lets go of those that left. It
// reports whether the engine is closed, in which case every job has failed.
func (l *loop) attend() (closed bool) {
	e := l.e
	e.mu.Lock()
	joining, leaving, resumed, asked := e.joining, e.leaving, e.resumed, e.asked
	e.joining, e.leaving, e.resumed, e.asked, closed = nil, nil, nil, nil, e.closed
	e.stats.Load = l.sched.Load()
	e.mu.Unlock()

	for _, j := range joining {
		j.open = len(j.choices)
		l.owner[&j.choices[0].seq] = j.choices[0]
		l.constrain(j.choices[0])
		l.sched.Add(&j.choices[0].seq, j.arrived)
	}
	for _, j := range leaving {
		l.remove(j)
	}
	for _, j := range resumed {
		j.pause(false)
	}
	for _, j := range asked {
		if j.started.IsZero() && !j.done {
			l.fail(j, parley.Errorf(parley.Withdrawn, "the request was taken back before it had begun"))
		}
	}
	if closed {
		l.failAll(parley.Errorf(parley.Unavailable, "model %s is shutting down", e.cfg.Model.ID))
	}
	return closed
}

// remove takes all of a job's sequences out of the scheduler.
func (l *loop) remove(j *job) {
	for ; j.open > 0; j.open-- {
		l.e.cfg.Observe.finish(FinishAbort)
	}
	j.done = true
	for _, c := range j.choices {
		l.drop(c)
	}
}

func (l *loop) drop(c *choice) {
	if l.owner[&c.seq] == c {
		c.seq.Unexpect()
		l.sched.Remove(&c.seq, l.e.cfg.Now())
		delete(l.owner, &c.seq)
	}
}

// expire fails the jobs of sequences whose deadline has passed.
func (l *loop) expire(seqs []*sched.Seq) {
	for _, q := range seqs {
		if c := l.owner[q]; c != nil {
			l.fail(c.job, errExpired())
		}
	}
}

func (l *loop) failAll(err error) {
	for _, c := range l.owner {
		c.job.mail.fail(err)
		l.remove(c.job)
	}
}

// pass computes the plan and delivers the results. If it fails, the requests of this
// pass fail and the loop continues.
func (l *loop) pass(plan *sched.Plan) {
	defer func() {
		if p := recover(); p != nil {
			l.abandon(plan, panicError(p))
		}
	}()
	l.worked = true
	whole := l.copy(plan.Copies)
	if whole && len(plan.Parts) > 0 && l.mayFly(plan) {
		l.launch(plan)
		if len(l.air) > 1 {
			l.land()
		}
		return
	}
	l.land()
	plan.Drop(func(q *sched.Seq) bool { return l.owner[q] == nil })
	if !whole || len(plan.Parts) == 0 {
		return
	}
	l.flown = 0
	l.draft(plan)
	began := l.e.cfg.Now()
	l.expose(began)
	l.assemble(plan.Parts, began)
	if err := l.step.Validate(l.e.cfg.Sched.Blocks); err != nil {
		l.abandon(plan, err)
		return
	}
	l.e.cfg.Forward(&l.step, l.logits)
	l.now = l.e.cfg.Now()
	took := l.now.Sub(began)
	l.ended = l.now
	l.sched.Commit(plan, took)
	l.count(len(plan.Parts), plan.Work.Rows, took)
	rows := l.logits
	for i, p := range plan.Parts {
		if c := l.owner[p.Seq]; c != nil && c.job.req.Embed {
			l.embed(c, &l.step.Seqs[i])
		} else if c != nil {
			l.settle(c, p, rows[:p.Outputs*l.e.cfg.Vocab])
		}
		rows = rows[p.Outputs*l.e.cfg.Vocab:]
	}
}

// abandon fails the requests of a pass.
func (l *loop) abandon(plan *sched.Plan, err error) {
	l.e.cfg.Log.Error("a step failed", "model", l.e.cfg.Model.ID, "error", err, "sequences", len(plan.Parts))
	err = fmt.Errorf("engine: the step failed: %w", err)
	l.crash(err)
	for _, p := range plan.Parts {
		if c := l.owner[p.Seq]; c != nil {
			l.fail(c.job, err)
		}
	}
	l.e.mu.Lock()
	l.e.stats.Failures++
	l.e.mu.Unlock()
}

// panicError returns the error for a recovered panic: with the stack for the
// log, and with a message for the caller if the model's file is the cause.
func panicError(recovered any) error {
	if err := weights.FaultError(recovered); err != nil {
		return fmt.Errorf("%w (%v)", err, recovered)
	}
	return fmt.Errorf("panic: %v\n%s", recovered, debug.Stack())
}

// assemble writes the plan as a step for the device.
func (l *loop) assemble(plan []sched.Part, now time.Time) {
	s := &l.step
	s.Tokens, s.Seqs, s.Outputs, s.Hidden = s.Tokens[:0], s.Seqs[:0], s.Outputs[:0], nil
	for _, p := range plan {
		c := l.owner[p.Seq]
		if c.job.req.Embed {
			s.Hidden = l.hiddenRows()
		}
		if c.job.started.IsZero() {
			c.job.started = now
		}
		from := p.Seq.Computed
		s.Seqs = append(s.Seqs, compute.Seq{Row: len(s.Tokens), Rows: p.Tokens, Past: from, Blocks: p.Seq.Table.Blocks})
		s.Tokens = append(s.Tokens, c.seq.Tokens[from:from+p.Tokens-p.Draft]...)
		if c.seq.Coming > 0 {
			s.Tokens[len(s.Tokens)-1] = compute.Chosen(c.output)
		}
		s.Tokens = append(s.Tokens, c.guess[:p.Draft]...)
		for i := range p.Outputs {
			s.Outputs = append(s.Outputs, int32(len(s.Tokens)-p.Outputs+i))
		}
	}
}

func (l *loop) count(sequences, rows int, took time.Duration) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.e.stats.Steps++
	l.e.stats.StepTokens += uint64(rows)
	l.e.stats.StepTime += took
	l.e.cfg.Observe.step(sequences, rows, took)
}

// settle takes the logits of one part: log-probabilities of the prompt, and if
// the sequence has caught up, its next token.
func (l *loop) settle(c *choice, p sched.Part, rows []float32) {
	vocab := l.e.cfg.Vocab
	q := &c.seq
	if q.EveryRow && q.Computed <= q.Prompt {
		if err := l.scorePrompt(c, p, rows); err != nil {
			l.fail(c.job, err)
			return
		}
	}
	if q.Computed < len(q.Tokens) {
		l.reportReading(c)
		return
	}
	if !c.job.begun {
		l.reportReading(c)
		q.EveryRow = false
		l.begin(c.job, rows[len(rows)-vocab:])
		return
	}
	l.verify(c, p, rows[len(rows)-(1+p.Draft)*vocab:])
}

// verify chooses the next token, and as long as it is the one that was
// guessed, the one after it.
func (l *loop) verify(c *choice, p sched.Part, rows []float32) {
	vocab, right := l.e.cfg.Vocab, 0
	for {
		tok, more := l.choose(c, rows[:vocab])
		if !more || right == p.Draft || tok != c.guess[right] || c.seq.Computed == 0 {
			break
		}
		right++
		rows = rows[vocab:]
	}
	c.seq.Settle()
	l.learnGuesses(c, p.Draft, right)
}

func (l *loop) fail(j *job, err error) {
	j.mail.fail(err)
	l.remove(j)
}

// scorePrompt records the log-probability of each prompt token that follows a
// computed one.
func (l *loop) scorePrompt(c *choice, p sched.Part, rows []float32) error {
	from := c.seq.Computed - p.Tokens
	next := c.seq.Tokens[from+1 : min(c.seq.Computed+1, c.seq.Prompt)]
	if from == 0 { // again, if it was preempted on the way
		c.job.promptLogprobs = c.job.promptLogprobs[:0]
	}
	var err error
	c.job.promptLogprobs, err = sample.AppendLogprobs(c.job.promptLogprobs, rows[:len(next)*l.e.cfg.Vocab], next,
		c.job.req.TopLogprobs, &l.scratch)
	return err
}

// fork starts the job's other choices from the computed prompt.
func (l *loop) fork(j *job) {
	for _, c := range j.choices[1:] {
		l.sched.Fork(&j.choices[0].seq, &c.seq, l.now)
		l.constrain(c)
		l.owner[&c.seq] = c
	}
}

// choose picks the choice's next token and delivers it. It reports whether
// the choice continues after it.
func (l *loop) choose(c *choice, logits []float32) (tok parley.Token, more bool) {
	j := c.job
	if j.done {
		return 0, false
	}
	tok, err := c.sampler.Choose(l.scores(c, logits), &l.scratch)
	if err != nil {
		l.fail(j, fmt.Errorf("engine: %w", err))
		return 0, false
	}
	if c.matcher != nil && j.req.FinishGrammar {
		tok = c.inTime(tok)
	}
	return tok, l.say(c, tok, logits)
}

// say makes tok, chosen from logits, the next token of the choice and delivers it. It
// reports whether the choice has more to say.
func (l *loop) say(c *choice, tok parley.Token, logits []float32) (more bool) {
	j := c.job
	end, _ := l.take(c, tok)
	j.output++
	l.observeToken(c)

	d := parley.Delta{Choice: c.index, Tokens: []parley.Token{tok}, Finish: end.finish, StopString: end.matched}
	if j.req.Logprobs {
		d.Logprobs = []parley.Logprob{sample.Logprobs(logits, tok, j.req.TopLogprobs, &l.scratch)}
	}
	d.PromptLogprobs, j.promptLogprobs = j.promptLogprobs, nil
	l.deliver(c, d)
	return d.Finish == ""
}

func (l *loop) observeToken(c *choice) {
	first, since := c.wrote.IsZero(), c.wrote
	if first {
		since = c.job.arrived
	}
	l.e.cfg.Observe.token(first, l.now.Sub(since))
	c.wrote = l.now
}

// deliver puts a delta into the job's mailbox and ends what is complete.
func (l *loop) deliver(c *choice, d parley.Delta) {
	j := c.job
	if d.Finish != "" {
		l.e.cfg.Observe.finish(string(d.Finish))
		l.drop(c)
		l.guesses.learnLength(len(c.seq.Tokens) - c.seq.Prompt)
		j.open--
	}
	if j.open == 0 {
		j.done = true
		d.Usage = j.usage(l.now)
		l.e.cfg.Observe.done(j.req, d.Usage)
	}
	if full := j.mail.put(d, j.open == 0); full {
		j.pause(true)
		l.e.mu.Lock()
		l.e.stats.Pauses++
		l.e.mu.Unlock()
	}
}
