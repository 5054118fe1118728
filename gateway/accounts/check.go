package accounts

import (
	"encoding/json"
	"fmt"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley"
)

const (
	emailLengthMax = 254
	nameLengthMax  = 128
	agentLengthMax = 256
)

// emailKey is what accounts are found by.
func emailKey(email string) string { return strings.ToLower(email) }

// checkEmail returns an address without spaces around it, or what is wrong with it.
func checkEmail(email string) (string, error) {
	email = strings.TrimSpace(email)
	parsed, err := mail.ParseAddress(email)
	if err != nil || parsed.Address != email || len(email) > emailLengthMax || !isPrintable(email, emailLengthMax) {
		return "", parley.Invalid("email", "%q is not an email address such as ann@example.com.", clip(email))
	}
	return email, nil
}

func checkName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if !isPrintable(name, nameLengthMax) {
		return "", parley.Invalid("name", "A name is at most %d printable characters.", nameLengthMax)
	}
	return name, nil
}

func isPrintable(text string, most int) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= most &&
		strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// clip bounds a text that a message repeats.
func clip(text string) string {
	if len(text) > nameLengthMax {
		text = text[:nameLengthMax] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// agentText bounds what a browser calls itself.
func agentText(agent string) string {
	agent = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, agent)
	if len(agent) > agentLengthMax {
		agent = strings.ToValidUTF8(agent[:agentLengthMax], "")
	}
	return agent
}

// listText and readList are how a list of names is kept: empty for nil.
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
