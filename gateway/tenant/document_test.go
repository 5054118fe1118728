package tenant

import (
	"encoding/json"
	"testing"

	"parley"
)

// FuzzParseKeyRequest reads requests of strangers: what is taken makes a key
// that the store takes or refuses, and can be written down again.
func FuzzParseKeyRequest(f *testing.F) {
	for _, seed := range []string{`{}`, ``,
		`{"name":"a","organization":"acme","user":"ann","tier":"pro","models":["a"],"admin":true,"expires_at":1900000000}`,
		`{"tier":null,"models":null,"limits":{"requests_per_minute":5,"monthly_budget":"2.50"},"blocked":true}`,
		`{"expires_in_seconds":60} {}`, `{"nme":1}`, `{"limits":{"monthly_budget":"-1"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseKeyRequest(body)
		if err != nil {
			refused(t, err, parley.InvalidRequest)
			return
		}
		if n, err := r.NewKey(epoch); err == nil {
			_ = n.check(epoch)
		} else {
			refused(t, err, parley.InvalidRequest)
		}
		if _, err := r.Change(epoch); err != nil {
			refused(t, err, parley.InvalidRequest)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseKeyRequest(text); err != nil {
			t.Fatalf("%s was written as %s: %v", body, text, err)
		}
		_, _ = ParseOrganizationRequest(body)
	})
}
