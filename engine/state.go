package engine

import (
	"time"

	"parley"
	"parley/compute"
	"parley/engine/grammar"
	"parley/engine/kv"
	"parley/engine/sample"
	"parley/engine/sched"
)

// A loop is the state of the goroutine that owns the device.
type loop struct {
	cfg   *Config
	inbox *inbox
	stats *counters

	sched *sched.Scheduler
	owner map[*sched.Seq]*choice
	now   time.Time // when the present pass was computed

	buffers  buffers
	masks    masks
	guesses  guesses
	inFlight inFlight
	cache    cacheState
	waits    waitReports
}

// buffers are what passes are computed in.
type buffers struct {
	step    compute.Step
	logits  []float32 // [StepOutputs][Vocab]
	hidden  []float32 // [StepTokens][Width], for embeddings
	scratch sample.Scratch
}

// cacheState is what the loop has done about the cache.
type cacheState struct {
	worked    bool        // since blocks were last accounted for
	published uint64      // the last event that was told
	batches   []copyBatch // in the background, the oldest first
	arrivals  arrivals
}

// arrivalShare is how much of the time of a pass may go to blocks that come before the next one.
const arrivalShare = 1. / 32

// arrivals are how long blocks that come may hold up the next pass, and have done so far. While none is
// computed they may take any time: most is 0.
type arrivals struct{ most, spent time.Duration }

// A copyBatch is copies of one kind that are made while steps are computed.
type copyBatch struct {
	from, to kv.Tier
	blocks   int
	restored []int32 // blocks of the device
}

// newLoop returns a loop with an empty cache, but for what the disk holds.
func newLoop(cfg *Config, in *inbox, stats *counters, vocabulary func() *grammar.Vocabulary) (*loop, error) {
	s, err := sched.New(cfg.Sched)
	if err != nil {
		return nil, err
	}
	s.Adopt(cfg.Found)
	return &loop{
		cfg:     cfg,
		inbox:   in,
		stats:   stats,
		sched:   s,
		owner:   map[*sched.Seq]*choice{},
		buffers: buffers{logits: make([]float32, cfg.Sched.StepOutputs*cfg.Vocab)},
		masks:   masks{vocabulary: vocabulary},
		guesses: newGuesses(cfg),
	}, nil
}

// remove takes all of a job's sequences out of the scheduler.
func (l *loop) remove(j *job) {
	for ; j.open > 0; j.open-- {
		l.cfg.Observe.finish(FinishAbort)
	}
	j.done = true
	for _, c := range j.choices {
		l.drop(c)
	}
}

func (l *loop) drop(c *choice) {
	if l.owner[&c.seq] == c {
		c.seq.Unexpect()
		l.sched.Remove(&c.seq, l.cfg.Now())
		delete(l.owner, &c.seq)
	}
}

func (l *loop) fail(j *job, err error) {
	j.mail.fail(err)
	l.remove(j)
}

func (l *loop) failAll(err error) {
	for _, c := range l.owner {
		c.job.mail.fail(err)
		l.remove(c.job)
	}
}

// deliver puts a delta into the job's mailbox and ends what is complete.
func (l *loop) deliver(c *choice, d parley.Delta) {
	j := c.job
	if d.Finish != "" {
		l.cfg.Observe.finish(string(d.Finish))
		l.drop(c)
		l.guesses.learnLength(len(c.seq.Tokens) - c.seq.Prompt)
		j.open--
	}
	if j.open == 0 {
		j.done = true
		d.Usage = j.usage(l.now)
		l.cfg.Observe.done(j.req, d.Usage)
	}
	if full := j.mail.put(d, j.open == 0); full {
		j.pause(true)
		l.stats.paused()
	}
}
