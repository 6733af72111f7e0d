package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeyBytes is the size of a key-encryption key and of a data key.
const KeyBytes = 32

// ErrNoKey is returned by an empty Keyring: the hub was given no
// key-encryption key, and signs nothing until it is.
var ErrNoKey = errors.New("no key-encryption key is configured")

// Keyring is an ordered list of key-encryption keys. The first encrypts, all
// decrypt. It is safe for concurrent use.
type Keyring struct {
	keys []key
}

type key struct {
	id   string
	aead cipher.AEAD
}

// ParseKeyring reads "id:base64,id2:base64…", each key 32 bytes in standard
// base64, the newest first; spaces and line ends between entries are fine. An
// id is 1–64 characters of [A-Za-z0-9._-] and is stored beside what the key
// encrypts. The empty text is an empty ring. Errors name a key by its place in
// the list and repeat nothing of the text, which might be key material.
func ParseKeyring(s string) (*Keyring, error) {
	ring := new(Keyring)
	if strings.TrimSpace(s) == "" {
		return ring, nil
	}
	place := 0
	for entry := range strings.SplitSeq(s, ",") {
		place++
		id, text, ok := strings.Cut(strings.TrimSpace(entry), ":")
		if !ok || !isKeyID(id) {
			return nil, fmt.Errorf("key-encryption key %d is not written as id:base64 with an id of 1 to 64 letters, digits, dots, dashes or underscores", place)
		}
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil || strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("key-encryption key %d is not standard base64 with padding", place)
		}
		if len(b) != KeyBytes {
			return nil, fmt.Errorf("key-encryption key %d has %d bytes; it needs %d", place, len(b), KeyBytes)
		}
		if _, twice := ring.find(id); twice {
			return nil, fmt.Errorf("key-encryption key %d has the id of an earlier one", place)
		}
		aead, err := newGCM(b)
		if err != nil {
			return nil, fmt.Errorf("prepare key-encryption key %d: %w", place, err)
		}
		ring.keys = append(ring.keys, key{id: id, aead: aead})
	}
	return ring, nil
}

// Empty reports whether there is no key.
func (k *Keyring) Empty() bool { return k == nil || len(k.keys) == 0 }

// KeyIDs are the ids in order; the first encrypts.
func (k *Keyring) KeyIDs() []string {
	if k.Empty() {
		return nil
	}
	ids := make([]string, len(k.keys))
	for i := range k.keys {
		ids[i] = k.keys[i].id
	}
	return ids
}

// String names the ids, never a key.
func (k *Keyring) String() string { return "keyring[" + strings.Join(k.KeyIDs(), " ") + "]" }

// GoString is String.
func (k *Keyring) GoString() string { return k.String() }

func (k *Keyring) find(id string) (key, bool) {
	i := slices.IndexFunc(k.keys, func(k key) bool { return k.id == id })
	if i < 0 {
		return key{}, false
	}
	return k.keys[i], true
}

func isKeyID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
