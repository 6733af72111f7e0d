package secret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// SigningPrefix begins the text form of a signing secret, as in Standard
// Webhooks.
const SigningPrefix = "whsec_"

// Sizes of a signing secret in bytes, after decoding.
const (
	MinSigningBytes = 24
	NewSigningBytes = 32
	MaxSigningBytes = 64
)

// ParseSigning reads whsec_ and the standard base64, with padding, of 24–64
// bytes. There is one meaning for one text: nothing is trimmed or guessed.
// Errors say what is wrong and repeat nothing of the secret.
func ParseSigning(s string) (Secret, error) {
	text, ok := strings.CutPrefix(s, SigningPrefix)
	switch {
	case strings.ContainsAny(s, " \t\r\n"):
		return Secret{}, errors.New("the signing secret holds spaces or line ends")
	case strings.HasPrefix(s, "v1,"):
		return Secret{}, errors.New("the signing secret begins with v1, which belongs to signatures; give it from whsec_ on")
	case !ok && strings.Contains(s, SigningPrefix):
		return Secret{}, errors.New("the signing secret has something before whsec_")
	case !ok:
		return Secret{}, errors.New("the signing secret does not begin with whsec_")
	case text == "":
		return Secret{}, errors.New("the signing secret is empty after whsec_")
	case strings.ContainsAny(text, "-_"):
		return Secret{}, errors.New("the signing secret is URL-safe base64; write it in standard base64, with + and /")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Secret{}, errors.New("the signing secret is not standard base64 with padding after whsec_")
	}
	if len(b) < MinSigningBytes || len(b) > MaxSigningBytes {
		return Secret{}, fmt.Errorf("the signing secret has %d bytes; it needs %d to %d", len(b), MinSigningBytes, MaxSigningBytes)
	}
	return New(b), nil
}

// NewSigning draws a signing secret of 32 bytes; text is what its owner is
// shown once. It panics when random fails, which a cryptographic source never
// does.
func NewSigning(random io.Reader) (text string, s Secret) {
	b := make([]byte, NewSigningBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		panic("secret: no randomness for a signing secret: " + err.Error())
	}
	s = New(b)
	return SigningText(s), s
}

// SigningText is the text form of a signing secret.
func SigningText(s Secret) string {
	return SigningPrefix + base64.StdEncoding.EncodeToString(s.Reveal())
}
