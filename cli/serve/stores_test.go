package serve

import (
	"path/filepath"
	"strings"
	"testing"

	"parley/cli/settings"
	"parley/gateway/record"
)

func TestStoreThatCannotBe(t *testing.T) {
	for _, dsn := range []string{"mysql://x", filepath.Join("/dev/null", "x.db")} {
		s := settings.Default()
		s.Store = dsn
		if _, err := openStores(t.Context(), s, record.NewRegistry(), s.Logger()); err == nil ||
			!strings.Contains(err.Error(), "--store") {
			t.Errorf("%s gives %v", dsn, err)
		}
	}
}
