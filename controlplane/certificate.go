package controlplane

import (
	"crypto/x509"
	"encoding/pem"
	"time"
)

// AboutCertificate says whom the first certificate of a chain in PEM names and
// when it runs out; both are zero for what cannot be read.
func AboutCertificate(chain string) (subject string, notAfter time.Time) {
	block, _ := pem.Decode([]byte(chain))
	if block == nil {
		return "", time.Time{}
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", time.Time{}
	}
	return leaf.Subject.String(), leaf.NotAfter
}
