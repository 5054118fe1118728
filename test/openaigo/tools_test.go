package openaigo

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// weather is a function whose arguments are easy to check.
var weather = openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
	Name:        "weather",
	Description: openai.String("The weather of a city."),
	Strict:      openai.Bool(true),
	Parameters: shared.FunctionParameters{
		"type":                 "object",
		"properties":           map[string]any{"city": map[string]any{"type": "string", "maxLength": 12}},
		"required":             []string{"city"},
		"additionalProperties": false,
	},
})

func calling(content string) openai.ChatCompletionNewParams {
	r := ask(content)
	r.Tools = []openai.ChatCompletionToolUnionParam{weather}
	r.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	r.ParallelToolCalls = openai.Bool(false)
	r.Temperature, r.MaxTokens = openai.Float(1), openai.Int(400)
	return r
}

// checkCall checks the one call of an answer.
func checkCall(t *testing.T, calls []openai.ChatCompletionMessageToolCallUnion) {
	t.Helper()
	var arguments struct{ City *string }
	if len(calls) != 1 || !strings.HasPrefix(calls[0].ID, "call_") || calls[0].Type != "function" ||
		calls[0].Function.Name != "weather" ||
		json.Unmarshal([]byte(calls[0].Function.Arguments), &arguments) != nil || arguments.City == nil {
		t.Fatalf("calls %+v", calls)
	}
}

// testTools has the model call a function, and goes on with its result.
func testTools(t *testing.T, s *server) {
	body := calling("What is the weather in Paris?")
	answer, err := s.client().Chat.Completions.New(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	message := answer.Choices[0].Message
	checkCall(t, message.ToolCalls)
	if answer.Choices[0].FinishReason != "tool_calls" || message.Content != "" {
		t.Errorf("choice %s", answer.Choices[0].RawJSON())
	}
	body.Messages = append(body.Messages, message.ToParam(), openai.ToolMessage("It rains.", message.ToolCalls[0].ID))
	body.ToolChoice, body.ParallelToolCalls = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String(
		"none")}, openai.Bool(true)
	if answer, err = s.client().Chat.Completions.New(t.Context(), body); err != nil ||
		answer.Choices[0].Message.Content == "" {
		t.Errorf("after the result: %v, %v", answer, err)
	}
}

func testToolStream(t *testing.T, s *server) {
	stream := s.client().Chat.Completions.NewStreaming(t.Context(), calling("What is the weather in Paris?"))
	var all openai.ChatCompletionAccumulator
	finished := 0
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			t.Fatalf("the chunk does not fit: %s", stream.Current().RawJSON())
		}
		if call, ok := all.JustFinishedToolCall(); ok && call.Name == "weather" {
			finished++
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	checkCall(t, all.Choices[0].Message.ToolCalls)
	if all.Choices[0].FinishReason != "tool_calls" || finished != 1 {
		t.Errorf("finish %s, %d calls finished", all.Choices[0].FinishReason, finished)
	}
}

func testJSONSchema(t *testing.T, s *server) {
	held := func(schema map[string]any) openai.ChatCompletionNewParams {
		r := ask("Describe a cat.")
		r.MaxTokens = openai.Int(200)
		r.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "cat", Strict: openai.Bool(true),
				Schema: schema}}
		return r
	}
	answer, err := s.client().Chat.Completions.New(t.Context(), held(map[string]any{
		"type":       "object",
		"properties": map[string]any{"lives": map[string]any{"type": "integer", "minimum": 1, "maximum": 9}},
		"required":   []string{"lives"}, "additionalProperties": false}))
	if err != nil {
		t.Fatal(err)
	}
	var cat struct{ Lives int }
	if err := json.Unmarshal([]byte(answer.Choices[0].Message.Content), &cat); err != nil || cat.Lives < 1 ||
		cat.Lives > 9 {
		t.Errorf("%v: %s", err, answer.Choices[0].Message.Content)
	}
	_, err = s.client().Chat.Completions.New(t.Context(), held(map[string]any{"$ref": "#/$defs/missing"}))
	var failure *openai.Error
	if !errors.As(err, &failure) || failure.StatusCode != 400 ||
		failure.Param != "response_format.json_schema.schema" || failure.Code != "invalid_json_schema" {
		t.Errorf("got %v", err)
	}
}
