package gateway

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// nearTries is how often a question waits for others whose answer does not
// come, before it is answered for itself.
const nearTries = 3

// nearHeader tells a client that the answer is that of another question, and
// how similar the two are.
const nearHeader = "X-Parley-Near-Duplicate"

// nearby lets questions wait for one that is nearly the same, and take its
// answer.
type nearby struct {
	now func() time.Time
	mu  sync.Mutex
	set nearSet
}

// A nearWorker answers one call, by itself or with the answer to another's
// question.
type nearWorker struct {
	parley.Worker
	near     *nearby
	question nearQuestion
	// embedding asks for the vector of the question.
	embedding *parley.Request
	// similarity is that of the other question, set before the first delta of its
	// answer is given; 0 if the answer is its own.
	similarity float64
}

// compare lets the call take the answer to another's question, for which the
// worker would be asked job. Only what a user says is compared with others, and
// only where a client waits.
func (c *call) compare(m *model, request *openai.ChatRequest, job *parley.Request) error {
	last := request.Messages[len(request.Messages)-1]
	if c.gateway.near == nil || c.background || c.beside || last.Role != "user" || !request.OpenTurn || request.Sinks > 0 {
		return nil
	}
	tokens, err := m.encode("messages", last.Content, token.Options{AddSpecial: true})
	if err != nil || len(tokens) == 0 || len(tokens) > min(nearQuestionTokens, m.ContextTokens-1) {
		return err
	}
	rest, err := nearRest(ownerOf(c).Tenant, request, job)
	if err != nil {
		return err
	}
	ask := &parley.Request{ID: job.ID + "-near", Model: m.ID, Prompt: tokens, Embed: true, Class: job.Class, Tenant: job.Tenant, Salt: job.Salt, Deadline: job.Deadline}
	c.near = &nearWorker{near: c.gateway.near, question: nearQuestion{rest: rest, numbers: numbersIn(last.Content)}, embedding: ask}
	return nil
}

// around returns the worker that asks inner, or has the answer from another.
func (w *nearWorker) around(inner parley.Worker) parley.Worker {
	if w == nil {
		return inner
	}
	w.Worker = inner
	return w
}

// Generate answers r: with another's answer if there is one that is near, else
// as the first of its kind. A question that cannot be compared is simply
// answered.
func (w *nearWorker) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		began := w.near.now()
		if !w.embed(ctx) {
			w.Worker.Generate(ctx, r)(yield)
			return
		}
		for range nearTries {
			found, similarity, mine := w.near.join(&w.question)
			if mine != nil {
				w.lead(ctx, r, mine, yield)
				return
			}
			if found == nil {
				break
			}
			select {
			case <-found.over:
			case <-ctx.Done():
				yield(parley.Delta{}, context.Cause(ctx))
				return
			}
			if deltas := w.near.answerTo(found); deltas != nil {
				w.similarity = similarity
				w.replay(deltas, len(r.Prompt), w.near.now().Sub(began), yield)
				return
			}
		}
		w.Worker.Generate(ctx, r)(yield)
	}
}

// embed fetches the question's vector.
func (w *nearWorker) embed(ctx context.Context) (ok bool) {
	for d, err := range w.Worker.Generate(parley.WithUptake(ctx, nil), w.embedding) {
		if err != nil {
			return false
		}
		if d.Embedding != nil {
			w.question.vector, ok = unit(d.Embedding)
		}
	}
	return ok
}

// join finds the entry to wait for, or makes q one that others wait for. Both
// are nil if there is no room for one more.
func (n *nearby) join(q *nearQuestion) (found *nearEntry, similarity float64, mine *nearEntry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if found, similarity = n.set.find(q, n.now()); found != nil {
		return found, similarity, nil
	}
	return nil, 0, n.set.lead(q)
}

// answerTo returns the answer to an entry that is over, nil if it was given up.
func (n *nearby) answerTo(e *nearEntry) []parley.Delta {
	n.mu.Lock()
	defer n.mu.Unlock()
	return e.deltas
}

// lead answers r itself. Whatever becomes of that, nobody waits for it longer
// than it lasts: those who wait take a complete answer, or do without.
func (w *nearWorker) lead(ctx context.Context, r *parley.Request, e *nearEntry, yield func(parley.Delta, error) bool) {
	var deltas []parley.Delta
	tokens, complete := 0, false
	defer func() { w.near.end(e, deltas, tokens, complete) }()
	for d, err := range w.Worker.Generate(parley.WithUptake(ctx, nil), r) { // as the deltas are kept
		deltas = append(deltas, d)
		tokens += d.Count()
		complete = err == nil && d.Usage != nil
		if !yield(d, err) || err != nil {
			return
		}
	}
}

// end says how an entry ended to those who wait for it.
func (n *nearby) end(e *nearEntry, deltas []parley.Delta, tokens int, complete bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !complete || !n.set.keep(e, deltas, tokens, n.now()) {
		n.set.drop(e)
	}
	close(e.over)
}

// replay says an answer again, to a prompt of so many tokens that waited for it.
func (w *nearWorker) replay(deltas []parley.Delta, promptTokens int, waited time.Duration, yield func(parley.Delta, error) bool) {
	for _, d := range deltas {
		if d.Usage != nil {
			d.Usage = &parley.Usage{PromptTokens: promptTokens, CachedTokens: promptTokens, OutputTokens: d.Usage.OutputTokens, Queued: waited, Similarity: w.similarity}
		}
		if !yield(d, nil) {
			return
		}
	}
}

// seeNear tells of an answer that was another's, before its first piece is sent.
func (c *call) seeNear() {
	if c.near == nil || c.near.similarity == 0 || c.story.near != 0 {
		return
	}
	c.story.near = c.near.similarity
	c.gateway.metrics.nearDuplicates.Inc()
	if c.ResponseWriter != nil && c.status == 0 { // an answer in the background has no header
		c.Header().Set(nearHeader, strconv.FormatFloat(c.story.near, 'f', 4, 64))
	}
}

// newNearby returns nil if questions are not compared.
func newNearby(config *Config) *nearby {
	if config.NearDuplicates == 0 {
		return nil
	}
	return &nearby{now: config.Now, set: nearSet{least: config.NearDuplicates}}
}

// checkNear says what is wrong with a similarity from which on questions are
// taken for the same.
func checkNear(least float64) error {
	if least == 0 || least >= 0.5 && least <= 1 {
		return nil
	}
	return fmt.Errorf("NearDuplicates is %v: it must be 0 (off) or 0.5 to 1", least)
}
