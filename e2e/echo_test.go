package e2e

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a receiver over TLS that repeats what proves who the hub is, in its
// answer's body and headers, in several notations.
type echo struct {
	url, caFile string
	fails, cuts atomic.Bool
	seen        [3]atomic.Bool
}

var echoPaths = []string{"/basic", "/bearer", "/header"}

func newEcho(t *testing.T, dir string) *echo {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	chain := certificate(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}, key.Public(), key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(chain), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{caFile: filepath.Join(dir, "ca.pem")}
	if err := os.WriteFile(e.caFile, []byte(chain), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert})
	if err != nil {
		t.Fatal(err)
	}
	e.url = "https://" + l.Addr().String()
	server := &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-served })
	return e
}

func (e *echo) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	proof := req.Header.Get("Authorization") + req.Header.Get("X-Api-Key")
	if i := slices.Index(echoPaths, req.URL.Path); i >= 0 && strings.Contains(proof+clear64(proof), "zqHEAD") &&
		(req.URL.Path != "/bearer" || len(req.TLS.PeerCertificates) == 1) {
		e.seen[i].Store(true)
	}
	inJSON, _ := json.Marshal(map[string]any{"headers": req.Header, "pair": clear64(proof)}) // a header always marshals
	text := fmt.Sprintf("%s\nyou sent Authorization: %s\nquoted %q\n%s\nin a URL %s\n%s\n", body, proof, proof, inJSON, url.QueryEscape(proof), clear64(proof))
	if e.cuts.Load() {
		// The part that is kept ends within the credential.
		text = strings.Repeat(" ", 16<<10-len("Bearer ")-14) + proof + text
	}
	h := w.Header()
	h.Set("X-Echo", proof)
	h.Set("X-Echo-Url", url.QueryEscape(proof))
	h.Set("Www-Authenticate", "Basic realm=\""+proof+"\"")
	h["X-Pair"] = []string{proof, clear64(proof)}
	if e.fails.Load() {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, text)
}

func (e *echo) showed() (paths []string) {
	for i, path := range echoPaths {
		if e.seen[i].Load() {
			paths = append(paths, path)
		}
	}
	return paths
}

// clear64 is the pair of a Basic credential.
func clear64(proof string) string {
	_, rest, _ := strings.Cut(proof, " ")
	pair, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return ""
	}
	return string(pair)
}

// clientPair is a client certificate whose private key is the text.
func clientPair(t *testing.T, seed string) (chain, key string) {
	t.Helper()
	private := ed25519.NewKeyFromSeed([]byte(seed))
	chain = certificate(t, &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour)}, private.Public(), private)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return chain, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func certificate(t *testing.T, template *x509.Certificate, public, private any) string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
