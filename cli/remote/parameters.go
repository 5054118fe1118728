package remote

import (
	"fmt"
	"strconv"
	"strings"
)

// Parameters are what can be /set for a conversation. What is nil is the
// server's to choose.
type Parameters struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
	Seed        *int     `json:"seed,omitempty"`
}

// Set changes a parameter; the value "default" leaves it to the server.
func (p *Parameters) Set(name, value string) error {
	switch name {
	case "temperature":
		return setNumber(&p.Temperature, value, 0, 2)
	case "top_p":
		return setNumber(&p.TopP, value, 0, 1)
	case "max_tokens":
		return setWhole(&p.MaxTokens, value, 1)
	case "seed":
		return setWhole(&p.Seed, value, 0)
	}
	return fmt.Errorf("unknown setting %q: use one of %s", name, strings.Join(ParameterNames, ", "))
}

// ParameterNames are the names that Set takes.
var ParameterNames = []string{"temperature", "top_p", "max_tokens", "seed"}

const byServer = "default"

func setNumber(field **float64, value string, least, most float64) error {
	if value == byServer {
		*field = nil
		return nil
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n >= least && n <= most) {
		return fmt.Errorf("%q is not a number from %g to %g or %q", value, least, most, byServer)
	}
	*field = &n
	return nil
}

func setWhole(field **int, value string, least int) error {
	if value == byServer {
		*field = nil
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		return fmt.Errorf("%q is not an integer of at least %d or %q", value, least, byServer)
	}
	*field = &n
	return nil
}

// List returns names and values of all parameters.
func (p *Parameters) List() [][2]string {
	text := func(set bool, value func() string) string {
		if !set {
			return byServer
		}
		return value()
	}
	return [][2]string{
		{"temperature", text(p.Temperature != nil, func() string { return fmt.Sprint(*p.Temperature) })},
		{"top_p", text(p.TopP != nil, func() string { return fmt.Sprint(*p.TopP) })},
		{"max_tokens", text(p.MaxTokens != nil, func() string { return fmt.Sprint(*p.MaxTokens) })},
		{"seed", text(p.Seed != nil, func() string { return fmt.Sprint(*p.Seed) })},
	}
}
