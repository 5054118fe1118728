package models

import (
	"math"
	"slices"
	"strings"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
	"parley/token"
)

// answerRoom is how much of the context is kept free for an answer of which no
// length was asked for.
func (m *Model) answerRoom(request *openai.ChatRequest) int {
	if request.MaxTokensParam != "" {
		return request.MaxTokens
	}
	return min(1024, m.ContextTokens/4)
}

// Fit decides which of the request's messages the model is shown: what fits its
// context, and what the tier of the caller may have. What is refused for the context
// alone is refused later, where all requests are. The sizes are
// those of their texts, and what the template adds is shared out evenly.
func (m *Model) Fit(
	tier TierContext, policy convo.Policy, request *openai.ChatRequest, summaryTokens int,
) (convo.Fit, error) {
	room := m.ContextTokens - m.answerRoom(request)
	budget := convo.Budget{Tokens: tier.Within(room), SummaryTokens: summaryTokens + summaryIntroTokens}
	prompt, _, err := m.Render(request)
	capped, tokens := budget.Tokens < room, len(prompt)
	if parley.CodeOf(err) == parley.ContextTooLong && policy != convo.Refuse && policy != "" {
		err, tokens = nil, math.MaxInt32 // too long even to count
	}
	if err != nil || tokens <= budget.Tokens ||
		!capped && (policy == convo.Refuse || policy == "" || request.Sinks > 0) {
		return convo.Fit{Tokens: len(prompt)}, err
	}
	sizes, sum := make([]convo.MessageSize, len(request.Messages)), 0
	for i := range request.Messages {
		if sizes[i], err = m.sized(&request.Messages[i]); err != nil {
			return convo.Fit{}, err
		}
		sum += sizes[i].Tokens
	}
	// The shares add up to the prompt's length, so that it grows with every turn
	// and the cut never moves back.
	overhead, n := max(0, len(prompt)-sum), len(sizes)
	if prompt == nil {
		overhead = turnTokens * n
	}
	for i := range sizes {
		sizes[i].Tokens += overhead*(i+1)/n - overhead*i/n
	}
	return convo.FitContext(policy, sizes, budget)
}

// turnTokens is what a template is taken to add to a message where all of them are
// too long to be rendered at once.
const turnTokens = 8

func (m *Model) sized(message *openai.Message) (convo.MessageSize, error) {
	var text strings.Builder
	text.WriteString(message.Content + message.Reasoning)
	for _, call := range message.ToolCalls {
		text.WriteString(call.Name + call.Arguments)
	}
	if least := m.leastOf(text.String(), m.ContextTokens); least > m.ContextTokens {
		return convo.MessageSize{Role: message.Role, Tokens: least}, nil
	}
	tokens, err := m.Encode("messages", text.String(), token.Options{})
	return convo.MessageSize{Role: message.Role, Tokens: len(tokens)}, err
}

// Without returns messages less those of the given indices, which are in
// order.
func Without(messages []openai.Message, out []int) []openai.Message {
	var kept []openai.Message
	for i := range messages {
		if _, left := slices.BinarySearch(out, i); !left {
			kept = append(kept, messages[i])
		}
	}
	return kept
}

// summaryIntroTokens is set aside for the words that introduce a summary.
const summaryIntroTokens = 24
