package pull

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

const (
	maxWait       = 30 * time.Second
	maxLimit      = 1000 // events of an answer
	defaultLimit  = 100
	maxEventTypes = 100
	maxSource     = 223 // bytes, as of an event's source
	subscription  = "sub_"
)

// start says where a read begins.
type start int

const (
	behindSeq start = iota // behind params.after
	earliest               // with the oldest event that is kept
	latest                 // with the next event to come
)

// params are what a request asks for.
type params struct {
	tenant hub.TenantID // "" when not named
	start  start
	after  int64
	limit  int
	wait   time.Duration
	raw    bool
	// wish is the filter of event_type, origin and schema_major; nil when none
	// of them is given.
	wish *hub.EventSubscription
	// saved is the subscription whose filter also applies; zero for none.
	saved hub.SubscriptionID
}

// parseParams reads the query of a request. Each parameter may be given once,
// event_type several times; unknown ones are faults, so that a misspelt filter
// is not one that lets everything through.
func parseParams(rawQuery string) (params, *fault) {
	p := params{limit: defaultLimit}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return p, badRequest("the query is not well-formed: %v", err)
	}
	wish := hub.EventSubscription{Enabled: true, VerificationState: hub.VerificationActive, EventTypes: []string{"*"}}
	for name, list := range values {
		read, ok := readers[name]
		if !ok {
			return p, badParameter(name, "there is no parameter %.40q; there are after_seq, limit, event_type, origin, schema_major, wait, raw, subscription and tenant", name)
		}
		if len(list) > 1 && name != "event_type" {
			return p, badParameter(name, "%s is given %d times", name, len(list))
		}
		if err := read(&p, &wish, list); err != nil {
			return p, badParameter(name, "%s: %v", name, err)
		}
	}
	if values.Has("event_type") || values.Has("origin") || values.Has("schema_major") {
		p.wish = &wish
	}
	return p, nil
}

var readers = map[string]func(*params, *hub.EventSubscription, []string) error{
	"after_seq": func(p *params, _ *hub.EventSubscription, v []string) error {
		switch v[0] {
		case "earliest":
			p.start = earliest
			return nil
		case "latest":
			p.start = latest
			return nil
		}
		var ok bool
		if p.after, ok = number(v[0], 0, math.MaxInt64); !ok {
			return fmt.Errorf("%.40q is neither a seq, which is 0 or a larger whole number, nor earliest or latest", v[0])
		}
		return nil
	},
	"limit": func(p *params, _ *hub.EventSubscription, v []string) error {
		n, ok := number(v[0], 1, maxLimit)
		if !ok {
			return fmt.Errorf("%.40q is not a whole number from 1 to %d", v[0], maxLimit)
		}
		p.limit = int(n)
		return nil
	},
	"event_type": func(_ *params, wish *hub.EventSubscription, v []string) error {
		wish.EventTypes = strings.Split(strings.Join(v, ","), ",")
		if len(wish.EventTypes) > maxEventTypes {
			return fmt.Errorf("%d event types are more than %d", len(wish.EventTypes), maxEventTypes)
		}
		for _, pattern := range wish.EventTypes {
			if err := match.CheckPattern(pattern); err != nil {
				return err
			}
		}
		return nil
	},
	"origin": func(_ *params, wish *hub.EventSubscription, v []string) error {
		if wish.Origin = v[0]; len(v[0]) > maxSource || !wire.IsSource(v[0]) {
			return fmt.Errorf("%.40q is not a source: 1 to %d of a–z, 0–9, - and _, the first one a letter or digit", v[0], maxSource)
		}
		return nil
	},
	"schema_major": func(_ *params, wish *hub.EventSubscription, v []string) error {
		n, ok := number(v[0], 0, math.MaxInt32)
		if !ok {
			return fmt.Errorf("%.40q is not a whole number from 0 to %d", v[0], math.MaxInt32)
		}
		major := int32(n)
		wish.SchemaMajor = &major
		return nil
	},
	"wait": func(p *params, _ *hub.EventSubscription, v []string) (err error) {
		text := v[0]
		if _, isNumber := number(text, 0, math.MaxInt64); isNumber {
			text += "s"
		}
		if p.wait, err = time.ParseDuration(text); err != nil || p.wait < 0 || p.wait > maxWait {
			return fmt.Errorf("%.40q is not a time from 0 to %d seconds", v[0], int(maxWait.Seconds()))
		}
		return nil
	},
	"raw": func(p *params, _ *hub.EventSubscription, v []string) error {
		switch v[0] {
		case "1", "true":
			p.raw = true
		case "0", "false":
		default:
			return fmt.Errorf("%.40q is neither 1 nor 0", v[0])
		}
		return nil
	},
	"subscription": func(p *params, _ *hub.EventSubscription, v []string) error {
		digits, ok := strings.CutPrefix(v[0], subscription)
		if !ok || len(digits) != 2*len(p.saved.ID) {
			return fmt.Errorf("%.60q is not the id of an event subscription, %s and 32 hexadecimal digits", v[0], subscription)
		}
		if _, err := hex.Decode(p.saved.ID[:], []byte(digits)); err != nil {
			return fmt.Errorf("%.60q is not the id of an event subscription, %s and 32 hexadecimal digits", v[0], subscription)
		}
		return nil
	},
	"tenant": func(p *params, _ *hub.EventSubscription, v []string) error {
		if p.tenant = hub.TenantID(v[0]); !p.tenant.Valid() {
			return fmt.Errorf("%.40q is not a tenant id", v[0])
		}
		return nil
	},
}

// number reads digits only: no sign, no space, nothing else.
func number(text string, lowest, highest int64) (int64, bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && lowest <= n && n <= highest
}
