package serve

import (
	"strings"

	"parley/gateway/models"
	"parley/model/weights"
)

// aboutOf describes a model for clients that show its size and type.
func aboutOf(s *weights.Summary, license string) models.About {
	about := models.About{
		Format:     string(s.Format),
		Family:     s.Architecture,
		Parameters: s.Parameters,
		Bytes:      s.FileBytes,
		License:    license,
	}
	if len(s.Types) > 0 {
		about.Quantization = strings.ToUpper(s.Types[0].Name)
	}
	return about
}
