package serve

import (
	"strings"

	"parley/gateway/models"
	"parley/internal/builtin"
	"parley/model/store"
	"parley/model/weights"
)

// aboutOf describes a model for clients that show its size and type, and what it is good at.
func aboutOf(name string, s *weights.Summary, license string) models.About {
	about := models.About{
		Format:     string(s.Format),
		Family:     s.Architecture,
		Parameters: s.Parameters,
		Bytes:      s.FileBytes,
		License:    license,
		GoodAt:     goodAt(name),
	}
	if len(s.Types) > 0 {
		about.Quantization = strings.ToUpper(s.Types[0].Name)
	}
	return about
}

// goodAt says what a built-in model, or one of the catalogue, is good at; it is empty for others.
func goodAt(name string) string {
	if _, ok := builtin.Find(name); ok {
		return "small talk, stories, simple facts"
	}
	if e := store.FindEntry(name); e != nil {
		return e.GoodAt
	}
	return ""
}
