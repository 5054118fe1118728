package signin

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
)

// Passkeys are read here and not by github.com/go-webauthn/webauthn, which adds 3.5 MB and
// ten modules (TPMs, CBOR, JWTs) for attestations that are not asked for: without them a
// browser gives the public key in the form that crypto/x509 reads.

// An authenticator is what a device says of itself and of the site.
type authenticator struct {
	site       []byte // SHA-256 of its domain
	signatures uint32
	credential []byte // of a passkey that is new
}

// The bits of a device's flags: its user was there and was verified, and a passkey is new.
const userPresent, userVerified, newCredential = 1 << 0, 1 << 2, 1 << 6

// parseAuthenticator reads what a device says. A user whom it has not verified, by a finger
// or a PIN, is not accepted: a passkey stands in for the password alone.
func parseAuthenticator(data []byte) (a authenticator, ok bool) {
	const fixed, before = 37, 18 // bytes of what is always there, and before the id's length ends
	if len(data) < fixed || data[32]&userPresent == 0 || data[32]&userVerified == 0 {
		return a, false
	}
	a.site, a.signatures = data[:32], binary.BigEndian.Uint32(data[33:])
	if data[32]&newCredential == 0 {
		return a, true
	}
	rest := data[fixed:]
	if len(rest) < before {
		return a, false
	}
	length := int(binary.BigEndian.Uint16(rest[before-2:]))
	if rest = rest[before:]; length == 0 || length > credentialBytesMax || len(rest) < length {
		return a, false
	}
	a.credential = rest[:length]
	return a, true
}

// credentialBytesMax is how long the standard lets the name of a passkey be.
const credentialBytesMax = 1023

// parseKey reads a public key of the kinds that are asked for.
func parseKey(spki []byte) (crypto.PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(spki)
	if err != nil {
		return nil, errors.New("the public key cannot be read")
	}
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return key, nil
		}
	case ed25519.PublicKey:
		return key, nil
	case *rsa.PublicKey:
		if key.Size() >= 256 {
			return key, nil
		}
	}
	return nil, errors.New("the public key must be of ES256, EdDSA or RS256")
}

// isSigned reports whether a signature is by the key of a passkey, over what the device and
// the browser said.
func isSigned(spki, device, client, signature []byte) bool {
	key, err := parseKey(spki)
	if err != nil {
		return false
	}
	about := sha256.Sum256(client)
	signed := append(append([]byte{}, device...), about[:]...)
	sum := sha256.Sum256(signed)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, signed, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}
