package safety

import (
	"math"
	"strings"
)

// A secretForm is how keys of one issuer look: a beginning, and how many
// characters of a set follow at least.
type secretForm struct {
	kind   string
	prefix string
	min    int
	// more are characters beside letters and digits that a key may have.
	more string
}

// secretForms are tried in order at every place where a word begins.
var secretForms = []secretForm{
	{"anthropic_key", "sk-ant-", 20, "-_"},
	{"openai_key", "sk-proj-", 20, "-_"},
	{"openai_key", "sk-", 20, "-_"},
	{"stripe_key", "sk_live_", 16, ""},
	{"stripe_key", "sk_test_", 16, ""},
	{"stripe_key", "rk_live_", 16, ""},
	{"aws_key", "AKIA", 16, ""},
	{"aws_key", "ASIA", 16, ""},
	{"github_token", "ghp_", 30, ""},
	{"github_token", "gho_", 30, ""},
	{"github_token", "ghu_", 30, ""},
	{"github_token", "ghs_", 30, ""},
	{"github_token", "github_pat_", 30, "_"},
	{"gitlab_token", "glpat-", 18, "-_"},
	{"slack_token", "xoxb-", 20, "-"},
	{"slack_token", "xoxp-", 20, "-"},
	{"slack_token", "xapp-", 20, "-"},
	{"google_key", "AIza", 32, "-_"},
	{"google_token", "ya29.", 20, "-_"},
	{"huggingface_token", "hf_", 30, ""},
	{"npm_token", "npm_", 30, ""},
	{"pypi_token", "pypi-", 30, "-_"},
	{"sendgrid_key", "SG.", 40, "-_."},
	{"digitalocean_token", "dop_v1_", 40, ""},
	{"twilio_key", "SK", 32, ""},
	{"parley_key", "parley-", 24, "-_"},
	{"jwt", "eyJ", 30, "-_."},
}

func secretAt(text string, i int) (Finding, bool) {
	rest := text[i:]
	for _, f := range secretsFrom[rest[0]] {
		if !strings.HasPrefix(rest, f.prefix) {
			continue
		}
		end := run(rest, len(f.prefix), func(b byte) bool {
			return isAlpha(b) || isDigit(b) || strings.IndexByte(f.more, b) >= 0
		})
		if end-len(f.prefix) < f.min || f.kind == "twilio_key" && (end != 34 || !lowerHex(rest[2:end])) ||
			f.kind == "aws_key" && end != 20 || f.kind == "jwt" && strings.Count(rest[:end], ".") != 2 {
			continue
		}
		if f.prefix == "sk-" && !mixed(rest[3:end]) {
			continue
		}
		return secret(f.kind, i, i+end)
	}
	switch rest[0] {
	case '-':
		return privateKeyAt(text, i)
	case 'p', 'P', 'm', 'M', 'r', 'R', 'a', 'A':
		if f, ok := connectionAt(text, i); ok {
			return f, ok
		}
	}
	if signs[rest[0]]&assignedStart == 0 {
		return Finding{}, false
	}
	return assignedAt(text, i)
}

// secretsFrom are the forms by their first byte.
var secretsFrom = func() (t [256][]*secretForm) {
	for k := range secretForms {
		b := secretForms[k].prefix[0]
		t[b] = append(t[b], &secretForms[k])
	}
	return t
}()

func secret(kind string, start, end int) (Finding, bool) {
	return Finding{
		Category: Secrets,
		Kind:     kind,
		Start:    start,
		End:      end,
		Score:    1,
	}, true
}

func lowerHex(s string) bool {
	return run(s, 0, func(b byte) bool { return isDigit(b) || b >= 'a' && b <= 'f' }) == len(s)
}

// mixed reports whether a word has letters and digits both, as keys do and
// words of a language do not.
func mixed(s string) bool {
	digits, letters := 0, 0
	for k := range len(s) {
		if isDigit(s[k]) {
			digits++
		} else if isAlpha(s[k]) {
			letters++
		}
	}
	return digits > 1 && letters > 1
}

const keyEnd = "PRIVATE KEY-----"

// privateKeyAt finds a private key in PEM: from its first line to its last, or
// to the end of the text if that is missing.
func privateKeyAt(text string, i int) (Finding, bool) {
	rest := text[i:]
	if !strings.HasPrefix(rest, "-----BEGIN ") {
		return Finding{}, false
	}
	head := strings.Index(rest[:min(len(rest), 64)], keyEnd)
	if head < 0 {
		return Finding{}, false
	}
	if end := strings.Index(rest[head+len(keyEnd):], keyEnd); end >= 0 && end < 16<<10 {
		return secret(kindPrivateKey, i, i+head+2*len(keyEnd)+end)
	}
	return secret(kindPrivateKey, i, i+min(len(rest), 4<<10))
}

// connectionAt finds a password in the address of a database.
func connectionAt(text string, i int) (Finding, bool) {
	n := prefixFold(text[i:], "postgres://", "postgresql://", "mysql://", "mongodb://", "mongodb+srv://", "redis://",
		"amqp://")
	if n == 0 {
		return Finding{}, false
	}
	end := run(text, i, func(b byte) bool { return b > ' ' && b != '"' && b != '\'' && b != '<' && b != '>' })
	user, _, hasHost := strings.Cut(text[i+n:end], "@")
	name, password, ok := strings.Cut(user, ":")
	if !hasHost || !ok || len(password) < 3 {
		return Finding{}, false
	}
	start := i + n + len(name) + 1
	return secret("password", start, start+len(password))
}

// assigned are names that secrets are given to, in lower case.
var assigned = []string{"password", "passwd", "passphrase", "pwd", "secret_key", "secret", "api_key", "api-key",
	"apikey", "access_key", "access_token",
	"auth_token", "client_secret", "private_key", "aws_secret_access_key", "authorization: bearer", "bearer"}

// assignedFrom are those names by their first letter.
var assignedFrom = func() (t [256][]string) {
	for _, name := range assigned {
		t[name[0]] = append(t[name[0]], name)
	}
	return t
}()

// assignedAt finds a value that is given to a name of a secret, if it looks
// like one: "api_key = 9fQz…".
func assignedAt(text string, i int) (Finding, bool) {
	n := prefixFold(text[i:], assignedFrom[text[i]|0x20]...)
	if n == 0 {
		return Finding{}, false
	}
	at := i + n
	bearer := text[at-1]|0x20 == 'r'
	sign := false
	for at < len(text) && at < i+n+6 && strings.IndexByte(" \t=:\"'", text[at]) >= 0 {
		sign = sign || text[at] == '=' || text[at] == ':'
		at++
	}
	if !sign && !bearer {
		return Finding{}, false
	}
	end := run(text, at, func(b byte) bool { return b > ' ' && b < 0x7F && strings.IndexByte("\"'`,;<>()", b) < 0 })
	value := text[at:end]
	if len(value) < 8 || bearer && len(value) < 16 || !mixed(value) || entropy(value) < 2.8 {
		return Finding{}, false
	}
	return secret("credential", at, end)
}

// entropy is the information per character of s, in bits.
func entropy(s string) float64 {
	var counts [256]int
	for k := range len(s) {
		counts[s[k]]++
	}
	bits := 0.0
	for _, c := range counts {
		if c > 0 {
			p := float64(c) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// kindPrivateKey is the one kind of secret that has spaces and lines.
const kindPrivateKey = "private_key"
