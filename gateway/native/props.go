package native

import (
	"net/http"

	"parley/gateway/exchange"
	"parley/gateway/job"
)

// Build is the answer of GET /version.
type Build struct {
	Version string `json:"version"`
}

// Props is the answer of GET /props in llama.cpp's shape, for the model that ?model= names
// or the default one.
type Props struct {
	DefaultGenerationSettings Settings        `json:"default_generation_settings"`
	TotalSlots                int             `json:"total_slots"`
	ModelAlias                string          `json:"model_alias"`
	ModelPath                 string          `json:"model_path"`
	ChatTemplate              string          `json:"chat_template"`
	Modalities                map[string]bool `json:"modalities"`
	BuildInfo                 string          `json:"build_info"`
}

// Settings are what requests get that do not say otherwise.
type Settings struct {
	ContextTokens int    `json:"n_ctx"`
	Params        Params `json:"params"`
}

// Params are the defaults of sampling.
type Params struct {
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int     `json:"top_k"`
	MinP        float64 `json:"min_p"`
	MaxTokens   int     `json:"n_predict"`
}

// ShowVersion returns what answers GET /version.
func ShowVersion(version string) func(*exchange.Exchange) error {
	return func(x *exchange.Exchange) error { return x.Reply(http.StatusOK, Build{Version: version}) }
}

// ShowProps returns what answers GET /props.
func ShowProps(version string) func(*exchange.Exchange, *job.Job) error {
	return func(x *exchange.Exchange, j *job.Job) error {
		m, err := j.Model(x.Request.URL.Query().Get("model"))
		if err != nil {
			return err
		}
		p := Props{
			DefaultGenerationSettings: Settings{ContextTokens: m.ContextTokens,
				Params: Params{Temperature: 1, TopP: 1, MaxTokens: -1}},
			TotalSlots: 1,
			ModelAlias: m.ID,
			ModelPath:  m.ID,
			Modalities: map[string]bool{"vision": false, "audio": false},
			BuildInfo:  "parley " + version,
		}
		if m.Template != nil {
			p.ChatTemplate = m.Template.Source
		}
		return x.Reply(http.StatusOK, p)
	}
}
