package safety

import (
	"strings"
	"testing"
)

func TestForms(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"card 4532 4240 7197 4464 now", "credit_card:4532 4240 7197 4464"},
		{"card 4532424071974465", ""}, // the sum is wrong
		{"IBAN GB04QHGE83377763088197.", "iban:GB04QHGE83377763088197"},
		{"IBAN DE89 3704 0044 0532 0130 00 ok", "iban:DE89 3704 0044 0532 0130 00"},
		{"IBAN GB05QHGE83377763088197", ""},
		{"write to jane.doe+x@mail.example.com.", "email:jane.doe+x@mail.example.com"},
		{"not an address: a@b or @you", ""},
		{"ssn 161-42-3291", "us_ssn:161-42-3291"},
		{"call (760)514-1109 or 675.792.5614x89902", "phone:(760)514-1109 phone:675.792.5614x89902"},
		{"host 86.231.85.193 up", "ip_address:86.231.85.193"},
		{"version 1.2.3.4.5 and 999.1.1.1", ""},
		{"at d80:e4b5:79da:6cf6:71f3:51f7:9161:c319", "ip_address:d80:e4b5:79da:6cf6:71f3:51f7:9161:c319"},
		{"born 2/25/1953, seen 1992-12-08 19:28:54", "date:2/25/1953 date:1992-12-08 19:28:54"},
		{"see https://example.org/a?b=1.", "url:https://example.org/a?b=1"},
		{"key sk-proj-abcDEF0123456789abcDEF0123", "openai_key:sk-proj-abcDEF0123456789abcDEF0123"},
		{"AKIAIOSFODNN7EXAMPLE", "aws_key:AKIAIOSFODNN7EXAMPLE"},
		{"ghp_0123456789abcdefghijABCDEFGHIJ0123", "github_token:ghp_0123456789abcdefghijABCDEFGHIJ0123"},
		{`api_key = "9fQz72LmXw81Tt"`, "credential:9fQz72LmXw81Tt"},
		{"the password: please choose one", ""},
		{"postgres://app:s3cr3t@db/prod", "password:s3cr3t"},
		{"risk-free sk-something-plain-words-here", ""},
		{"12 apples, 30 pears, 1999 and 10 000", ""},
	} {
		var got []string
		for _, f := range forms(nil, test.text) {
			got = append(got, f.Kind+":"+test.text[f.Start:f.End])
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%q: found %q, want %q", test.text, s, test.want)
		}
	}
}

func TestPrivateKeyIsOneSecret(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nabc\n-----END RSA PRIVATE KEY-----"
	found := forms(nil, "here: "+key+" bye")
	if len(found) != 1 || found[0].Kind != "private_key" || found[0].End-found[0].Start != len(key) {
		t.Errorf("found %v", found)
	}
}
