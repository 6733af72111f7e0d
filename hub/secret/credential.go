package secret

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Bounds of credentials in bytes.
const (
	MaxCredentialBytes  = 4 << 10  // of a token, a password or a header's value
	MaxUserBytes        = 256      // of BASIC
	MaxCertificateBytes = 16 << 10 // of a chain in PEM
	MaxPrivateKeyBytes  = 16 << 10 // in PEM
)

// CheckCredential says what is wrong with a credential and its secret. Whether
// the header of HEADER may be set at all is not judged here. now is for the
// dates of a certificate. Errors repeat nothing of the secret.
func CheckCredential(c hub.Credential, plain Secret, now time.Time) error {
	value := string(plain.Reveal())
	switch c.Kind {
	case hub.CredentialBearer:
		if strings.Contains(value, " ") {
			return errors.New("the bearer token holds a space; give it without the word Bearer")
		}
		return checkValue("bearer token", value)
	case hub.CredentialBasic:
		switch {
		case c.Name == "" || len(c.Name) > MaxUserBytes || strings.Contains(c.Name, ":") || !isText(c.Name):
			return fmt.Errorf("the user name has 1 to %d bytes of text without a colon", MaxUserBytes)
		case value == "" || len(value) > MaxCredentialBytes || !isText(value):
			return fmt.Errorf("the password has 1 to %d bytes of text", MaxCredentialBytes)
		}
		return nil
	case hub.CredentialHeader:
		return checkValue("header's value", value)
	case hub.CredentialCertificate:
		return checkCertificate(c.Certificate, plain, now)
	}
	return fmt.Errorf("credential kind %.40q is unknown", string(c.Kind))
}

// checkValue holds what goes into a header as it is to printable ASCII, so
// that no receiver and no proxy reads it otherwise than it was meant.
func checkValue(what, value string) error {
	if value == "" || len(value) > MaxCredentialBytes || strings.TrimSpace(value) != value {
		return fmt.Errorf("the %s has 1 to %d bytes and no space around it", what, MaxCredentialBytes)
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return fmt.Errorf("the %s holds something beside printable ASCII", what)
		}
	}
	return nil
}

func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// CredentialHeader is the header line of an authorization: its name and its
// whole value. The name is "" for a certificate, which is no header.
func CredentialHeader(c hub.Credential, plain Secret) (name string, value Secret) {
	const authorization = "Authorization"
	switch c.Kind {
	case hub.CredentialBearer:
		return authorization, New(append([]byte("Bearer "), plain.Reveal()...))
	case hub.CredentialBasic:
		both := append([]byte(c.Name+":"), plain.Reveal()...)
		return authorization, New(base64.StdEncoding.AppendEncode([]byte("Basic "), both))
	case hub.CredentialHeader:
		return c.Name, plain
	}
	return "", Secret{}
}

// checkCertificate holds a chain and its key to be a pair that has not run out.
func checkCertificate(chain string, key Secret, now time.Time) error {
	if len(chain) > MaxCertificateBytes || len(key.Reveal()) > MaxPrivateKeyBytes {
		return fmt.Errorf("the certificate chain or its private key is larger than %d KiB", MaxCertificateBytes>>10)
	}
	if block, _ := pem.Decode([]byte(chain)); block == nil || block.Type != "CERTIFICATE" {
		return errors.New("the certificate chain is not PEM that begins with a CERTIFICATE")
	}
	pair, err := tls.X509KeyPair([]byte(chain), key.Reveal())
	if err != nil {
		// What the library says can hold parts of the input.
		return errors.New("the certificate chain and the private key are not a pair in PEM; the key must not be encrypted")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return errors.New("the first certificate of the chain cannot be read")
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate ran out at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
