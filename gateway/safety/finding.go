package safety

import (
	"cmp"
	"slices"
)

// A Finding is something found in a text: what, where, how sure.
type Finding struct {
	Category Category `json:"category"`
	// Kind says more: the type of secret or of personal data, or how an attack
	// was told.
	Kind string `json:"kind,omitempty"`
	// Start and End are offsets in bytes of the text that was screened.
	Start int     `json:"start"`
	End   int     `json:"end"`
	Score float32 `json:"score"`
}

// The kinds of personal data.
const (
	KindEmail   = "email"
	KindPhone   = "phone"
	KindCard    = "credit_card"
	KindIBAN    = "iban"
	KindSSN     = "us_ssn"
	KindIP      = "ip_address"
	KindURL     = "url"
	KindLicense = "driver_license"
	KindDate    = "date"
	KindPerson  = "person"
	KindPlace   = "location"
	KindAddress = "address"
	KindCompany = "organization"
	KindTitle   = "job_title"
	KindPrefix  = "name_prefix"
	KindWallet  = "crypto_wallet"
)

func pii(kind string, start, end int) (Finding, bool) {
	return Finding{
		Category: PII,
		Kind:     kind,
		Start:    start,
		End:      end,
		Score:    1,
	}, true
}

// withoutOverlaps keeps, from begin on, findings that do not overlap. An
// address of mail is recognized at its "@", after its beginning was passed.
func withoutOverlaps(list []Finding, begin int) []Finding {
	part := list[begin:]
	slices.SortFunc(part, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	kept := list[:begin]
	for _, f := range part {
		if n := len(kept); n == begin || kept[n-1].End <= f.Start {
			kept = append(kept, f)
		}
	}
	return kept
}
