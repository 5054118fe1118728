package accounts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"parley"
)

// The cost of a hash: what OWASP recommends for argon2id at least.
const (
	hashMemoryKiB = 19 << 10
	hashPasses    = 2
	hashThreads   = 1
	hashBytes     = 32
	saltBytes     = 16
	// hashesMax bounds the hashes that are computed at the same time, and so their memory.
	hashesMax = 4
)

const (
	passwordLengthMin = 10
	passwordBytesMax  = 1024
)

// checkPassword says what is wrong with a password to be.
func checkPassword(password, email string) error {
	switch {
	case utf8.RuneCountInString(password) < passwordLengthMin:
		return parley.Invalid("password", "Choose a password of at least %d characters.", passwordLengthMin)
	case len(password) > passwordBytesMax:
		return parley.Invalid("password", "Choose a password of at most %d bytes.", passwordBytesMax)
	case !utf8.ValidString(password):
		return parley.Invalid("password", "The password is not valid text.")
	case strings.EqualFold(password, email):
		return parley.Invalid("password", "Choose a password that is not your email address.")
	case strings.Count(password, password[:1]) == len(password):
		return parley.Invalid("password", "Choose a password of more than one character.")
	}
	return nil
}

// A hasher computes hashes of passwords, a few at a time.
type hasher struct{ places chan struct{} }

func newHasher() *hasher { return &hasher{places: make(chan struct{}, hashesMax)} }

func (h *hasher) key(ctx context.Context, password string, salt []byte, passes, memory uint32,
	threads uint8) ([]byte, error) {
	select {
	case h.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.places }()
	return argon2.IDKey([]byte(password), salt, passes, memory, threads, hashBytes), nil
}

// hash returns what is stored of a password, in the form that argon2's own tool writes.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never fails: crypto/rand ends the process instead
	key, err := h.key(ctx, password, salt, hashPasses, hashMemoryKiB, hashThreads)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, hashMemoryKiB, hashPasses, hashThreads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key)), nil
}

// matches reports whether a hash is of a password. It takes the same time for an empty
// hash, which matches nothing.
func (h *hasher) matches(ctx context.Context, stored, password string) (bool, error) {
	if len(password) > passwordBytesMax {
		password = password[:passwordBytesMax] // too long to have been accepted
	}
	memory, passes, threads := uint32(hashMemoryKiB), uint32(hashPasses), uint8(hashThreads)
	salt, want := make([]byte, saltBytes), make([]byte, hashBytes)
	if stored != "" {
		var err error
		if salt, want, err = parseHash(stored, &memory, &passes, &threads); err != nil {
			return false, err
		}
	}
	key, err := h.key(ctx, password, salt, passes, memory, threads)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(key, want) == 1 && stored != "", nil
}

func parseHash(stored string, memory, passes *uint32, threads *uint8) (salt, key []byte, err error) {
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return nil, nil, fmt.Errorf("a password in the store is of an unknown kind")
	}
	if _, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", memory, passes, threads); err == nil {
		salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	}
	if err == nil {
		key, err = base64.RawStdEncoding.DecodeString(parts[5])
	}
	if err != nil || len(key) != hashBytes || *passes == 0 || *threads == 0 {
		return nil, nil, fmt.Errorf("a password in the store cannot be read: %v", err)
	}
	return salt, key, nil
}

// A Digest is what is stored of a random secret.
type Digest [sha256.Size]byte

// digestOf depends on the purpose, so that no secret of one is accepted for another.
func digestOf(purpose, secret string) Digest {
	return sha256.Sum256([]byte("parley " + purpose + "\x00" + secret))
}

// newSecret returns 256 random bits as letters after a prefix.
func newSecret(prefix string) string { return prefix + rand.Text() + rand.Text() }

// newID returns a name for ever.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
