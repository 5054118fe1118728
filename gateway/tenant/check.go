package tenant

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley"
	"parley/limit"
)

const (
	nameLengthMax  = 128
	modelsMax      = 256
	modelLengthMax = 256
)

// shortName is what ids of tenants and users may be: they stand in logs,
// metrics and addresses.
var shortName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$`)

func (n *NewKey) check(now time.Time) error {
	if n.Organization == "" {
		n.Organization = LocalOrganization
	}
	if !n.Expires.IsZero() && !n.Expires.After(now) {
		return parley.Invalid("expires_at", "The key would have expired at %s: give a time in the future.",
			n.Expires.UTC().Format(time.RFC3339))
	}
	return checkKey(n.Name, n.Organization, n.User, n.Models, &n.Limits)
}

// checkKey says what is wrong with the parts of a key or a tenant.
func checkKey(name, organization, user string, models []string, limits *limit.Limits) error {
	switch {
	case !printable(name, nameLengthMax):
		return parley.Invalid("name", "The name of a key is at most %d printable characters.", nameLengthMax)
	case !shortName.MatchString(organization):
		return parley.Invalid("organization",
			"%q is not a valid organisation id: use up to 64 of a-z, A-Z, 0-9, '.', '_', '@', '+', '-', beginning "+
				"with a letter or digit.", clip(organization))
	case user != "" && !shortName.MatchString(user):
		return parley.Invalid("user",
			"%q is not a valid user id: use up to 64 of a-z, A-Z, 0-9, '.', '_', '@', '+', '-', beginning with a "+
				"letter or digit.", clip(user))
	case len(models) > modelsMax:
		return parley.Invalid("models", "%d models are listed: at most %d can be.", len(models), modelsMax)
	}
	for _, m := range models {
		if m == "" || !printable(m, modelLengthMax) {
			return parley.Invalid("models", "%q is not a valid model name.", clip(m))
		}
	}
	if err := limits.Validate(); err != nil {
		return parley.Invalid("limits", "%s", upperFirst(err.Error()))
	}
	return nil
}

func printable(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most && strings.IndexFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r)
	}) < 0
}

func clip(text string) string {
	if len(text) > nameLengthMax {
		return strings.ToValidUTF8(text[:nameLengthMax], "") + "…"
	}
	return text
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// The forms in which values are kept.

func tierText(tier *parley.Class) string {
	if tier == nil {
		return ""
	}
	return tier.String()
}

func limitsText(l limit.Limits) string {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // numbers can always be written
	}
	return string(text)
}

func listText(list []string) string {
	if list == nil {
		return ""
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // texts can always be written
	}
	return string(text)
}

func readLimits(text string, into *limit.Limits) error {
	*into = limit.Limits{}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("limits in the store: %w", err)
	}
	return nil
}

func readList(text string, into *[]string) error {
	*into = nil
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("models in the store: %w", err)
	}
	return nil
}
