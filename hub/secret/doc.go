// Package secret keeps signing secrets and credentials: in memory as a Secret
// that no formatter prints, at rest sealed in an envelope.
//
// Sealing draws a fresh data key for each secret, encrypts the secret with it
// and the data key with the first key of the Keyring, both with AES-256-GCM.
// The Binding, that is tenant, row and version, is additional data of both, so
// a sealed value copied to another row does not open. Every key of the ring
// opens; Rewrap moves a sealed value to the first key without touching the
// secret itself.
package secret
