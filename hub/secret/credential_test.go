package secret_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// pair is a self-signed client certificate that runs out at end.
func pair(t *testing.T, end time.Time) (chain, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub.example"}, NotBefore: end.Add(-time.Hour), NotAfter: end,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", raw)
}

func TestCheckCredential(t *testing.T) {
	now := time.Now()
	chain, private := pair(t, now.Add(time.Minute))
	old, oldKey := pair(t, now.Add(-time.Minute))
	const bearer, basic, header, certificate = hub.CredentialBearer, hub.CredentialBasic, hub.CredentialHeader, hub.CredentialCertificate
	for _, row := range []struct {
		rule    string
		kind    hub.CredentialKind
		name    string
		chain   string
		plain   string
		refused string // part of the reason; "" for fine
	}{
		{rule: "bearer", kind: bearer, plain: "tok.en-1_2~+/="},
		{rule: "bearer_empty", kind: bearer, refused: "1 to 4096 bytes"},
		{rule: "bearer_4096_bytes", kind: bearer, plain: strings.Repeat("x", 4096)},
		{rule: "bearer_4097_bytes", kind: bearer, plain: strings.Repeat("x", 4097), refused: "1 to 4096 bytes"},
		{rule: "bearer_with_its_word", kind: bearer, plain: "Bearer supersecret", refused: "without the word Bearer"},
		{rule: "bearer_line_end", kind: bearer, plain: "supersecret\r\nX-Evil:1", refused: "printable ASCII"},
		{rule: "bearer_beyond_ascii", kind: bearer, plain: "supersécret", refused: "printable ASCII"},
		{rule: "basic", kind: basic, name: "me", plain: "päss: word"},
		{rule: "basic_without_user", kind: basic, plain: "supersecret", refused: "user name"},
		{rule: "basic_user_with_colon", kind: basic, name: "a:b", plain: "supersecret", refused: "user name"},
		{rule: "basic_user_not_text", kind: basic, name: "a\xff", plain: "supersecret", refused: "user name"},
		{rule: "basic_without_password", kind: basic, name: "me", refused: "password"},
		{rule: "basic_password_with_line_end", kind: basic, name: "me", plain: "a\nb", refused: "password"},
		{rule: "header", kind: header, name: "X-Api-Key", plain: "a b"},
		{rule: "header_padded", kind: header, name: "X-Api-Key", plain: " supersecret", refused: "no space around"},
		{rule: "header_nul", kind: header, name: "X-Api-Key", plain: "a\x00b", refused: "printable ASCII"},
		{rule: "certificate", kind: certificate, chain: chain, plain: private},
		{rule: "certificate_ran_out", kind: certificate, chain: old, plain: oldKey, refused: "ran out"},
		{rule: "certificate_with_another_key", kind: certificate, chain: chain, plain: oldKey, refused: "not a pair"},
		{rule: "certificate_is_a_key", kind: certificate, chain: private, plain: private, refused: "begins with a CERTIFICATE"},
		{rule: "certificate_is_no_pem", kind: certificate, chain: "hello", plain: private, refused: "not PEM"},
		{rule: "certificate_too_large", kind: certificate, chain: chain + strings.Repeat("\n", 16<<10), plain: private, refused: "larger than 16 KiB"},
		{rule: "unknown_kind", kind: "MAGIC", plain: "supersecret", refused: "unknown"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			err := secret.CheckCredential(hub.Credential{Kind: row.kind, Name: row.name, Certificate: row.chain}, secret.New([]byte(row.plain)), now)
			if (err == nil) != (row.refused == "") || err != nil && !strings.Contains(err.Error(), row.refused) {
				t.Errorf("refused with %v, want %q", err, row.refused)
			}
			if err != nil && strings.Contains(err.Error(), "supers") {
				t.Errorf("the error repeats the secret: %v", err)
			}
		})
	}
}

func TestCredentialHeader(t *testing.T) {
	for _, row := range []struct {
		rule        string
		kind        hub.CredentialKind
		name, plain string
		wantName    string
		want        string
	}{
		{"bearer", hub.CredentialBearer, "", "tok", "Authorization", "Bearer tok"},
		// RFC 7617, section 2.
		{"basic", hub.CredentialBasic, "Aladdin", "open sesame", "Authorization", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
		{"header", hub.CredentialHeader, "X-Api-Key", "k", "X-Api-Key", "k"},
		{"certificate_is_no_header", hub.CredentialCertificate, "", "k", "", ""},
	} {
		t.Run(row.rule, func(t *testing.T) {
			name, value := secret.CredentialHeader(hub.Credential{Kind: row.kind, Name: row.name}, secret.New([]byte(row.plain)))
			if name != row.wantName || string(value.Reveal()) != row.want {
				t.Errorf("%s: %s", name, value.Reveal())
			}
		})
	}
}
