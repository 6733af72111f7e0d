package signing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"

	"github.com/streaming-hub/streaming-hub/hub/secret"
)

const (
	standardPrefix = "v1,"
	lerianPrefix   = "v1,sha256="
)

// Signer signs with one destination's secrets. It is reusable and safe for
// concurrent use.
type Signer struct {
	keys   int
	states sync.Pool // of *state
}

// state is what one signing needs: a keyed HMAC per secret and room for the
// texts.
type state struct {
	macs []hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

// NewSigner takes the valid secrets, the newest first. Empty ones are left
// out: an empty key would sign for everybody.
func NewSigner(keys []secret.Secret) *Signer {
	usable := make([]secret.Secret, 0, len(keys))
	for _, k := range keys {
		if !k.IsZero() {
			usable = append(usable, k)
		}
	}
	s := &Signer{keys: len(usable)}
	s.states.New = func() any {
		st := &state{macs: make([]hash.Hash, len(usable))}
		for i, k := range usable {
			st.macs[i] = hmac.New(sha256.New, k.Reveal())
		}
		return st
	}
	return s
}

// Keys is the number of secrets, thus of signatures in each header. A signer
// without any signs nothing, and the request must not be sent.
func (s *Signer) Keys() int { return s.keys }

// Sign gives the values of both signature headers, "" of a signer without
// secrets. timestamp is in Unix seconds.
func (s *Signer) Sign(webhookID string, timestamp int64, body []byte) (standard, lerian string) {
	if s.keys == 0 {
		return "", ""
	}
	st := s.states.Get().(*state)
	defer s.states.Put(st)

	text := append(st.text[:0], webhookID...)
	text = append(text, '.')
	text = strconv.AppendInt(text, timestamp, 10)
	text = append(text, '.')
	head := len(text)
	text = append(text, "v1:"...)
	text = strconv.AppendInt(text, timestamp, 10)
	text = append(text, '.')
	end := len(text)

	for i, mac := range st.macs {
		if i > 0 {
			text = append(text, ' ')
		}
		text = append(text, standardPrefix...)
		text = base64.StdEncoding.AppendEncode(text, st.mac(mac, text[:head], body))
	}
	mid := len(text)
	for i, mac := range st.macs {
		if i > 0 {
			text = append(text, ' ')
		}
		text = append(text, lerianPrefix...)
		text = hex.AppendEncode(text, st.mac(mac, text[head:end], body))
	}
	st.text = text
	return string(text[end:mid]), string(text[mid:])
}

// mac is the HMAC of head and body, valid until the next call.
func (st *state) mac(mac hash.Hash, head, body []byte) []byte {
	mac.Reset()
	mac.Write(head)
	mac.Write(body)
	return mac.Sum(st.sum[:0])
}
