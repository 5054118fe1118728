package ledger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTagsOf keeps pairs within the bounds, and nothing else.
func TestTagsOf(t *testing.T) {
	long := strings.Repeat("ü", tagValueMax)
	many, first := map[string]string{}, Tags{}
	for _, c := range "abcdefghijklmnopqrst" {
		many[string(c)] = "1"
		if len(first) < tagsMax {
			first[string(c)] = "1"
		}
	}
	for _, test := range []struct {
		metadata map[string]string
		want     Tags
	}{
		{nil, nil},
		{map[string]string{"team": "red"}, Tags{"team": "red"}},
		{map[string]string{"user_id": "someone"}, nil},
		{map[string]string{"a": long, "b": long + "ü"}, Tags{"a": long}},
		{map[string]string{long[:2*tagKeyMax] + "ü": "a", "nul": "\x00"}, nil},
		{many, first},
	} {
		if diff := cmp.Diff(test.want, TagsOf(test.metadata)); diff != "" {
			t.Errorf("%.80v: %s", test.metadata, diff)
		}
	}
}
