package receiver

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/streaming-hub/streaming-hub/hub/secret"
	"github.com/streaming-hub/streaming-hub/hub/signing"
)

// tolerance is how far a signature's time may lie from now; five minutes, as
// Standard Webhooks advises.
const tolerance = 5 * time.Minute

// Verdict on one signature header.
type Verdict string

const (
	Verified Verdict = "verified"
	Missing  Verdict = "missing"
	Mismatch Verdict = "wrong"
	// NoSecret means that the receiver has no secret for the path.
	NoSecret Verdict = "no secret"
)

// Signatures are the verdicts on both headers: webhook-signature by the
// Standard Webhooks library, and the hub's own.
type Signatures struct {
	Standard Verdict `json:"standard"`
	Own      Verdict `json:"own"`
}

// Verified reports whether both signatures are right.
func (s Signatures) Verified() bool { return s.Standard == Verified && s.Own == Verified }

// Wrong reports whether there is a secret and a signature that it did not make.
func (s Signatures) Wrong() bool { return !s.Verified() && s.Standard != NoSecret }

// keyring holds the accepted secrets by path.
type keyring struct {
	paths copyOnWrite[[]verifier]
}

// verifier checks with one secret.
type verifier struct {
	standard *standardwebhooks.Webhook
	signer   *signing.Signer
}

func (k *keyring) add(path, text string) error {
	key, err := secret.ParseSigning(text)
	if err != nil {
		return err
	}
	standard, err := standardwebhooks.NewWebhook(text)
	if err != nil {
		return err
	}
	v := verifier{standard: standard, signer: signing.NewSigner([]secret.Secret{key})}
	k.paths.update(func(m map[string][]verifier) { m[path] = append(m[path][:len(m[path]):len(m[path])], v) })
	return nil
}

// each calls f for the secrets of the path and those of all paths until one
// satisfies it; known is false when there are none.
func (k *keyring) each(path string, f func(verifier) bool) (satisfied, known bool) {
	own, _ := k.paths.get(path)
	for _, v := range own {
		if f(v) {
			return true, true
		}
	}
	everywhere, _ := k.paths.get("")
	for _, v := range everywhere {
		if f(v) {
			return true, true
		}
	}
	return false, len(own)+len(everywhere) > 0
}

// check has the standard header judged by the official library.
func (k *keyring) check(path string, h http.Header, prefix string, body []byte, now time.Time) Signatures {
	id, at, timely := stamp(h, now)
	own := h.Get(prefix + "Signature")
	return Signatures{
		Standard: verdict(k, path, h.Get(standardwebhooks.HeaderWebhookSignature), func(v verifier) bool {
			return timely && v.standard.VerifyIgnoringTimestamp(body, h) == nil
		}),
		Own: verdict(k, path, own, func(v verifier) bool {
			_, want := v.signer.Sign(id, at, body)
			return timely && lists(own, want)
		}),
	}
}

// quick judges both headers by the hub's own code in one pass.
func (k *keyring) quick(path string, h http.Header, prefix string, body []byte, now time.Time) Signatures {
	id, at, timely := stamp(h, now)
	standard, own := h.Get(standardwebhooks.HeaderWebhookSignature), h.Get(prefix+"Signature")
	both := verdict(k, path, standard, func(v verifier) bool {
		wantStandard, wantOwn := v.signer.Sign(id, at, body)
		return timely && lists(standard, wantStandard) && lists(own, wantOwn)
	})
	return Signatures{Standard: both, Own: both}
}

func verdict(k *keyring, path, header string, f func(verifier) bool) Verdict {
	ok, known := k.each(path, func(v verifier) bool { return header != "" && f(v) })
	switch {
	case ok:
		return Verified
	case !known:
		return NoSecret
	case header == "":
		return Missing
	}
	return Mismatch
}

// stamp is the id and time that the signatures cover.
func stamp(h http.Header, now time.Time) (id string, at int64, timely bool) {
	at, err := strconv.ParseInt(h.Get(standardwebhooks.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return "", 0, false
	}
	age := now.Sub(time.Unix(at, 0)).Abs()
	return h.Get(standardwebhooks.HeaderWebhookID), at, age <= tolerance
}

// lists reports whether a header's list, parted by spaces, has the signature.
// A development receiver need not compare in constant time.
func lists(header, signature string) bool {
	for given := range strings.SplitSeq(header, " ") {
		if given == signature {
			return true
		}
	}
	return false
}
