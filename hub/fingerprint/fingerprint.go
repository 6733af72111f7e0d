// Package fingerprint groups failures by their cause: two dead letters with
// one fingerprint very likely need one repair.
package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Size of a fingerprint in bytes.
const Size = 16

// maxBody is how much of a normalised answer counts: the beginning says what
// is wrong, the end is often a stack or a page's footer.
const maxBody = 256

// Cause is what a delivery failed of.
type Cause struct {
	Destination hub.DestinationID
	Reason      hub.DeadReason // only of an end without an attempt
	Phase       hub.Phase
	Class       hub.ErrorClass
	Status      int32
	Body        string // of the answer, as kept
}

// Of is the fingerprint of a cause.
func Of(c Cause) []byte {
	h := sha256.New()
	h.Write(c.Destination.ID[:])
	for _, part := range []string{string(c.Reason), string(c.Phase), string(c.Class), Normalise(c.Body)} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	var status [4]byte
	binary.BigEndian.PutUint32(status[:], uint32(c.Status))
	h.Write(status[:])
	return h.Sum(nil)[:Size]
}

// Normalise takes out of an answer what differs from request to request: a
// word that holds a digit (a number, a time, an id) becomes "#", case and white
// space do not count, and neither does what stands behind the first 256 bytes.
func Normalise(body string) string {
	var b strings.Builder
	word := make([]byte, 0, 64)
	digits := false
	flush := func() {
		switch {
		case len(word) == 0:
			return
		case digits:
			b.WriteByte('#')
		default:
			b.Write(word)
		}
		word, digits = word[:0], false
	}
	for i := 0; i < len(body) && b.Len() < maxBody; i++ {
		c := body[i]
		switch {
		case '0' <= c && c <= '9':
			digits = true
			word = append(word, c)
		case 'A' <= c && c <= 'Z':
			word = append(word, c+'a'-'A')
		case 'a' <= c && c <= 'z' || c >= 0x80 || c == '_' || c == '-':
			word = append(word, c)
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			flush()
			if s := b.String(); s != "" && !strings.HasSuffix(s, " ") {
				b.WriteByte(' ')
			}
		default:
			flush()
			b.WriteByte(c)
		}
	}
	flush()
	s := strings.TrimSpace(b.String())
	return s[:min(len(s), maxBody)]
}
