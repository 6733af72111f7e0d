package pull

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestGate(t *testing.T) {
	t.Run("burst_then_rate_by_tenant", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			token, _ := b.token("acme")
			other, _ := b.token("bolt")
			ask := func(token string, n int) (good int, last *got) {
				for range n {
					if last = get(b.Context(), b, b.api, token, ""); last.status == 200 {
						good++
					}
				}
				return good, last
			}
			good, last := ask(token, 250)
			if good != 200 || last.status != 429 || last.header.Get("Retry-After") != "1" || last.Error.Code != "rate_limited" {
				b.Errorf("%d of 250 at once, then %d %s", good, last.status, last.text)
			}
			if good, _ := ask(other, 10); good != 10 {
				b.Errorf("another tenant got %d of 10", good)
			}
			time.Sleep(time.Second)
			if good, _ := ask(token, 250); good != 100 {
				b.Errorf("%d of 250 a second later", good)
			}
			if n := testutil.ToFloat64(b.metrics.Requests.WithLabelValues("4xx")); n != 200 {
				b.Errorf("%g requests counted as 4xx", n)
			}
		})
	})
	t.Run("memory_is_bounded", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			g := newGate(100, 200)
			for n := range 3 * maxGated {
				one, f := g.enter(hub.TenantID(rune('a'+n%26))+hub.TenantID(time.Duration(n).String()), time.Now())
				if f != nil {
					b.Fatal(f)
				}
				g.leave(one)
			}
			if len(g.tenants) > maxGated {
				b.Errorf("%d tenants", len(g.tenants))
			}
		})
	})
	t.Run("answers_of_a_tenant_at_once", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			g := newGate(100, 200)
			own, _ := g.enter("acme", time.Now())
			other, _ := g.enter("bolt", time.Now())
			var free func()
			for range answersOfTenant {
				var err error
				if free, err = g.slot(b.Context(), own); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := g.slot(b.Context(), other); err != nil {
				b.Errorf("another tenant: %v", err)
			}
			begun := time.Now()
			if _, err := g.slot(b.Context(), own); err == nil || time.Since(begun) != slotPatience {
				b.Errorf("one more after %s: %v", time.Since(begun), err)
			}
			free()
			if _, err := g.slot(b.Context(), own); err != nil {
				b.Errorf("after one was freed: %v", err)
			}
		})
	})
	t.Run("long_polls_of_a_tenant", func(t *testing.T) {
		g := newGate(math.MaxInt32, math.MaxInt32)
		own, _ := g.enter("acme", time.Now())
		var done func()
		for range maxWaiting {
			done, _ = g.startWaiting(own)
		}
		if _, f := g.startWaiting(own); f == nil || f.status != http.StatusTooManyRequests {
			t.Errorf("one more: %v", f)
		}
		done()
		if _, f := g.startWaiting(own); f != nil {
			t.Errorf("after one ended: %v", f)
		}
	})
}
