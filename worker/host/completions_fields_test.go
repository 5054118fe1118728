package host

import (
	"encoding/json"
	"strings"
	"testing"

	"parley"
)

// TestForeignFieldsAreRefused has a worker refuse by name what it would answer wrongly.
func TestForeignFieldsAreRefused(t *testing.T) {
	for field, param := range map[string]string{
		`"min_tokens":3`:                                "min_tokens",
		`"guided_json":{"type":"object"}`:               "guided_json",
		`"guided_grammar":"root ::= x"`:                 "guided_grammar",
		`"structured_outputs":{"grammar":"root ::= x"}`: "structured_outputs",
		`"structured_outputs":{"structural_tag":{}}`:    "structured_outputs",
		`"grammar":"x"`:                                 "grammar",
		`"mirostat":2`:                                  "mirostat",
		`"min_tokens":0`:                                "",
		`"return_token_ids":true`:                       "",
		`"structured_outputs":{"regex":"a"}`:            "",
	} {
		err := json.Unmarshal([]byte(`{"model":"m","prompt":"a",`+field+`}`), new(question))
		if param == "" {
			if err != nil {
				t.Errorf("%s: %v", field, err)
			}
			continue
		}
		e, ok := err.(*parley.Error)
		if !ok || e.Param != param || !strings.Contains(e.Message, strings.Split(param, "_")[0]) {
			t.Errorf("%s: %v, want an error of %s", field, err, param)
		}
	}
}
