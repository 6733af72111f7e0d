package graph_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

func TestRetryPreview(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Viewer)
	const fields = `{ attempts { number earliest latest mean } total ageLimit userErrors { code message path } }`
	for policy, c := range map[string]struct {
		attempts           int
		last, total, limit string
	}{
		`{curve: true}`:                                        {8, "map[earliest:PT0S latest:PT27H35M5S mean:PT13H47M32.5S number:8]", "PT27H35M5S", "PT24H"},
		`{schedule: {steps: ["PT1M", "PT10S"]}}`:               {2, "map[earliest:PT0S latest:PT1M10S mean:PT35S number:2]", "PT1M10S", "PT24H"},
		`{schedule: {steps: ["PT1M"]}}`:                        {1, "map[earliest:PT0S latest:PT1M mean:PT30S number:1]", "PT1M", "PT24H"},
		`{exponential: {}}`:                                    {11, "map[earliest:PT47H57M32.8S latest:PT47H57M32.8S mean:PT47H57M32.8S number:11]", "PT47H57M32.8S", "PT48H"},
		`{exponential: {elapsed: true}}`:                       {12, "map[earliest:PT48H latest:PT48H mean:PT48H number:12]", "PT48H", "PT48H"},
		`{exponential: {unit: "PT1S", attempts: 1}}`:           {1, "map[earliest:PT0S latest:PT0S mean:PT0S number:1]", "PT0S", "PT48H"},
		`{exponential: {unit: "PT10H", attempts: 100}}`:        {4, "map[earliest:PT88H latest:PT88H mean:PT88H number:4]", "PT88H", "PT48H"},
		`{schedule: {steps: ["PT10H","PT10H","PT10H"]}}`:       {3, "map[earliest:PT0S latest:PT30H mean:PT15H number:3]", "PT30H", "PT30H"},
		`{schedule: {steps: ["PT0S","PT0.05S","PT0S","P0D"]}}`: {4, "map[earliest:PT0S latest:PT0.05S mean:PT0.025S number:4]", "PT0.05S", "PT24H"},
	} {
		t.Run(policy, func(t *testing.T) {
			p := w.must(token, `{ retryPreview(policy: `+policy+`) `+fields+` }`, nil).at("retryPreview")
			list := at(p, "attempts").([]any)
			if len(list) != c.attempts || fmt.Sprint(list[len(list)-1]) != c.last || at(p, "total") != c.total || at(p, "ageLimit") != c.limit || len(at(p, "userErrors").([]any)) != 0 {
				t.Errorf("%v", p)
			}
		})
	}
	for policy, says := range map[string]string{
		`{schedule: {steps: []}}`:            "a SCHEDULE retry policy has 0 steps; it needs 1 to 12",
		`{schedule: {steps: ["PT11H"]}}`:     "step 1 of the SCHEDULE retry policy is 39600000 ms; it needs 0 to 36000000 ms (10 h)",
		`{exponential: {attempts: 0}}`:       "the EXPONENTIAL retry policy has 0 attempts; it needs 1 to 100",
		`{exponential: {unit: "PT0.0001S"}}`: "the unit of the EXPONENTIAL retry policy is 0 ms; it needs 1 to 36000000 ms (10 h)",
	} {
		t.Run("malformed/"+policy, func(t *testing.T) {
			p := w.must(token, `{ retryPreview(policy: `+policy+`) `+fields+` }`, nil).at("retryPreview")
			e := at(p, "userErrors", 0)
			if len(at(p, "attempts").([]any)) != 0 || at(p, "total") != nil || at(p, "ageLimit") != nil || at(e, "code") != "INVALID" || at(e, "message") != says || fmt.Sprint(at(e, "path")) != "[policy]" {
				t.Errorf("%v", p)
			}
		})
	}
	t.Run("curve_false", func(t *testing.T) {
		p := w.must(token, `{ retryPreview(policy: {curve: false}) `+fields+` }`, nil).at("retryPreview")
		if at(p, "userErrors", 0, "code") != "INVALID" || fmt.Sprint(at(p, "userErrors", 0, "path")) != "[policy curve]" || at(p, "total") != nil {
			t.Errorf("%v", p)
		}
	})
	t.Run("a_setting_replaces_the_curve", func(t *testing.T) {
		w := newWorld(t)
		w.resolver.CurveSteps = []time.Duration{0, time.Second}
		a := w.must(w.token("acme", hub.Viewer), `{ curve: retryPreview(policy: {curve: true}) { total } own: retryPreview(policy: {schedule: {steps: ["PT1M"]}}) { total } }`, nil)
		if a.at("curve", "total") != "PT1S" || a.at("own", "total") != "PT1M" {
			t.Errorf("%v", a.Data)
		}
	})
	t.Run("exactly_one_family", func(t *testing.T) {
		for _, policy := range []map[string]any{{}, {"curve": true, "schedule": map[string]any{"steps": []string{"PT1S"}}}} {
			a := w.ask(token, `query ($p: RetryPolicyInput!) { retryPreview(policy: $p) { total } }`, map[string]any{"p": policy})
			if a.code() != "BAD_USER_INPUT" {
				t.Errorf("%v: %+v", policy, a)
			}
		}
	})
}
