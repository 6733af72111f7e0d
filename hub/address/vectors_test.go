package address_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub/address"
)

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/address.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Rows []struct {
			Name     string
			IP       string
			Allowed  bool
			URL      string
			Accepted *bool
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, row := range vectors.Rows {
		t.Run(row.Name, func(t *testing.T) {
			if row.IP != "" {
				if got := address.Allowed(netip.MustParseAddr(row.IP)); got != row.Allowed {
					t.Errorf("Allowed(%s) = %v, want %v", row.IP, got, row.Allowed)
				}
				return
			}
			got, err := address.Policy{}.CanonicalURL(row.URL)
			if row.Accepted != nil && (err == nil) != *row.Accepted {
				t.Errorf("CanonicalURL(%q) = %q, %v; accepted should be %v", row.URL, got, err, *row.Accepted)
			}
		})
	}
	if len(vectors.Rows) < 70 {
		t.Fatalf("only %d rows", len(vectors.Rows))
	}
}
