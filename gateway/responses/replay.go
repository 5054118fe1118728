package responses

import (
	"encoding/json"

	"parley/gateway/openai"
)

// replay brings a response's output to where it was after an event. It is
// how what a dead process had said is shown: the events are what is left.
func replay(r *openai.Response, raw json.RawMessage) error {
	var e struct {
		OutputIndex *int             `json:"output_index"`
		Item        *openai.Item     `json:"item"`
		Part        *openai.ItemPart `json:"part"`
		Delta       *string          `json:"delta"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
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
		r.Output[at].Parts = []openai.ItemPart{*e.Part}
	case e.Delta != nil:
		grow(&r.Output[at], *e.Delta)
	}
	return nil
}

// grow adds to what an item says.
func grow(i *openai.Item, text string) {
	switch {
	case i.Type == openai.ItemFunctionCall || i.Type == openai.ItemCustomCall:
		i.Arguments += text
	case len(i.Parts) > 0:
		i.Parts[len(i.Parts)-1].Text += text
	}
}

// interrupt marks what had not ended as incomplete.
func interrupt(r *openai.Response) {
	for n := range r.Output {
		if r.Output[n].Status == "in_progress" {
			r.Output[n].Status = "incomplete"
		}
	}
}
