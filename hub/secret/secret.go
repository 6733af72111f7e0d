package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[REDACTED]"

// Secret is key material in memory. Every formatter prints [REDACTED]; only
// Reveal gives the bytes. The zero value holds none.
type Secret struct {
	// A closure, because fmt reads unexported fields without calling their
	// methods, and for a verb that does not fit it follows pointers too. Of a
	// function it prints the address only.
	reveal func() []byte
}

// New keeps b, which the caller hands over.
func New(b []byte) Secret { return Secret{func() []byte { return b }} }

// Reveal gives the bytes themselves, not a copy; nil of the zero value.
func (s Secret) Reveal() []byte {
	if s.reveal == nil {
		return nil
	}
	return s.reveal()
}

// IsZero reports whether there are no bytes.
func (s Secret) IsZero() bool { return len(s.Reveal()) == 0 }

// Equal compares in constant time for equal lengths.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare(s.Reveal(), other.Reveal()) == 1
}

// String is [REDACTED], as are all the forms below.
func (Secret) String() string { return redacted }

func (Secret) GoString() string { return redacted }

func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
