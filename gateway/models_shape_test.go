package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestModelsInBothShapes lists models as each interface has them, by the header that only one of them sends.
func TestModelsInBothShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{})
		for _, path := range []string{"/v1/models", "/v1/models/" + modelID} {
			_, plain := s.do("GET", path, "")
			_, other := s.do("GET", path, "", "Anthropic-Version", "2023-06-01")
			if !strings.Contains(plain, `"object":"model"`) || strings.Contains(plain, "display_name") {
				t.Errorf("%s: %s", path, plain)
			}
			if !strings.Contains(other, `"type":"model","id":"`+modelID+`","display_name":"`+modelID+`","created_at":"`) {
				t.Errorf("%s: %s", path, other)
			}
		}
	})
}
