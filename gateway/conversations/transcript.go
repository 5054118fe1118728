package conversations

import (
	"cmp"
	"sync"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/convo"
	"parley/gateway/history"
	"parley/gateway/openai"
)

// A transcript is what an answer has said so far. The goroutine that writes it, the
// one that stores it and those that follow it share it.
type transcript struct {
	mu sync.Mutex
	// choices has one entry, because that is what answers are made of elsewhere:
	// all that was said, what was kept from before included.
	choices [1]answer.CollectedChoice
	// unsaved is set while there is more than was stored.
	unsaved bool
	// progress is how far the prompt is.
	progress *parley.Progress
	// promptTokens and outputTokens count what the model was shown and has said.
	promptTokens, outputTokens int
	// model is the one that answers, which may be another than was asked for.
	model string
	// over says that why is how it ended.
	over bool
	why  error
}

// said is what was said. Others may read it while it is written: it is for who
// writes, or holds mu.
func (w *transcript) said() *answer.CollectedChoice { return &w.choices[0] }

// add takes in pieces of a model's answer to a prompt of promptTokens.
func (w *transcript) add(pieces []answer.Piece, promptTokens int, model string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range pieces {
		w.said().Add(p)
		w.unsaved = w.unsaved || p.Progress == nil
		w.progress = cmp.Or(p.Progress, w.progress)
		w.outputTokens = max(w.outputTokens, p.OutputTokens)
	}
	w.promptTokens, w.model = promptTokens, model
}

// end notes how the answer ended.
func (w *transcript) end(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.why = true, why
}

// snapshot returns how far the answer is.
func (w *transcript) snapshot() snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := snapshot{
		said:         w.said().Piece(),
		promptTokens: w.promptTokens,
		progress:     w.progress,
		model:        w.model,
		over:         w.over,
		why:          w.why,
	}
	now.said.OutputTokens = w.outputTokens
	return now
}

// A snapshot is what there is of an answer, and how it ended if it has.
type snapshot struct {
	said answer.Piece
	// promptTokens is 0 until the model answers.
	promptTokens int
	model        string
	progress     *parley.Progress
	usage        parley.Usage
	timings      *openai.Timings
	over         bool
	why          error
}

// since returns what is in now and was not in before. What was said only grows.
func (now *snapshot) since(before *snapshot) answer.Piece {
	p := answer.Piece{
		OutputTokens: now.said.OutputTokens,
		Reasoning:    now.said.Reasoning[len(before.said.Reasoning):],
		Text:         now.said.Text[len(before.said.Text):],
	}
	if now.progress != before.progress {
		p.Progress = now.progress
	}
	for i, c := range now.said.Calls {
		if i < len(before.said.Calls) {
			old := before.said.Calls[i]
			c = answer.CallPiece{Index: i, Arguments: c.Arguments[len(old.Arguments):], Custom: c.Custom}
			if c.Arguments == "" {
				continue
			}
		}
		p.Calls = append(p.Calls, c)
	}
	return p
}

// pieceOf returns what a stored answer says.
func pieceOf(m *convo.Message) (p answer.Piece) {
	for _, item := range history.ItemsOf(m) {
		switch item.Type {
		case openai.ItemMessage:
			p.Text += item.Text()
		case openai.ItemReasoning:
			p.Reasoning += item.Text()
		case openai.ItemFunctionCall, openai.ItemCustomCall:
			p.Calls = append(p.Calls, answer.CallPiece{
				Index:     len(p.Calls),
				ID:        item.CallID,
				Name:      item.Name,
				Arguments: item.Arguments,
				Custom:    item.Type == openai.ItemCustomCall,
			})
		}
	}
	p.Finish = m.Finish
	return p
}
