package settings

import (
	"strings"

	"parley/gateway/ops"
)

// shown describes a setting for operators, with the texts that were given for it and where.
func (s *Setting) shown(texts []string, from string) ops.Setting {
	d := ops.Setting{Key: s.Key, Values: []string{}, From: from, Help: strings.ReplaceAll(s.Help, "`", "")}
	for _, text := range texts {
		if s.holdsSecret(text) || hasPassword(text) {
			text = "(secret)"
		}
		d.Values = append(d.Values, text)
	}
	return d
}
