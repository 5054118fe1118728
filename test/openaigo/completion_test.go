package openaigo

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
)

const opening = "Once upon a time there was a fox who"

func continuing(prompt openai.CompletionNewParamsPromptUnion) openai.CompletionNewParams {
	return openai.CompletionNewParams{Model: mini, Prompt: prompt, Temperature: openai.Float(0)}
}

func complete(t *testing.T, s *server, body openai.CompletionNewParams) *openai.Completion {
	t.Helper()
	answer, err := s.client().Completions.New(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func testCompletions(t *testing.T, s *server) {
	plain := complete(t, s, continuing(openai.CompletionNewParamsPromptUnion{OfString: openai.String(opening)}))
	if !strings.HasPrefix(plain.ID, "cmpl-") || plain.Choices[0].Text == "" || plain.Usage.CompletionTokens > 16 {
		t.Errorf("answer %s", plain.RawJSON())
	}
	checkUsage(t, plain.Usage)

	several := complete(t, s,
		continuing(openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{opening, "The moon is"}}))
	if len(several.Choices) != 2 || several.Choices[1].Index != 1 || several.Choices[0].Text != plain.Choices[0].Text {
		t.Errorf("answer %s", several.RawJSON())
	}

	echo := continuing(openai.CompletionNewParamsPromptUnion{OfString: openai.String(opening)})
	echo.Echo, echo.Logprobs = openai.Bool(true), openai.Int(2)
	echoed := complete(t, s, echo).Choices[0]
	if echoed.Text != opening+plain.Choices[0].Text || strings.Join(echoed.Logprobs.Tokens, "") != echoed.Text {
		t.Errorf("choice %s", echoed.RawJSON())
	}

	tokens := continuing(openai.CompletionNewParamsPromptUnion{OfArrayOfTokens: []int64{310, 420, 530}})
	if got := complete(t, s, tokens); got.Usage.PromptTokens != 3 {
		t.Errorf("answer %s", got.RawJSON())
	}
}

func testCompletionStream(t *testing.T, s *server) {
	body := continuing(openai.CompletionNewParamsPromptUnion{OfString: openai.String(opening)})
	whole := complete(t, s, body).Choices[0]
	stream := s.client().Completions.NewStreaming(t.Context(), body)
	defer stream.Close()
	text, finish := "", ""
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			text += c.Text
			finish += string(c.FinishReason)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if text != whole.Text || finish != string(whole.FinishReason) {
		t.Errorf("streamed %q (%s), whole %q (%s)", text, finish, whole.Text, whole.FinishReason)
	}
}
