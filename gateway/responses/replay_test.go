package responses

import (
	"encoding/json"
	"testing"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/openai"

	"github.com/google/go-cmp/cmp"
)

// TestReplay rebuilds, after every event, what the log itself holds.
func TestReplay(t *testing.T) {
	l := newEventLog(openai.Response{ID: "resp_x"})
	l.Begin()
	l.Think("Hm")
	l.Say("A", nil)
	l.Say("b", nil)
	l.Call(answer.CallPiece{ID: "c", Name: "f", Arguments: "{"})
	l.Call(answer.CallPiece{Arguments: "}"})
	l.Call(answer.CallPiece{Index: 1, ID: "d", Name: "g"})
	l.Call(answer.CallPiece{Index: 2, ID: "e", Name: "h", Arguments: "a", Custom: true})
	l.Call(answer.CallPiece{Index: 2, Arguments: "b", Custom: true})
	l.Complete("", parley.Usage{}, 5)
	first, events := l.Take()
	if first != 0 || len(l.Peek()) != 0 {
		t.Errorf("the first event has the number %d", first)
	}
	var got openai.Response
	for n, e := range events {
		if err := replay(&got, e); err != nil {
			t.Fatalf("%v: %s", err, e)
		}
		var numbered struct {
			Sequence int `json:"sequence_number"`
		}
		if json.Unmarshal(e, &numbered) != nil || numbered.Sequence != n {
			t.Errorf("event %d: %s", n, e)
		}
	}
	if diff := cmp.Diff(l.Response.Output, got.Output); diff != "" {
		t.Error(diff)
	}
	if len(got.Output) != 5 || got.Output[4].Arguments != "ab" ||
		got.Output[2].Arguments != "{}" || got.Output[1].Text() != "Ab" {
		t.Errorf("got %+v", got.Output)
	}
	if id, ok := openai.ResponseOfItem(got.Output[3].ID); !ok || id != "resp_x" {
		t.Errorf("%s is of %s", got.Output[3].ID, id)
	}
}

func FuzzReplay(f *testing.F) {
	f.Add(
		[]byte(
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","role":"assistant","content":[]}}`), []byte(`{"output_index":0,"delta":"x"}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var r openai.Response
		for _, e := range [][]byte{one, two, one} {
			if replay(&r, e) != nil {
				return
			}
		}
		interrupt(&r)
		if _, err := openai.Encode(r.Output); err != nil {
			t.Error(err)
		}
	})
}
