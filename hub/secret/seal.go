package secret

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/streaming-hub/streaming-hub/hub"
)

// ErrTampered is returned when a sealed value does not belong to its binding
// or its bytes were changed.
var ErrTampered = errors.New("the sealed secret does not belong to this row or was changed")

// UnknownKeyError is returned when a sealed value was wrapped by a key that is
// not in the ring.
type UnknownKeyError struct{ KeyID string }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("the sealed secret needs key-encryption key %q, which is not configured", e.KeyID)
}

// Binding is the place to which a sealed value belongs.
type Binding struct {
	Tenant  hub.TenantID
	Row     hub.ID
	Version int32
}

// Sealed is a secret at rest. WrappedKey and Ciphertext each begin with their
// nonce of 12 bytes.
type Sealed struct {
	KeyID      string
	WrappedKey []byte
	Ciphertext []byte
}

// Seal encrypts a secret for one place. It fails with ErrNoKey on an empty
// ring, and when random does.
func (k *Keyring) Seal(random io.Reader, plain Secret, b Binding) (Sealed, error) {
	if k.Empty() {
		return Sealed{}, ErrNoKey
	}
	dataKey := make([]byte, KeyBytes)
	defer clear(dataKey)
	if _, err := io.ReadFull(random, dataKey); err != nil {
		return Sealed{}, fmt.Errorf("draw a data key: %w", err)
	}
	data, err := newGCM(dataKey)
	if err != nil {
		return Sealed{}, fmt.Errorf("prepare a data key: %w", err)
	}
	s := Sealed{KeyID: k.keys[0].id}
	if s.Ciphertext, err = seal(random, data, plain.Reveal(), b.data(purposeSecret, "")); err != nil {
		return Sealed{}, err
	}
	if s.WrappedKey, err = seal(random, k.keys[0].aead, dataKey, b.data(purposeDataKey, s.KeyID)); err != nil {
		return Sealed{}, err
	}
	return s, nil
}

// Open decrypts a sealed secret. It fails with ErrNoKey on an empty ring, with
// an *UnknownKeyError when the ring lacks the key, and with ErrTampered when
// the value is not what was sealed for this binding.
func (k *Keyring) Open(s Sealed, b Binding) (Secret, error) {
	dataKey, err := k.unwrap(s, b)
	if err != nil {
		return Secret{}, err
	}
	defer clear(dataKey)
	data, err := newGCM(dataKey)
	if err != nil {
		return Secret{}, ErrTampered
	}
	plain, err := open(data, s.Ciphertext, b.data(purposeSecret, ""))
	if err != nil {
		return Secret{}, err
	}
	return New(plain), nil
}

// Rewrap moves a sealed secret to the first key of the ring: the data key is
// wrapped anew, the ciphertext stays. changed is false when the first key
// already holds it; running it again is harmless.
func (k *Keyring) Rewrap(random io.Reader, s Sealed, b Binding) (next Sealed, changed bool, err error) {
	if k.Empty() {
		return s, false, ErrNoKey
	}
	first := k.keys[0]
	if s.KeyID == first.id {
		return s, false, nil
	}
	dataKey, err := k.unwrap(s, b)
	if err != nil {
		return s, false, err
	}
	defer clear(dataKey)
	wrapped, err := seal(random, first.aead, dataKey, b.data(purposeDataKey, first.id))
	if err != nil {
		return s, false, err
	}
	return Sealed{KeyID: first.id, WrappedKey: wrapped, Ciphertext: s.Ciphertext}, true, nil
}

func (k *Keyring) unwrap(s Sealed, b Binding) ([]byte, error) {
	if k.Empty() {
		return nil, ErrNoKey
	}
	wrapper, ok := k.find(s.KeyID)
	if !ok {
		return nil, &UnknownKeyError{KeyID: s.KeyID}
	}
	return open(wrapper.aead, s.WrappedKey, b.data(purposeDataKey, s.KeyID))
}

// The two uses of a binding; a wrapped key never passes as a ciphertext.
const (
	purposeSecret  = "streaming-hub secret 1"
	purposeDataKey = "streaming-hub data key 1"
)

// data is the additional data of an encryption: purpose, key id, tenant, row
// and version, texts behind their lengths.
func (b Binding) data(purpose, keyID string) []byte {
	out := make([]byte, 0, 128)
	for _, part := range [...]string{purpose, keyID, string(b.Tenant)} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	out = append(out, b.Row[:]...)
	return binary.BigEndian.AppendUint32(out, uint32(b.Version))
}

func seal(random io.Reader, aead cipher.AEAD, plain, data []byte) ([]byte, error) {
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	if _, err := io.ReadFull(random, nonce); err != nil {
		return nil, fmt.Errorf("draw a nonce: %w", err)
	}
	return aead.Seal(nonce, nonce, plain, data), nil
}

func open(aead cipher.AEAD, sealed, data []byte) ([]byte, error) {
	n := aead.NonceSize()
	if len(sealed) < n+aead.Overhead() {
		return nil, ErrTampered
	}
	plain, err := aead.Open(nil, sealed[:n], sealed[n:], data)
	if err != nil {
		return nil, ErrTampered
	}
	return plain, nil
}
