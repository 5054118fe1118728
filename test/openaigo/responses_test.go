package openaigo

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/conversations"
	"github.com/openai/openai-go/v3/responses"
)

// answerTo returns a request for a response whose text is always the same.
func answerTo(input string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model:           mini,
		Input:           responses.ResponseNewParamsInputUnion{OfString: openai.String(input)},
		Temperature:     openai.Float(0),
		MaxOutputTokens: openai.Int(40),
	}
}

func testResponses(t *testing.T, s *server) {
	client := s.client()
	made, err := client.Responses.New(t.Context(), answerTo("My name is Ada."))
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.Responses.Get(t.Context(), made.ID, responses.ResponseGetParams{})
	if err != nil || found.OutputText() != made.OutputText() || made.OutputText() == "" {
		t.Errorf("%v: %q and %q", err, found.OutputText(), made.OutputText())
	}
	next := answerTo("What is my name?")
	next.PreviousResponseID = openai.String(made.ID)
	second, err := client.Responses.New(t.Context(), next)
	if err != nil || second.Usage.InputTokens <= made.Usage.InputTokens {
		t.Errorf("%v: %+v", err, second.Usage)
	}
	items, err := client.Responses.InputItems.List(t.Context(), second.ID, responses.InputItemListParams{})
	if err != nil || len(items.Data) != 1 || !strings.Contains(items.Data[0].RawJSON(), `"text":"What is my name?"`) {
		t.Errorf("%v: %+v", err, items)
	}
	if err := client.Responses.Delete(t.Context(), second.ID); err != nil {
		t.Error(err)
	}
}

func testResponseStream(t *testing.T, s *server) {
	client := s.client()
	whole, err := client.Responses.New(t.Context(), answerTo("Tell me a story about a fox."))
	if err != nil {
		t.Fatal(err)
	}
	stream := client.Responses.NewStreaming(t.Context(), answerTo("Tell me a story about a fox."))
	var text strings.Builder
	last := ""
	for n := int64(0); stream.Next(); n++ {
		event := stream.Current()
		if event.SequenceNumber != n {
			t.Errorf("event %d has the number %d", n, event.SequenceNumber)
		}
		if event.Type == "response.output_text.delta" {
			text.WriteString(event.Delta)
		}
		last = event.Type
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text.String() != whole.OutputText() || last != "response.completed" && last != "response.incomplete" {
		t.Errorf("%q ends with %s, want %q", text.String(), last, whole.OutputText())
	}
}

func testConversation(t *testing.T, s *server) {
	client := s.client()
	made, err := client.Conversations.New(t.Context(), conversations.ConversationNewParams{})
	if err != nil {
		t.Fatal(err)
	}
	request := answerTo("My name is Ada.")
	request.Conversation = responses.ResponseNewParamsConversationUnion{OfString: openai.String(made.ID)}
	response, err := client.Responses.New(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	items, err := client.Conversations.Items.List(t.Context(), made.ID, conversations.ItemListParams{})
	if err != nil || len(items.Data) != 2 || items.Data[0].Role != "assistant" ||
		items.Data[0].ID != response.Output[0].ID {
		t.Errorf("%v: %+v", err, items)
	}
	if _, err := client.Conversations.Delete(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
}
