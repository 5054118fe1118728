package worker

import (
	"maps"
	"slices"
	"time"

	"parley/token/gauge"
)

// An Upstream says what is known of a service that is fronted by its URL and key: its
// tokenizer is not, and its models are those of the configuration, whatever it lists.
type Upstream struct {
	// Models has the service's models by the names that requests use.
	Models map[string]UpstreamModel
	// Silence is how long the service may send nothing while an answer is expected.
	Silence time.Duration
	// ProbeEvery is how often it is asked whether it is there. Hosted services count
	// such requests.
	ProbeEvery time.Duration
}

// probeState is what the last probe of an upstream found, and until when that is believed.
type probeState struct {
	until  time.Time
	status Status
}

// An UpstreamModel is one model of an upstream.
type UpstreamModel struct {
	// Name is what the service calls it.
	Name string
	// ContextTokens bounds prompt and answer together, OutputTokens the answer alone; 0
	// means that it is not known.
	ContextTokens, OutputTokens int
	// Fields renames fields of requests, or leaves those out whose new name is empty: not
	// all services accept all of OpenAI's.
	Fields map[string]string
	// Gauge estimates tokens of the model.
	Gauge *gauge.Gauge
}

// rename changes the names of a body's fields as the model's Fields say.
func (m *UpstreamModel) rename(body any) any {
	fields, ok := body.(map[string]any)
	if !ok || len(m.Fields) == 0 {
		return body
	}
	for _, from := range slices.Sorted(maps.Keys(m.Fields)) {
		value, has := fields[from]
		if !has {
			continue
		}
		delete(fields, from)
		if to := m.Fields[from]; to != "" {
			fields[to] = value
		}
	}
	return fields
}
