package access

import (
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// TokenPrefix begins every API token, so that secret scanners find it.
const TokenPrefix = "shub_"

var tokenAlphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// tokenText is shub_<id>_<random>_<checksum>. The checksum lets a mistyped or
// cut token be told without the database.
func tokenText(id hub.TokenID, key [32]byte) string {
	body := TokenPrefix + tokenAlphabet.EncodeToString(id.ID[:]) + "_" + tokenAlphabet.EncodeToString(key[:])
	return body + "_" + tokenSum(body)
}

func tokenSum(body string) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE([]byte(body)))
	return tokenAlphabet.EncodeToString(sum[:])
}

func parseTokenText(text string) (id hub.TokenID, ok bool) {
	rest, ok := strings.CutPrefix(text, TokenPrefix)
	end := strings.LastIndexByte(text, '_')
	if !ok || len(text) > 200 || end < len(TokenPrefix) || tokenSum(text[:end]) != text[end+1:] {
		return id, false
	}
	name, _, _ := strings.Cut(rest, "_")
	raw, err := tokenAlphabet.DecodeString(name)
	if err != nil || len(raw) != len(id.ID) {
		return id, false
	}
	copy(id.ID[:], raw)
	return id, true
}

// Bearer is the token of an Authorization header's value, "" when there is
// none.
func Bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
