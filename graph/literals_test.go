package graph_test

import (
	"strings"
	"testing"

	"github.com/streaming-hub/streaming-hub/hub"
)

// TestLiterals holds that an error about a document repeats no value of it.
func TestLiterals(t *testing.T) {
	w := newWorld(t)
	token := w.token("acme", hub.Admin)
	for name, destination := range map[string]string{
		"name_for_a_string":    `signingSecret: canary`,
		"list_for_a_string":    `signingSecret: ["canary"]`,
		"object_for_a_string":  `signingSecret: {a: "canary"}`,
		"string_for_an_object": `credential: "canary"`,
		"string_in_an_object":  `credential: {bearer: "canary"}`,
		"string_for_a_number":  `rateLimit: "canary"`,
		"string_for_an_enum":   `kind: "canary"`,
		"two_strings":          `signingSecret: "x" "canary"`,
		"string_for_a_name":    `"canary": 1`,
		"block_for_a_name":     `"""canary""" 1`,
		"unended_string":       `signingSecret: "canary`,
		"bad_escape":           `signingSecret: "\u1zcanary"`,
		"unknown_escape":       `signingSecret: "\qcanary"`,
	} {
		t.Run(name, func(t *testing.T) {
			a := w.ask(token, `mutation { createEventSubscription(input: {name: "x", eventTypes: ["*"], destination: {`+destination+`}}) { userErrors { code } } }`, nil)
			if len(a.Errors) == 0 {
				t.Fatal("it is no error")
			}
			for _, e := range a.Errors {
				if strings.Contains(e.Message, "canary") || e.Message == "" {
					t.Errorf("the error says %q", e.Message)
				}
			}
		})
	}
	if a := w.ask(token, `{ nonesuch }`, nil); len(a.Errors) != 1 || !strings.Contains(a.Errors[0].Message, "nonesuch") {
		t.Errorf("which field does not exist is not said: %+v", a.Errors)
	}
}
