package tenant

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"net/http"
	"strings"
)

// A secret is pk- and letters and digits: the first few, by which it is found
// and recognised, then 256 bits of chance, then a checksum, by which a mistyped
// or invented key is refused without asking the store.
const (
	secretPrefix  = "pk-"
	shownLetters  = 8
	hiddenLetters = 43
	sumLetters    = 6
	prefixLength  = len(secretPrefix) + shownLetters
	secretLength  = prefixLength + hiddenLetters + sumLetters
)

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newSecret makes a key. 43 of 62 letters are 256 bits.
func newSecret() string {
	body := secretPrefix + randomLetters(shownLetters+hiddenLetters)
	return body + checksum(body)
}

// randomLetters draws every letter of the alphabet with the same chance.
func randomLetters(n int) string {
	const fair = 256 - 256%len(alphabet)
	var out strings.Builder
	var buffer [64]byte
	for out.Len() < n {
		rand.Read(buffer[:]) // never fails: crypto/rand ends the process instead
		for _, b := range buffer {
			if int(b) < fair && out.Len() < n {
				out.WriteByte(alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return out.String()
}

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var letters [sumLetters]byte
	for i := range letters {
		letters[i] = alphabet[sum%uint32(len(alphabet))]
		sum /= uint32(len(alphabet))
	}
	return string(letters[:])
}

// prefixOf returns what a secret is found by, or false if it cannot be one.
func prefixOf(secret string) (string, bool) {
	if len(secret) != secretLength || !strings.HasPrefix(secret, secretPrefix) {
		return "", false
	}
	body, sum := secret[:secretLength-sumLetters], secret[secretLength-sumLetters:]
	return secret[:prefixLength], checksum(body) == sum
}

// A digest is what is kept of a secret.
type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// headerLengthMax bounds what is looked at of a header.
const headerLengthMax = 512

// webSocketKey begins the protocol by which a page hands over a key: pages
// cannot set headers on a WebSocket. OpenAI's clients write it so.
const webSocketKey = "openai-insecure-api-key."

// Shown returns the key that a request carries: in Authorization as OpenAI's
// clients send it, in x-api-key as Anthropic's do, or among the protocols of a
// WebSocket. The first of them that is there counts.
func Shown(h http.Header) (secret string, shown bool) {
	if scheme, rest, _ := strings.Cut(bounded(h.Get("Authorization")), " "); strings.EqualFold(scheme, "Bearer") &&
		strings.TrimSpace(rest) != "" {
		return strings.TrimSpace(rest), true
	}
	if key := strings.TrimSpace(bounded(h.Get("X-Api-Key"))); key != "" {
		return key, true
	}
	for _, line := range h.Values("Sec-Websocket-Protocol") {
		for protocol := range strings.SplitSeq(bounded(line), ",") {
			if key, ok := strings.CutPrefix(strings.TrimSpace(protocol), webSocketKey); ok && key != "" {
				return key, true
			}
		}
	}
	return "", false
}

func bounded(text string) string { return text[:min(len(text), headerLengthMax)] }
