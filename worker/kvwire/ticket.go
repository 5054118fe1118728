package kvwire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

const (
	// Scheme is that of the Authorization header which shows a ticket.
	Scheme = "Parley-Blocks "
	// TicketLife is how long a ticket should be good for: the clocks of machines differ.
	TicketLife = 2 * time.Minute
)

// Sign returns a ticket: the right to read the blocks of the process with the given
// instance, until a time, by the authority of its key. It is empty without a key.
func Sign(key, instance string, until time.Time) string {
	if key == "" {
		return ""
	}
	return sign(sha256.Sum256([]byte(key)), instance, strconv.FormatInt(until.Unix(), 10))
}

func sign(key [sha256.Size]byte, instance, until string) string {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte("parley blocks\n" + instance + "\n" + until))
	return until + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Valid reports whether a ticket for the process with the given instance was signed with
// the key of the given SHA-256 sum and has not expired.
func Valid(ticket string, key [sha256.Size]byte, instance string, now time.Time) bool {
	until, _, ok := strings.Cut(ticket, ".")
	seconds, err := strconv.ParseInt(until, 10, 64)
	return ok && err == nil && hmac.Equal([]byte(ticket), []byte(sign(key, instance, until))) &&
		now.Before(time.Unix(seconds, 0))
}
