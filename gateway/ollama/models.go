package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/models"
)

// APIVersion is the version of Ollama whose API this is. Clients compare it with the
// oldest one that they support.
const APIVersion = "0.12.11"

// Version is the answer of GET /api/version.
type Version struct {
	Version string `json:"version"`
}

// Details are a [models.About] as clients read it.
type Details struct {
	ParentModel       string   `json:"parent_model"`
	Format            string   `json:"format"`
	Family            string   `json:"family"`
	Families          []string `json:"families"`
	ParameterSize     string   `json:"parameter_size"`
	QuantizationLevel string   `json:"quantization_level"`
}

// A Model is an entry of GET /api/tags.
type Model struct {
	Name       string  `json:"name"`
	Model      string  `json:"model"`
	ModifiedAt string  `json:"modified_at"`
	Size       int64   `json:"size"`
	Digest     string  `json:"digest"`
	Details    Details `json:"details"`
}

// A LoadedModel is an entry of GET /api/ps.
type LoadedModel struct {
	Name          string  `json:"name"`
	Model         string  `json:"model"`
	Size          int64   `json:"size"`
	Digest        string  `json:"digest"`
	Details       Details `json:"details"`
	ExpiresAt     string  `json:"expires_at"`
	SizeVRAM      int64   `json:"size_vram"`
	ContextLength int     `json:"context_length"`
}

// A List is the answer of GET /api/tags, and of GET /api/ps with models in memory.
type List[M Model | LoadedModel] struct {
	Models []M `json:"models"`
}

// A Show is the answer of POST /api/show.
type Show struct {
	License      string         `json:"license,omitempty"`
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Template     string         `json:"template"`
	Details      Details        `json:"details"`
	ModelInfo    map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	ModifiedAt   string         `json:"modified_at"`
}

// A Shown is a model under a name that it goes by.
type Shown struct {
	ID string // instead of the model's own
	*models.Model
}

// tag is that of names without one.
const tag = ":latest"

// Name returns the name by which clients know a model: one without a tag has the usual one.
func Name(id string) string {
	if base := id[strings.LastIndexByte(id, '/')+1:]; strings.Contains(base, ":") {
		return id
	}
	return id + tag
}

// Untagged returns a name without the tag that stands for none.
func Untagged(name string) string { return strings.TrimSuffix(name, tag) }

func (s *Shown) details() Details {
	d := Details{Format: s.About.Format, Family: s.About.Family, Families: []string{},
		QuantizationLevel: s.About.Quantization}
	if d.Family != "" {
		d.Families = []string{d.Family}
	}
	switch n := float64(s.About.Parameters); {
	case n >= 1e9:
		d.ParameterSize = fmt.Sprintf("%.1fB", n/1e9)
	case n > 0:
		d.ParameterSize = fmt.Sprintf("%.2fM", n/1e6)
	}
	return d
}

// digest stands for the content of a model, of which the server may know its name alone.
func (s *Shown) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", s.ID, s.Created.Unix(), s.About.Bytes))
	return hex.EncodeToString(sum[:])
}

// Entry returns the model as a list shows it.
func (s *Shown) Entry() Model {
	return Model{
		Name:       Name(s.ID),
		Model:      Name(s.ID),
		ModifiedAt: s.Created.UTC().Format(time.RFC3339),
		Size:       s.About.Bytes,
		Digest:     s.digest(),
		Details:    s.details(),
	}
}

// Loaded returns the model as one in memory, and reports whether it is.
func (s *Shown) Loaded(now time.Time) (LoadedModel, bool) {
	bytes, until, loaded := s.Residence()
	if until.IsZero() {
		until = now.Add(math.MaxInt64) // as Ollama writes it
	}
	return LoadedModel{
		Name:          Name(s.ID),
		Model:         Name(s.ID),
		Size:          bytes,
		Digest:        s.digest(),
		Details:       s.details(),
		ExpiresAt:     until.UTC().Format(time.RFC3339),
		ContextLength: s.ContextTokens,
	}, loaded
}

// Show returns all that is known of the model.
func (s *Shown) Show() Show {
	family := s.About.Family
	if family == "" {
		family = "unknown"
	}
	info := map[string]any{"general.architecture": family, family + ".context_length": s.ContextTokens}
	if s.About.Parameters > 0 {
		info["general.parameter_count"] = s.About.Parameters
	}
	show := Show{
		License:      s.About.License,
		Modelfile:    "FROM " + Name(s.ID) + "\n",
		Details:      s.details(),
		ModelInfo:    info,
		Capabilities: []string{"completion"},
		ModifiedAt:   s.Created.UTC().Format(time.RFC3339),
	}
	if s.Template != nil {
		show.Template = s.Template.Source
		show.Capabilities = append(show.Capabilities, "tools")
	}
	if gap := s.Tokenizer.Special().Gap; gap.Known() {
		show.Capabilities = append(show.Capabilities, "insert")
	}
	if s.Tools.Thoughts != nil {
		show.Capabilities = append(show.Capabilities, "thinking")
	}
	return show
}

// A PullLine is a line that reports how far a download is. The last one is "success".
type PullLine struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

// Success is the last line of a download, and the answer to one that is not streamed.
const Success = "success"

// A Subject is the body of a request about one model: show, pull or delete.
type Subject struct {
	// Model is its name without the usual tag.
	Model string
	// Stream asks for a line whenever there is progress.
	Stream bool
}

// ParseSubject reads a body that names a model. An error is always a [parley.Error].
func ParseSubject(body []byte) (Subject, error) {
	var asked struct {
		Model    string          `json:"model"`
		Name     string          `json:"name"` // of older clients
		Stream   *bool           `json:"stream"`
		Insecure bool            `json:"insecure"`
		Verbose  json.RawMessage `json:"verbose"`
	}
	if err := exchange.Decode(body, &asked); err != nil {
		return Subject{}, err
	}
	if asked.Model == "" {
		asked.Model = asked.Name
	}
	switch {
	case asked.Model == "":
		return Subject{}, parley.Invalid("model", "Missing required parameter: 'model'.")
	case asked.Insecure:
		return Subject{}, parley.Invalid("insecure", "Unsupported 'insecure': downloads are always verified.")
	}
	return Subject{Model: Untagged(asked.Model), Stream: asked.Stream == nil || *asked.Stream}, nil
}

// A Copy is the body of POST /api/copy.
type Copy struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

// ParseCopy reads the body of POST /api/copy. An error is always a [parley.Error].
func ParseCopy(body []byte) (c Copy, err error) {
	if err := exchange.Decode(body, &c); err != nil {
		return c, err
	}
	c.Source, c.Destination = Untagged(c.Source), Untagged(c.Destination)
	for name, value := range map[string]string{"source": c.Source, "destination": c.Destination} {
		if value == "" {
			return c, parley.Invalid(name, "Missing required parameter: '%s'.", name)
		}
	}
	return c, nil
}
