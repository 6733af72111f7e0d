package secret_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// kek is a key of 32 equal bytes as it stands in the settings.
func kek(id string, b byte) string {
	return id + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
}

func ring(t *testing.T, entries ...string) *secret.Keyring {
	t.Helper()
	k, err := secret.ParseKeyring(strings.Join(entries, ","))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var (
	plain   = secret.New([]byte("the signing key of a destination"))
	binding = secret.Binding{Tenant: "t1", Row: hub.ID{1}, Version: 3}
)

func TestKeyring_opens_what_it_sealed(t *testing.T) {
	k := ring(t, kek("2026", 1))
	sealed, err := k.Seal(rand.Reader, plain, binding)
	if err != nil {
		t.Fatal(err)
	}
	if sealed.KeyID != "2026" || bytes.Contains(sealed.Ciphertext, plain.Reveal()) {
		t.Errorf("%+v", sealed)
	}
	opened, err := k.Open(sealed, binding)
	if err != nil || !opened.Equal(plain) {
		t.Errorf("Open: %v", err)
	}
	again, err := k.Seal(rand.Reader, plain, binding)
	if err != nil || bytes.Equal(again.WrappedKey, sealed.WrappedKey) || bytes.Equal(again.Ciphertext, sealed.Ciphertext) {
		t.Error("sealing twice gave the same bytes")
	}
}

func TestKeyring_refuses_what_is_not_its_own(t *testing.T) {
	k := ring(t, kek("a", 1), kek("b", 2))
	sealed, err := k.Seal(rand.Reader, plain, binding)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(b []byte, i int) []byte { c := bytes.Clone(b); c[i] ^= 1; return c }
	for _, row := range []struct {
		rule    string
		sealed  secret.Sealed
		binding secret.Binding
	}{
		{"another_tenant", sealed, secret.Binding{Tenant: "t2", Row: binding.Row, Version: 3}},
		{"another_row", sealed, secret.Binding{Tenant: "t1", Row: hub.ID{2}, Version: 3}},
		{"another_version", sealed, secret.Binding{Tenant: "t1", Row: binding.Row, Version: 4}},
		{"another_key_of_the_ring", secret.Sealed{KeyID: "b", WrappedKey: sealed.WrappedKey, Ciphertext: sealed.Ciphertext}, binding},
		{"changed_ciphertext", secret.Sealed{KeyID: "a", WrappedKey: sealed.WrappedKey, Ciphertext: flip(sealed.Ciphertext, 20)}, binding},
		{"changed_nonce", secret.Sealed{KeyID: "a", WrappedKey: sealed.WrappedKey, Ciphertext: flip(sealed.Ciphertext, 0)}, binding},
		{"changed_data_key", secret.Sealed{KeyID: "a", WrappedKey: flip(sealed.WrappedKey, 20), Ciphertext: sealed.Ciphertext}, binding},
		{"wrapped_key_as_ciphertext", secret.Sealed{KeyID: "a", WrappedKey: sealed.WrappedKey, Ciphertext: sealed.WrappedKey}, binding},
		{"short_ciphertext", secret.Sealed{KeyID: "a", WrappedKey: sealed.WrappedKey, Ciphertext: sealed.Ciphertext[:10]}, binding},
		{"no_bytes", secret.Sealed{KeyID: "a"}, binding},
	} {
		t.Run(row.rule, func(t *testing.T) {
			if got, err := k.Open(row.sealed, row.binding); !errors.Is(err, secret.ErrTampered) || !got.IsZero() {
				t.Errorf("Open = %v", err)
			}
		})
	}
	var unknown *secret.UnknownKeyError
	if _, err := ring(t, kek("b", 2)).Open(sealed, binding); !errors.As(err, &unknown) || unknown.KeyID != "a" {
		t.Errorf("a ring without the key: %v", err)
	}
	if _, err := ring(t, kek("a", 9)).Open(sealed, binding); !errors.Is(err, secret.ErrTampered) {
		t.Errorf("a key of the same id: %v", err)
	}
}

func TestKeyring_first_encrypts_all_decrypt(t *testing.T) {
	old := ring(t, kek("old", 1))
	sealed, err := old.Seal(rand.Reader, plain, binding)
	if err != nil {
		t.Fatal(err)
	}
	both := ring(t, kek("new", 2), kek("old", 1))
	if opened, err := both.Open(sealed, binding); err != nil || !opened.Equal(plain) {
		t.Errorf("the old key no longer opens: %v", err)
	}
	if fresh, err := both.Seal(rand.Reader, plain, binding); err != nil || fresh.KeyID != "new" {
		t.Errorf("sealed with %q, %v", fresh.KeyID, err)
	}
}

func TestKeyring_Rewrap_moves_to_the_first_key(t *testing.T) {
	sealed, err := ring(t, kek("old", 1)).Seal(rand.Reader, plain, binding)
	if err != nil {
		t.Fatal(err)
	}
	both := ring(t, kek("new", 2), kek("old", 1))
	moved, changed, err := both.Rewrap(rand.Reader, sealed, binding)
	if err != nil || !changed || moved.KeyID != "new" || !bytes.Equal(moved.Ciphertext, sealed.Ciphertext) {
		t.Fatalf("Rewrap = %+v, %v, %v", moved, changed, err)
	}
	if opened, err := ring(t, kek("new", 2)).Open(moved, binding); err != nil || !opened.Equal(plain) {
		t.Errorf("the new key alone does not open it: %v", err)
	}
	if same, changed, err := both.Rewrap(rand.Reader, moved, binding); err != nil || changed || !bytes.Equal(same.WrappedKey, moved.WrappedKey) {
		t.Errorf("a second rewrap changed it: %v", err)
	}
	if _, _, err := both.Rewrap(rand.Reader, sealed, secret.Binding{Tenant: "t2", Row: binding.Row, Version: 3}); !errors.Is(err, secret.ErrTampered) {
		t.Errorf("rewrap for another row: %v", err)
	}
}

func TestKeyring_without_keys_refuses(t *testing.T) {
	for _, k := range []*secret.Keyring{ring(t), ring(t, " \n"), nil} {
		if !k.Empty() {
			t.Error("not empty")
		}
		if _, err := k.Seal(rand.Reader, plain, binding); !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("Seal = %v", err)
		}
		if _, err := k.Open(secret.Sealed{KeyID: "a"}, binding); !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("Open = %v", err)
		}
		if _, _, err := k.Rewrap(rand.Reader, secret.Sealed{}, binding); !errors.Is(err, secret.ErrNoKey) {
			t.Errorf("Rewrap = %v", err)
		}
	}
}

func TestKeyring_reports_failing_randomness(t *testing.T) {
	broken := errors.New("no entropy")
	for n := range 3 {
		random := bytes.NewReader(make([]byte, []int{0, 32, 44}[n]))
		reader := iotest.ErrReader(broken)
		if n > 0 {
			reader = random
		}
		if _, err := ring(t, kek("a", 1)).Seal(reader, plain, binding); err == nil {
			t.Errorf("sealed with %d random bytes", random.Size())
		}
	}
}

func TestParseKeyring(t *testing.T) {
	text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))
	for _, row := range []struct {
		rule, text string
		ok         bool
	}{
		{"two_keys_on_two_lines", kek("a", 1) + ",\n" + kek("b", 2) + "\n", true},
		{"no_id", text, false},
		{"empty_id", ":" + text, false},
		{"id_with_spaces", "a b:" + text, false},
		{"key_first", text + ":a", false},
		{"id_twice", kek("a", 1) + "," + kek("a", 2), false},
		{"16_bytes", "a:" + base64.StdEncoding.EncodeToString(make([]byte, 16)), false},
		{"no_base64", "a:" + strings.Repeat("?", 44), false},
		{"line_end_inside", "a:" + text[:10] + "\n" + text[10:], false},
		{"trailing_comma", kek("a", 1) + ",", false},
	} {
		t.Run(row.rule, func(t *testing.T) {
			k, err := secret.ParseKeyring(row.text)
			if (err == nil) != row.ok {
				t.Fatalf("ParseKeyring = %v", err)
			}
			for _, said := range []string{fmt.Sprint(err), fmt.Sprintf("%v %+v %#v", k, k, k)} {
				if strings.Contains(said, text[:8]) {
					t.Errorf("key material in %q", said)
				}
			}
		})
	}
}
