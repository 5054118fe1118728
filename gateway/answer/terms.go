package answer

import (
	"slices"

	"parley"
	"parley/gateway/openai"
)

// TermsOf returns what a client asked of the answer, for engines that cannot be
// held to a grammar; nil if it asked for nothing special.
func TermsOf(r *openai.ChatRequest) *parley.Terms {
	tools := Callable(r)
	if len(tools) == 0 && r.Format.Grammar == nil {
		return nil
	}
	asked := &parley.Terms{
		CallRequired: len(tools) > 0 && r.ToolChoice.Mode == openai.ToolsRequired,
		OneCall:      r.ToolChoice.Single,
		Format:       r.Format.Grammar,
	}
	for _, t := range tools {
		asked.Tools = append(asked.Tools, parley.ToolFunction{
			Name:        t.Name,
			Description: t.Description,
			Parameters:  t.Held(),
			Strict:      t.Strict,
		})
	}
	return asked
}

// ThinkingOf returns how much a client asks the model to think.
func ThinkingOf(r *openai.ChatRequest) (asked parley.Thinking) {
	asked.Effort, _ = r.TemplateArgs["reasoning_effort"].(string)
	asked.Wanted, _ = r.TemplateArgs["enable_thinking"].(bool)
	asked.BudgetTokens, _ = r.TemplateArgs["thinking_budget"].(int)
	return asked
}

// Callable are the tools that the model may call.
func Callable(r *openai.ChatRequest) []openai.Tool {
	if r.ToolChoice.Mode == openai.ToolsNone || len(r.Tools) == 0 {
		return nil
	}
	if r.ToolChoice.Allowed == nil {
		return r.Tools
	}
	return slices.DeleteFunc(slices.Clone(r.Tools), func(t openai.Tool) bool {
		return !slices.Contains(r.ToolChoice.Allowed, t.Name)
	})
}
