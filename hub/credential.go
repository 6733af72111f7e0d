package hub

import "time"

// CredentialKind is how a destination wants to know the hub, beside the
// signature.
type CredentialKind string

const (
	CredentialBearer      CredentialKind = "BEARER"             // Authorization: Bearer <secret>
	CredentialBasic       CredentialKind = "BASIC"              // Authorization: Basic <name:secret in base64>
	CredentialHeader      CredentialKind = "HEADER"             // <name>: <secret>
	CredentialCertificate CredentialKind = "CLIENT_CERTIFICATE" // TLS; the secret is the private key
)

// CredentialSlot is the place of a credential: a destination has at most one
// for each.
type CredentialSlot string

const (
	SlotAuthorization CredentialSlot = "AUTHORIZATION" // a header: BEARER, BASIC or HEADER
	SlotCertificate   CredentialSlot = "CERTIFICATE"
)

// Slot is where a credential of this kind belongs.
func (k CredentialKind) Slot() CredentialSlot {
	if k == CredentialCertificate {
		return SlotCertificate
	}
	return SlotAuthorization
}

// Credential is what a destination asks of the hub beside the signature,
// without its secret.
type Credential struct {
	Kind CredentialKind
	// Name is the user of BASIC and the header's name of HEADER.
	Name string
	// Certificate is the chain of CLIENT_CERTIFICATE in PEM, the hub's own
	// first.
	Certificate string
	Version     int32 // from 1; grows when it is replaced
	CreatedAt   time.Time
}

// SigningKey is what may be told of a signing secret.
type SigningKey struct {
	Version   int32 // from 1, counts the destination's secrets
	CreatedAt time.Time
	EndsAt    time.Time // end of the overlap; zero for the current one
}
