package openaigo

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// TestClient runs everything against one server.
func TestClient(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *server)
	}{
		{"Models", testModels},
		{"Chat", testChat},
		{"ChatChoices", testChatChoices},
		{"ChatLogprobs", testChatLogprobs},
		{"Stream", testStream},
		{"StreamsTogether", testStreamsTogether},
		{"Completions", testCompletions},
		{"CompletionStream", testCompletionStream},
		{"Embeddings", testEmbeddings},
		{"Tools", testTools},
		{"ToolStream", testToolStream},
		{"JSONSchema", testJSONSchema},
		{"Responses", testResponses},
		{"ResponseStream", testResponseStream},
		{"Conversation", testConversation},
		{"Errors", testErrors},
		{"CancelStream", testCancelStream},
		{"CancelWhole", testCancelWhole},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

// ask returns a request for one user turn whose answer is always the same.
func ask(content string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:       mini,
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage(content)},
		Temperature: openai.Float(0),
		MaxTokens:   openai.Int(40),
	}
}

func testModels(t *testing.T, s *server) {
	page, err := s.client().Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range page.Data {
		ids = append(ids, m.ID)
	}
	if got := strings.Join(ids, " "); got != polly+" "+mini {
		t.Errorf("models %q", got)
	}
	m, err := s.client().Models.Get(t.Context(), mini)
	if err != nil {
		t.Fatal(err)
	}
	if m.ID != mini || m.Object != "model" || m.Created == 0 || m.OwnedBy == "" {
		t.Errorf("model %s", m.RawJSON())
	}
}

func testChat(t *testing.T, s *server) {
	var response *http.Response
	answer, err := s.client().Chat.Completions.New(t.Context(), ask("What is the capital of France?"),
		option.WithResponseInto(&response))
	if err != nil {
		t.Fatal(err)
	}
	choice := answer.Choices[0]
	if choice.Message.Content == "" || choice.Message.Role != "assistant" || choice.FinishReason != "stop" {
		t.Errorf("choice %s", choice.RawJSON())
	}
	if !strings.HasPrefix(answer.ID, "chatcmpl-") || answer.Model != mini || answer.Object != "chat.completion" {
		t.Errorf("answer %s", answer.RawJSON())
	}
	checkUsage(t, answer.Usage)
	if id := response.Header.Get("X-Request-Id"); !strings.HasPrefix(id, "req_") {
		t.Errorf("request id %q", id)
	}
}

func checkUsage(t *testing.T, u openai.CompletionUsage) {
	t.Helper()
	if u.PromptTokens <= 0 || u.CompletionTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage %s", u.RawJSON())
	}
	if !u.PromptTokensDetails.JSON.CachedTokens.Valid() || !u.CompletionTokensDetails.JSON.ReasoningTokens.Valid() {
		t.Errorf("usage without details: %s", u.RawJSON())
	}
}

func testChatChoices(t *testing.T, s *server) {
	body := ask("Tell me a story.")
	body.N, body.Seed, body.Temperature = openai.Int(3), openai.Int(5), openai.Float(1)
	var texts [2]string
	for i := range texts {
		answer, err := s.client().Chat.Completions.New(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Choices) != 3 {
			t.Fatalf("%d choices, expected 3", len(answer.Choices))
		}
		for _, c := range answer.Choices {
			texts[i] += c.Message.Content + "\n"
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("the same seed gave\n%s\nand\n%s", texts[0], texts[1])
	}
}

func testChatLogprobs(t *testing.T, s *server) {
	body := ask("Tell me a story.")
	body.Logprobs, body.TopLogprobs = openai.Bool(true), openai.Int(4)
	answer, err := s.client().Chat.Completions.New(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, l := range answer.Choices[0].Logprobs.Content {
		text.WriteString(l.Token)
		if l.Logprob > 0 || len(l.TopLogprobs) != 4 || l.TopLogprobs[0].Token != l.Token {
			t.Errorf("logprob %s", l.RawJSON())
		}
	}
	if text.String() != answer.Choices[0].Message.Content {
		t.Errorf("tokens spell %q, the answer is %q", text.String(), answer.Choices[0].Message.Content)
	}
}

// accumulate reads a stream to its end with the client's accumulator.
func accumulate(ctx context.Context, t *testing.T, s *server,
	body openai.ChatCompletionNewParams) *openai.ChatCompletionAccumulator {
	t.Helper()
	stream := s.client().Chat.Completions.NewStreaming(ctx, body)
	defer stream.Close()
	acc := &openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Errorf("the accumulator refuses %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
	return acc
}

func testStream(t *testing.T, s *server) {
	body := ask("Tell me a story about a fox.")
	whole, err := s.client().Chat.Completions.New(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	body.StreamOptions.IncludeUsage = openai.Bool(true)
	acc := accumulate(t.Context(), t, s, body)
	if len(acc.Choices) != 1 {
		t.Fatalf("%d choices, expected 1", len(acc.Choices))
	}
	got, want := acc.Choices[0], whole.Choices[0]
	if got.Message.Content != want.Message.Content || got.FinishReason != want.FinishReason ||
		got.Message.Role != "assistant" {
		t.Errorf("streamed %q (%s), whole %q (%s)", got.Message.Content, got.FinishReason, want.Message.Content,
			want.FinishReason)
	}
	if acc.Usage.CompletionTokens != whole.Usage.CompletionTokens ||
		acc.Usage.PromptTokens != whole.Usage.PromptTokens {
		t.Errorf("streamed usage %+v, whole %s", acc.Usage, whole.Usage.RawJSON())
	}
	body.StreamOptions = openai.ChatCompletionStreamOptionsParam{}
	if acc := accumulate(t.Context(), t, s, body); acc.Usage.TotalTokens != 0 {
		t.Errorf("usage %+v was not asked for", acc.Usage)
	}
}

func testStreamsTogether(t *testing.T, s *server) {
	things := []string{"a fox", "the moon", "a boat", "two friends", "a king", "the rain", "an old tree", "a lost shoe"}
	content := func(thing string) string {
		acc := accumulate(t.Context(), t, s, ask("Tell me a story about "+thing+"."))
		if len(acc.Choices) != 1 {
			t.Errorf("%d choices, expected 1", len(acc.Choices))
			return ""
		}
		return acc.Choices[0].Message.Content
	}
	alone, together := make([]string, len(things)), make([]string, len(things))
	for i, thing := range things {
		alone[i] = content(thing)
	}
	var streams sync.WaitGroup
	for i, thing := range things {
		streams.Go(func() { together[i] = content(thing) })
	}
	streams.Wait()
	for i, thing := range things {
		if together[i] != alone[i] || alone[i] == "" {
			t.Errorf("%s: together %q, alone %q", thing, together[i], alone[i])
		}
	}
}

func testErrors(t *testing.T, s *server) {
	unknown := ask("Hi")
	unknown.Model = "nobody"
	hot := ask("Hi")
	hot.Temperature = openai.Float(3)
	long := ask(strings.Repeat("fox ", 5000))
	for _, c := range []struct {
		name              string
		body              openai.ChatCompletionNewParams
		status            int
		code, param, kind string
	}{
		{"unknown model", unknown, 404, "model_not_found", "model", "invalid_request_error"},
		{"temperature", hot, 400, "decimal_above_max_value", "temperature", "invalid_request_error"},
		{"context", long, 400, "context_length_exceeded", "messages", "invalid_request_error"},
		{"no messages",
			openai.ChatCompletionNewParams{Model: mini, Messages: []openai.ChatCompletionMessageParamUnion{}}, 400,
			"empty_array", "messages", "invalid_request_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.client().Chat.Completions.New(t.Context(), c.body)
			checkError(t, err, openai.Error{StatusCode: c.status, Code: c.code, Param: c.param, Type: c.kind})
			stream := s.client().Chat.Completions.NewStreaming(t.Context(), c.body)
			defer stream.Close()
			if stream.Next() {
				t.Errorf("the stream began with %s", stream.Current().RawJSON())
			}
			checkError(t, stream.Err(), openai.Error{StatusCode: c.status, Code: c.code, Param: c.param, Type: c.kind})
		})
	}
	_, err := s.client().Models.Get(t.Context(), "some/model")
	checkError(t, err,
		openai.Error{StatusCode: 404, Code: "model_not_found", Param: "model", Type: "invalid_request_error"})
}

func checkError(t *testing.T, err error, want openai.Error) {
	t.Helper()
	got, ok := errors.AsType[*openai.Error](err)
	if !ok {
		t.Errorf("error %v, expected status %d", err, want.StatusCode)
		return
	}
	if got.StatusCode != want.StatusCode || got.Code != want.Code || got.Param != want.Param ||
		got.Type != want.Type || got.Message == "" {
		t.Errorf("error %d %s, expected %d %s %s %s", got.StatusCode, got.RawJSON(), want.StatusCode, want.Code,
			want.Param, want.Type)
	}
	if id := got.Response.Header.Get("X-Request-Id"); !strings.HasPrefix(id, "req_") {
		t.Errorf("request id %q", id)
	}
}
