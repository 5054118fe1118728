package ledger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTagsOf keeps pairs of texts within the bounds, and nothing else.
func TestTagsOf(t *testing.T) {
	long := strings.Repeat("ü", tagValueMax)
	many, first := []string{}, Tags{}
	for _, c := range "abcdefghijklmnopqrst" {
		many = append(many, `"`+string(c)+`":"1"`)
		if len(first) < tagsMax {
			first[string(c)] = "1"
		}
	}
	for body, want := range map[string]Tags{
		`{"messages":[]}`: nil,
		`{"metadata":{"team":"red","n":1,"x":null,"o":{"team":"blue"}}}`:  {"team": "red"},
		`{"metadata":{"user_id":"someone"}}`:                              nil,
		`{"metadata":null}`:                                               nil,
		`{"metadata":"team"}`:                                             nil,
		`{"metadata":{}`:                                                  nil,
		`{"input":"\"metadata\":{\"a\":\"b\"}"}`:                          nil,
		`{"metadata":{"a":"` + long + `","b":"` + long + `ü"}}`:           {"a": long},
		`{"metadata":{"` + long[:2*tagKeyMax] + `ü":"a","nul":"\u0000"}}`: nil,
		`{"metadata":{` + strings.Join(many, ",") + `}}`:                  first,
	} {
		if diff := cmp.Diff(want, TagsOf([]byte(body))); diff != "" {
			t.Errorf("%.80s: %s", body, diff)
		}
	}
}
