package settings

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"time"

	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/worker"

	"github.com/goccy/go-yaml"
)

// upstreamSettings are about services that are fronted by their URL and key.
var upstreamSettings = []Setting{
	{
		Key:   "upstreams",
		wants: "a list of services as docs/workers.md shows it",
		tree:  true,
		holds: upstreamsHoldKeys,
		set:   setUpstreams,
		Help:  "serve models of other services, given their URL and key, a `YAML` list; see docs/workers.md",
	},
	{
		Key:   "fallbacks",
		wants: "models by name, each with the models that are asked instead, as docs/models.md shows it",
		tree:  true,
		set:   setFallbacks,
		Help:  "use other models when one fails, a `YAML` mapping; see docs/models.md",
	},
}

// setFallbacks reads MODEL: [MODEL, …] for all causes, or MODEL: {CAUSE: [MODEL, …], …}.
func setFallbacks(s *Settings, text string) error {
	var read map[string]any
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		return fmt.Errorf("%s", yaml.FormatError(err, false, false))
	}
	fallbacks := map[string]models.Fallback{}
	for model, value := range read {
		by, ok := value.(map[string]any)
		if !ok {
			by = map[string]any{}
			for _, cause := range models.Causes() {
				by[string(cause)] = value
			}
		}
		fallbacks[model] = models.Fallback{}
		for cause, names := range by {
			if !slices.Contains(models.Causes(), models.Cause(cause)) {
				return fmt.Errorf("%q of %s is not a cause: use error, overload or context", cause, model)
			}
			list, err := namesOf(names)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", model, cause, err)
			}
			fallbacks[model][models.Cause(cause)] = list
		}
	}
	s.Fallbacks = fallbacks
	return nil
}

// namesOf returns one name, or a list of them.
func namesOf(value any) (names []string, err error) {
	if name, ok := value.(string); ok {
		return []string{name}, nil
	}
	list, ok := value.([]any)
	for _, v := range list {
		name, isText := v.(string)
		ok = ok && isText
		names = append(names, name)
	}
	if !ok {
		return nil, fmt.Errorf("%v is neither a model nor a list of models", value)
	}
	return names, nil
}

// An UpstreamConfig is a service as the file describes it.
type UpstreamConfig struct {
	Name string `yaml:"name"`
	URL  string `yaml:"url"`
	// Kind is openai-chat, the default, or anthropic.
	Kind string `yaml:"kind"`
	// Key is the service's; KeyFile and KeyEnv say where it is instead.
	Key     string `yaml:"key"`
	KeyFile string `yaml:"key_file"`
	KeyEnv  string `yaml:"key_env"`
	// Timeout is how long the service may send nothing; default 2 minutes. ProbeEvery is how
	// often it is asked whether it is there; default 30 s.
	Timeout    time.Duration `yaml:"timeout"`
	ProbeEvery time.Duration `yaml:"probe_every"`
	// Models has its models by the names that clients use.
	Models map[string]UpstreamModel `yaml:"models"`
}

// An UpstreamModel is a model of a service: its name there, or that and what is known of it.
type UpstreamModel struct {
	Name string `yaml:"name"`
	// Context bounds prompt and answer together, Output the answer alone, in tokens.
	Context int `yaml:"context"`
	Output  int `yaml:"output"`
	// Price is as in prices, for all tiers.
	Price string `yaml:"price"`
	// Fields renames fields of requests, or leaves out those whose name is empty.
	Fields map[string]string `yaml:"fields"`
}

// UnmarshalYAML reads a name, or all fields.
func (m *UpstreamModel) UnmarshalYAML(read func(any) error) error {
	if err := read(&m.Name); err == nil {
		return nil
	}
	type fields UpstreamModel
	return read((*fields)(m))
}

const (
	upstreamSilence = 2 * time.Minute
	upstreamProbe   = 30 * time.Second
	// UpstreamContext is the context of a model of which none is configured. The service refuses
	// what its own does not hold.
	UpstreamContext = 131_072
)

func setUpstreams(s *Settings, text string) error {
	var list []UpstreamConfig
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text)), yaml.Strict()).Decode(&list); err != nil {
		return fmt.Errorf("%s", yaml.FormatError(err, false, false))
	}
	seen := map[string]string{}
	for i := range list {
		u := &list[i]
		if err := u.complete(i); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(u.Models)) {
			if other, twice := seen[name]; twice {
				return fmt.Errorf("the model %q is offered by %s and by %s: give one another name", name, other, u.Name)
			}
			seen[name] = u.Name
			if price := u.Models[name].Price; price != "" {
				if s.Economy.Prices == nil {
					s.Economy.Prices = ledger.Prices{}
				}
				if err := s.Economy.Prices.Add(name + "=" + price); err != nil {
					return err
				}
			}
		}
	}
	s.Upstreams = list
	return nil
}

// complete fills in defaults, reads the key and says what is wrong. Errors never contain the key.
func (u *UpstreamConfig) complete(i int) error {
	at, err := url.Parse(u.URL)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("upstream %d: url is not an address such as https://api.example.com", i+1)
	}
	if at.User != nil {
		return fmt.Errorf("upstream %d: the url holds a password: use key, key_file or key_env", i+1)
	}
	if u.Name == "" {
		u.Name = at.Host
	}
	switch u.Kind {
	case "":
		u.Kind = string(worker.OpenAIChat)
	case string(worker.OpenAIChat), string(worker.Anthropic):
	default:
		return fmt.Errorf("upstream %s: kind is %q: use openai-chat or anthropic", u.Name, u.Kind)
	}
	if u.Timeout < 0 || u.ProbeEvery < 0 {
		return fmt.Errorf("upstream %s: timeout and probe_every must not be negative", u.Name)
	}
	if u.Timeout == 0 {
		u.Timeout = upstreamSilence
	}
	if u.ProbeEvery == 0 {
		u.ProbeEvery = upstreamProbe
	}
	if len(u.Models) == 0 {
		return fmt.Errorf("upstream %s has no models: map the names that clients use to its own", u.Name)
	}
	for name, m := range u.Models {
		if name == "" || m.Context < 0 || m.Output < 0 {
			return fmt.Errorf("upstream %s, model %q: the name must not be empty, context and output not negative",
				u.Name, name)
		}
	}
	return u.readKey()
}

func (u *UpstreamConfig) readKey() error {
	given := 0
	for _, text := range []string{u.Key, u.KeyFile, u.KeyEnv} {
		if text != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return fmt.Errorf("upstream %s: %d of key, key_file and key_env are set: set one", u.Name, given)
	case u.KeyFile != "":
		read := Setting{wants: "the key of a service",
			set: setText(func(s *Settings) *string { return &s.WorkerKey })}
		var holder Settings
		if err := read.readSecret(&holder, u.KeyFile); err != nil {
			return fmt.Errorf("upstream %s: key_file: %w", u.Name, err)
		}
		u.Key = holder.WorkerKey
	case u.KeyEnv != "":
		if u.Key = os.Getenv(u.KeyEnv); u.Key == "" {
			return fmt.Errorf("upstream %s: the variable %s (key_env) is not set", u.Name, u.KeyEnv)
		}
	}
	return nil
}

// upstreamsHoldKeys reports whether a list of upstreams has keys in it.
func upstreamsHoldKeys(text string) bool {
	var list []UpstreamConfig
	_ = yaml.Unmarshal([]byte(text), &list) // what is wrong with it is said elsewhere
	return slices.ContainsFunc(list, func(u UpstreamConfig) bool { return u.Key != "" })
}
