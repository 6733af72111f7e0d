package wire

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/streaming-hub/streaming-hub/hub"
)

// DedupKey is the fixed-size form of (tenant, source, ce-id): the first half of
// SHA-256 over the three parts, each behind its length. Ids are compared byte
// by byte, without folding case or Unicode forms. A fixed size keeps long ids
// out of the index.
func DedupKey(t hub.TenantID, source, ceID string) [16]byte {
	var room [1024]byte // the longest parts are 256 + 223 + 256 bytes
	b := room[:0]
	b = appendPart(b, string(t))
	b = appendPart(b, source)
	b = appendPart(b, ceID)
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}

// ContentHash tells a repeat of an event from another event under the same
// key: the first half of SHA-256 over the type behind its length, and the body.
func ContentHash(ceType string, body []byte) [16]byte {
	var room [512]byte
	h := sha256.New()
	h.Write(appendPart(room[:0], ceType))
	h.Write(body)
	return [16]byte(h.Sum(room[:0])[:16])
}

// PlaceOf says what is kept once per place; the keys of different things, and
// those of events, never meet.
type PlaceOf byte

const (
	PlaceOfQuarantine  PlaceOf = 'q'
	PlaceOfObservation PlaceOf = 'o'
)

// PlaceKey is the dedup key of a record's place: it is kept once however often
// Kafka hands it out, and again when a topic was deleted and made anew.
func PlaceKey(of PlaceOf, topicID [16]byte, partition int32, offset int64) [16]byte {
	var b [16 + 4 + 8 + 1]byte
	copy(b[:], topicID[:])
	binary.BigEndian.PutUint32(b[16:], uint32(partition))
	binary.BigEndian.PutUint64(b[20:], uint64(offset))
	b[28] = byte(of)
	sum := sha256.Sum256(b[:])
	return [16]byte(sum[:16])
}

func appendPart(b []byte, part string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
	return append(b, part...)
}
