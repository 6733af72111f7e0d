package wire_test

import (
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

func TestDedupKey_compares_bytes(t *testing.T) {
	seen := make(map[[16]byte]string)
	for _, k := range []struct {
		tenant     hub.TenantID
		source, id string
	}{
		{"t1", "a", "1"}, {"t1", "b", "1"}, {"t2", "a", "1"}, {"t1", "a", "X"}, {"t1", "a", "x"},
		{"t1", "a", "é"}, {"t1", "a", "e\u0301"}, {"t1", "a1", ""}, {"t1a", "", "1"}, {"t1", "a", "1 "},
		{"t1", "a", strings.Repeat("z", 20_000)}, {"t1", "a", strings.Repeat("z", 20_001)},
	} {
		key := wire.DedupKey(k.tenant, k.source, k.id)
		if other, twice := seen[key]; twice {
			t.Errorf("%v has the key of %s", k, other)
		}
		seen[key] = string(k.tenant) + "/" + k.source + "/" + k.id
		if key != wire.DedupKey(k.tenant, k.source, k.id) {
			t.Error("the key is not a function of its parts")
		}
	}
}

func TestDedupKey_is_stored_and_may_not_change(t *testing.T) {
	if got := wire.DedupKey("t1", "lender", "6f1d"); got != [16]byte([]byte(goldenKey)) {
		t.Errorf("%x", got)
	}
	if got := wire.ContentHash("a.b", []byte("{}")); got != [16]byte([]byte(goldenHash)) {
		t.Errorf("%x", got)
	}
}

func TestContentHash_covers_type_and_body(t *testing.T) {
	a := wire.ContentHash("t", []byte("body"))
	for _, b := range [][16]byte{
		wire.ContentHash("t", []byte("bodY")), wire.ContentHash("u", []byte("body")),
		wire.ContentHash("tb", []byte("ody")), wire.ContentHash("t", nil),
	} {
		if a == b {
			t.Error("another event has the same hash")
		}
	}
	if wire.ContentHash("t", nil) != wire.ContentHash("t", []byte{}) {
		t.Error("null and empty bodies differ")
	}
}

func BenchmarkDedupKey(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		wire.DedupKey("tenant-0001", "lender", "0198f3a2-7c11-7e60-a5f8-2f9d1f4b7a01")
	}
}

func BenchmarkContentHash(b *testing.B) {
	body := make([]byte, 1024)
	b.ReportAllocs()
	for b.Loop() {
		wire.ContentHash("studio.lerian.lender.loan_application.approved", body)
	}
}

// Made by another program, from the rule.
const (
	goldenKey  = "\x15\xe0\xcf\xe0\x83\x9c\x96\x9b\xb9\x12\x59\x5d\xc7\xa5\x6c\x4a"
	goldenHash = "\xd1\x6e\x4f\xd0\x46\x02\x8f\x9d\xf8\x2c\x76\xf0\xb4\x23\x8b\xf4"
)
