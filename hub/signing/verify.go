package signing

import (
	"crypto/hmac"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// Verify reports whether a webhook-signature header holds the signature of one
// secret. It compares in constant time. The age of the timestamp is for the
// receiver to judge; five minutes is usual.
func Verify(key secret.Secret, webhookID string, timestamp int64, body []byte, header string) bool {
	standard, _ := NewSigner([]secret.Secret{key}).Sign(webhookID, timestamp, body)
	return holds(header, standard)
}

// VerifyLerian is Verify for the hub's own signature header.
func VerifyLerian(key secret.Secret, timestamp int64, body []byte, header string) bool {
	_, lerian := NewSigner([]secret.Secret{key}).Sign("", timestamp, body)
	return holds(header, lerian)
}

// holds looks for a signature in a list parted by spaces.
func holds(header, signature string) bool {
	found := false
	for given := range strings.SplitSeq(header, " ") {
		if signature != "" && hmac.Equal([]byte(given), []byte(signature)) {
			found = true
		}
	}
	return found
}
