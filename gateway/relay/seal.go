package relay

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"parley"
)

// keys derives from a secret what seals contents and what names are made with.
func keys(secret []byte) (seal cipher.AEAD, name []byte, err error) {
	if len(secret) < sha256.Size/2 {
		return nil, nil, fmt.Errorf("relay: the secret has %d bytes, and needs at least %d", len(secret), sha256.Size/2)
	}
	content, err := hkdf.Key(sha256.New, secret, nil, "parley relay contents 1", sha256.Size)
	if err != nil {
		return nil, nil, err
	}
	if name, err = hkdf.Key(sha256.New, secret, nil, "parley relay names 1", sha256.Size); err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(content)
	if err != nil {
		return nil, nil, err
	}
	seal, err = cipher.NewGCMWithRandomNonce(block)
	return seal, name, err
}

// digest returns the name under which Redis knows an answer.
func (r *Redis) digest(name []byte) []byte {
	mac := hmac.New(sha256.New, r.name)
	mac.Write(name)
	return mac.Sum(nil)
}

// An entry is what stands in one entry of a stream: deltas in order, and at last how
// the answer ended.
type entry struct {
	Deltas []parley.Delta `json:"d,omitempty"`
	// Number is that of the entry, from 0, so that none can be missing or in another
	// place.
	Number int   `json:"n"`
	End    State `json:"e,omitempty"`
}

// encode seals an entry for a place.
func (r *Redis) encode(p *lease, e *entry) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return r.seal.Seal(nil, nil, text, []byte(p.stream)), nil
}

var errForeign = errors.New("relay: what another gateway has written cannot be read: it has another secret or version")

// decode opens an entry that was sealed for the place.
func (r *Redis) decode(p *lease, sealed string) (*entry, error) {
	text, err := r.seal.Open(nil, nil, []byte(sealed), []byte(p.stream))
	if err != nil {
		return nil, errForeign
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, errForeign
	}
	return &e, nil
}
