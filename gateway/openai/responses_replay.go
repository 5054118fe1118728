package openai

import "encoding/json"

// Replay brings the response's output to where it was after an event. It is
// how what a dead process had said is shown: the events are what is left.
func (r *Response) Replay(event json.RawMessage) error {
	var e responseEvent
	if err := json.Unmarshal(event, &e); err != nil {
		return err
	}
	if e.OutputIndex == nil {
		return nil
	}
	at := *e.OutputIndex
	switch {
	case e.Item != nil && at == len(r.Output):
		r.Output = append(r.Output, *e.Item)
	case at < 0 || at >= len(r.Output):
	case e.Item != nil:
		r.Output[at] = *e.Item
	case e.Part != nil:
		r.Output[at].Parts = []ItemPart{*e.Part}
	case e.Delta != nil:
		r.Output[at].grow(*e.Delta)
	}
	return nil
}

// grow adds to what an item says.
func (i *Item) grow(text string) {
	switch {
	case i.Type == ItemFunctionCall:
		i.Arguments += text
	case len(i.Parts) > 0:
		i.Parts[len(i.Parts)-1].Text += text
	}
}

// Interrupt marks what had not ended as incomplete.
func (r *Response) Interrupt() {
	for n := range r.Output {
		if r.Output[n].Status == "in_progress" {
			r.Output[n].Status = "incomplete"
		}
	}
}

// UnmarshalJSON reads a part as it was written.
func (p *ItemPart) UnmarshalJSON(raw []byte) error {
	var shape struct {
		Type     string         `json:"type"`
		Text     string         `json:"text"`
		Refusal  string         `json:"refusal"`
		Logprobs []TokenLogprob `json:"logprobs"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return err
	}
	*p = ItemPart{Type: shape.Type, Text: shape.Text + shape.Refusal, Logprobs: shape.Logprobs}
	return nil
}
