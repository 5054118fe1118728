// Package anthropic has shapes of Anthropic's API that OpenAI's has otherwise.
package anthropic

import "time"

// A Model is a model in Anthropic's shape. MaxInputTokens is its context.
type Model struct {
	Type           string `json:"type"`
	ID             string `json:"id"`
	DisplayName    string `json:"display_name"`
	CreatedAt      string `json:"created_at"`
	MaxInputTokens int    `json:"max_input_tokens,omitempty"`
}

// A ModelList is the answer of GET /v1/models to clients of Anthropic's API. All models are on one page.
type ModelList struct {
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

// NewModel returns a model that was created at a time in seconds.
func NewModel(id string, created int64, contextTokens int) Model {
	return Model{
		Type:           "model",
		ID:             id,
		DisplayName:    id,
		CreatedAt:      time.Unix(created, 0).UTC().Format(time.RFC3339),
		MaxInputTokens: contextTokens,
	}
}

// NewModelList returns the page that lists models.
func NewModelList(models []Model) ModelList {
	list := ModelList{Data: models}
	if n := len(models); n > 0 {
		list.FirstID, list.LastID = &models[0].ID, &models[n-1].ID
	}
	return list
}
