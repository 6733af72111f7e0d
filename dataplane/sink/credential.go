package sink

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"

	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// Credential is one header that proves who the hub is to a receiver:
// Authorization with a bearer token or a user's password, or the header of an
// API key. It is sent after all other headers and wins over a custom one.
type Credential struct {
	Header string
	Value  secret.Secret // the whole value, for example "Bearer …"
}

// Bearer is the credential of RFC 6750.
func Bearer(token secret.Secret) *Credential {
	return &Credential{Header: "Authorization", Value: secret.New(append([]byte("Bearer "), token.Reveal()...))}
}

// Basic is the credential of RFC 7617.
func Basic(user string, password secret.Secret) *Credential {
	pair := append([]byte(user+":"), password.Reveal()...)
	return &Credential{Header: "Authorization", Value: secret.New(append([]byte("Basic "), base64.StdEncoding.EncodeToString(pair)...))}
}

// Certificate is a client certificate with its private key. The zero value is
// not one; NewCertificate makes it.
type Certificate struct {
	pair tls.Certificate
	identity
}

// identity tells client certificates apart; the zero value is that of no
// certificate.
type identity [sha256.Size]byte

// NewCertificate reads a chain, the client's own certificate first, and its
// key, both PEM. That the key belongs to the certificate is checked here:
// whoever holds only a copy of the certificate, which is no secret, gets
// nothing that could use another's connections.
func NewCertificate(chain []byte, key secret.Secret) (*Certificate, error) {
	pair, err := tls.X509KeyPair(chain, key.Reveal())
	if err != nil {
		return nil, fmt.Errorf("the client certificate and its key do not make a pair: %w", err)
	}
	digest := sha256.New()
	for _, der := range pair.Certificate {
		fmt.Fprintf(digest, "%d:", len(der))
		digest.Write(der)
	}
	return &Certificate{pair: pair, identity: identity(digest.Sum(nil))}, nil
}

// identityOf is what a connection made with c proves of its client.
func identityOf(c *Certificate) identity {
	if c == nil {
		return identity{}
	}
	return c.identity
}

// certificateKey finds the certificate in the context of a handshake.
type certificateKey struct{}

// presentCertificate answers a receiver that asks for a client certificate,
// with the destination's or with none.
func presentCertificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c, ok := info.Context().Value(certificateKey{}).(*Certificate); ok {
		return &c.pair, nil
	}
	return &tls.Certificate{}, nil
}
