package bill

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAttributionOf(t *testing.T) {
	texts := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for body, want := range map[string]attribution{
		`{"messages":[]}`: {},
		`{"messages":[{"role":"user"},{"role":"user" }],"user"` + "\n" + `:"b"}`: {EndUser: "b"},
		`{"metadata":{"team":"red","n":1,"x":null,"o":{"team":"blue"}}}`:         {Metadata: texts("team", "red")},
		`{"metadata":{"user_id":"c"}}`:                                           {"c", texts("user_id", "c")},
		`{"metadata":{"user_id":"c"},"user":"b"}`:                                {"b", texts("user_id", "c")},
		`{"metadata":"team","user":"b","safety_identifier":"a"}`:                 {EndUser: "a"},
		`{"user":"b","safety_identifier":7}`:                                     {EndUser: "b"},
		`{"user":"","safety_identifier":""}`:                                     {},
		`{"user":["b"]}`:                                                         {},
		`{"metadata":null,"user":"b"}`:                                           {EndUser: "b"},
		`{"metadata":{"a":"b"}`:                                                  {},
		`{"input":"\"metadata\":{\"a\":\"b\"}"}`:                                 {},
		`["user"]`:                                                               {},
	} {
		if diff := cmp.Diff(want, attributionOf([]byte(body))); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}
