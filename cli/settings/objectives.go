package settings

import (
	"bytes"
	"fmt"
	"time"

	"parley"

	"github.com/goccy/go-yaml"
)

// objectiveSettings are what users are promised, beside --slo-ttft and --slo-tpot.
var objectiveSettings = []Setting{
	{
		Key: "slo-ttft-share", wants: "a share from 0.5 to 0.9999, such as 0.99",
		Help: "`SHARE` of requests that must meet --slo-ttft, such as 0.99 for p99 (default 0.95)",
		set:  setPromisedShare(func(s *Settings) *float64 { return &s.SLO.TTFTShare }),
	},
	{
		Key: "slo-tpot-share", wants: "a share from 0.5 to 0.9999, such as 0.99",
		Help: "`SHARE` of tokens that must meet --slo-tpot (default 0.99)",
		set:  setPromisedShare(func(s *Settings) *float64 { return &s.SLO.TPOTShare }),
	},
	{
		Key:   "objectives",
		wants: "a list of objectives as docs/overload.md shows it",
		tree:  true,
		Help:  "SLOs for specific models, tiers and purposes, a `YAML` list; see docs/overload.md",
		set:   setObjectives,
	},
}

// An objectiveConfig is an objective as the file describes it.
type objectiveConfig struct {
	Name       string        `yaml:"name"`
	Models     []string      `yaml:"models"`
	Tiers      []string      `yaml:"tiers"`
	Purpose    string        `yaml:"purpose"`
	TTFT       time.Duration `yaml:"ttft"`
	CachedTTFT time.Duration `yaml:"ttft_cached"`
	TTFTShare  float64       `yaml:"ttft_share"`
	TPOT       time.Duration `yaml:"tpot"`
	TPOTShare  float64       `yaml:"tpot_share"`
}

func setObjectives(s *Settings, text string) error {
	var list []objectiveConfig
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text)), yaml.Strict()).Decode(&list); err != nil {
		return fmt.Errorf("%s", yaml.FormatError(err, false, false))
	}
	var objectives parley.Objectives
	for i := range list {
		o, err := list[i].objective()
		if err != nil {
			return err
		}
		objectives = append(objectives, o)
	}
	if err := objectives.Validate(); err != nil {
		return err
	}
	s.Targets = objectives
	return nil
}

// objective returns the objective as the gateway takes it.
func (c *objectiveConfig) objective() (o parley.Objective, err error) {
	o = parley.Objective{
		Name:      c.Name,
		Models:    c.Models,
		Purpose:   parley.Purpose(c.Purpose),
		SLO:       parley.SLO{TTFT: c.TTFT, CachedTTFT: c.CachedTTFT, TPOT: c.TPOT},
		TTFTShare: c.TTFTShare,
		TPOTShare: c.TPOTShare,
	}
	if o.Name == parley.DefaultObjective {
		return o, fmt.Errorf("the objective name %q is reserved for --slo-ttft and --slo-tpot: choose another name",
			o.Name)
	}
	switch o.Purpose {
	case "", parley.ForChat, parley.ForComplete:
	default:
		return o, fmt.Errorf("the purpose of objective %s is %q: use chat or complete, or leave it out", c.Name,
			c.Purpose)
	}
	for _, name := range c.Tiers {
		class, ok := classNamed(name)
		if !ok {
			return o, fmt.Errorf("objective %s has the unknown tier %q: use free, pro or enterprise", c.Name, name)
		}
		o.Classes = append(o.Classes, class)
	}
	return o, nil
}
