package screening

import (
	"context"
	"strings"

	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/safety"
)

// Chat judges the prompt of a conversation before anything is computed
// for it. What is redacted is replaced in request; what is blocked is an error.
func (s *Screening) Chat(ctx context.Context, m *models.Model, request *openai.ChatRequest) error {
	var parts screenParts
	var system strings.Builder
	for i := range request.Messages {
		said := &request.Messages[i]
		origin := originOf(said.Role)
		if origin == safety.FromSystem {
			system.WriteString(said.Content + "\n")
		}
		parts.add(&said.Content, origin, i)
		parts.add(&said.Name, origin, i)
		parts.add(&said.Reasoning, origin, i)
		for j := range said.ToolCalls {
			parts.addCode(&said.ToolCalls[j].Name, origin, i)
			parts.add(&said.ToolCalls[j].Arguments, origin, i)
		}
	}
	if request.ToolChoice.Mode != openai.ToolsNone {
		for i := range request.Tools {
			parts.addTool(&request.Tools[i], i)
		}
	}
	parts.addArguments(request.TemplateArgs)
	return s.screen(ctx, m, "messages", system.String(), parts)
}

// ChatInstead judges a conversation that was judged for another model, if the policy of m
// is not that of the other one.
func (s *Screening) ChatInstead(ctx context.Context, m *models.Model, request *openai.ChatRequest) error {
	if s.ruling == s.screener.Policies.For(s.record.Who.Organization, m.ID) {
		return nil
	}
	return s.Chat(ctx, m, request)
}

// Prompts judges plain prompts. Prompts that are tokens are read as text
// first, and are refused rather than redacted.
func (s *Screening) Prompts(ctx context.Context, m *models.Model, param string, prompts []openai.Prompt) error {
	var parts []screenPart
	for i := range prompts {
		text := &prompts[i].Text
		if prompts[i].IsTokens {
			decoded := m.Tokenizer.Decode(prompts[i].Tokens, true)
			text = &decoded
		}
		parts = append(parts, screenPart{text: text, origin: safety.FromUser, index: i})
	}
	return s.screen(ctx, m, param, "", parts)
}

// Completion judges the prompts of a completion and what follows their gap.
func (s *Screening) Completion(ctx context.Context, m *models.Model, request *openai.CompletionRequest) error {
	if request.Gap != nil && len(request.Prompts) == 1 {
		return s.Gap(ctx, m, &request.Prompts[0], request.Gap)
	}
	return s.Prompts(ctx, m, "prompt", request.Prompts)
}

// Gap judges what stands before and behind a gap that is to be filled.
func (s *Screening) Gap(ctx context.Context, m *models.Model, before *openai.Prompt, gap *openai.Gap) error {
	prompts := []openai.Prompt{*before}
	if gap != nil {
		prompts = append(prompts, gap.After)
	}
	if err := s.Prompts(ctx, m, "prompt", prompts); err != nil {
		return err
	}
	before.Text = prompts[0].Text
	if gap != nil {
		gap.After.Text = prompts[1].Text
	}
	return nil
}
