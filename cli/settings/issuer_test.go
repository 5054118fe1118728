package settings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/gateway/accounts"
	"parley/gateway/issuer"
)

// TestIssuerSettings reads an issuer from a file, with groups whose names have dots and
// equals signs.
func TestIssuerSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "parley.yaml")
	text := `oidc_issuer: https://accounts.example.com
oidc_client_id: parley
oidc_name: Example
oidc_scopes: email,profile
oidc_domains: example.com, example.org
oidc_unknown: create
oidc_groups:
  staff:
    organisation: acme
    tier: pro
    models: [polly, llama]
  "cn=bosses,ou=a.b":
    role: org-admin
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Gather(nil, noVariables, file)
	if err != nil {
		t.Fatal(err)
	}
	want := issuer.Config{
		URL:           "https://accounts.example.com",
		ClientID:      "parley",
		Name:          "Example",
		Scopes:        []string{"email", "profile"},
		Domains:       []string{"example.com", "example.org"},
		CreateUnknown: true,
		Groups: []accounts.GroupRule{
			{Name: "staff", Grant: accounts.Grant{
				Organization: "acme",
				Tier:         "pro",
				Models:       []string{"polly", "llama"},
			}},
			{Name: "cn=bosses,ou=a.b", Grant: accounts.Grant{Role: accounts.OrgAdmin}},
		},
	}
	if diff := cmp.Diff(want, s.Issuer); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"staff", "staff.role", "staff.role=king", "staff.colour=red", ".role=member",
		"staff.models="} {
		if setGroup(Default(), bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
