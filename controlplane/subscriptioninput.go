package controlplane

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/match"
	"github.com/streaming-hub/streaming-hub/hub/retry"
	"github.com/streaming-hub/streaming-hub/hub/wire"
)

// Bounds of texts and patterns in inputs.
const (
	maxName        = 200  // characters
	maxDescription = 2000 // characters
	maxReason      = 500  // characters, that a person gives
	maxEventTypes  = 100
	maxOrigin      = 223 // bytes, as of an event's source
)

// Given is a value of an input that tells absent from null: an absent one
// leaves what is there, null clears it.
type Given[T any] struct {
	Set   bool
	Value *T // nil for null
}

// Give is a value that is given.
func Give[T any](v T) Given[T] { return Given[T]{Set: true, Value: &v} }

// null reports whether null was given.
func (g Given[T]) null() bool { return g.Set && g.Value == nil }

func (s *Subscriptions) check(a Actor, n NewSubscription, now time.Time) (sub hub.EventSubscription, url string, mistakes []UserError) {
	tenant, mismatch := a.tenantFor(n.Tenant, []string{"input", "tenantId"})
	if mismatch != nil {
		mistakes = append(mistakes, *mismatch)
	}
	sub = hub.EventSubscription{
		Tenant: tenant, Name: n.Name, Description: n.Description, Origin: orZero(n.Origin),
		EventTypes: n.EventTypes, SchemaMajor: n.SchemaMajor, Kind: n.Kind,
		VerificationState: hub.VerificationPending, RetryPolicy: n.RetryPolicy, Timeout: n.Timeout,
		Headers: n.Headers, DisableOnGone: n.DisableOnGone,
	}
	mistakes = append(mistakes, s.judge(&sub)...)
	mistakes = append(mistakes, emptyOrigin(n.Origin)...)
	url, faults := s.checkURL(n.Kind, n.URL)
	mistakes = append(mistakes, faults...)
	if n.Kind == hub.SinkPull {
		sub.VerificationState = hub.VerificationActive // nothing to probe
	}
	return sub, url, append(mistakes, n.Destination.check(n.Kind, s.HeaderPrefix, now)...)
}

// emptyOrigin refuses an origin that is given and empty: it could be meant as
// any, or as a slip that lets everything in.
func emptyOrigin(given *string) []UserError {
	if given == nil || *given != "" {
		return nil
	}
	return []UserError{userError(Invalid, []string{"input", "origin"}, "an origin is not empty; null takes events of any source")}
}

// checkURL gives the canonical URL of a destination, "" of a PULL one.
func (s *Subscriptions) checkURL(kind hub.SinkKind, raw string) (string, []UserError) {
	path := []string{"input", "destination", "url"}
	switch {
	case kind == hub.SinkPull && raw != "":
		return "", []UserError{userError(Invalid, path, "a PULL destination has no URL")}
	case kind == hub.SinkPull:
		return "", nil
	case raw == "":
		return "", []UserError{userError(Required, path, "a WEBHOOK destination needs a URL")}
	}
	url, err := s.Addresses.CanonicalURL(raw)
	if err != nil {
		return "", []UserError{userError(Invalid, path, "%s", err)}
	}
	return url, nil
}

// judge tells every mistake in what a person may set of a subscription, and
// brings names and headers into the form in which they are kept.
func (s *Subscriptions) judge(sub *hub.EventSubscription) (mistakes []UserError) {
	fault := func(err error, path ...string) {
		mistakes = append(mistakes, userError(Invalid, append([]string{"input"}, path...), "%s", err))
	}
	sub.Name = strings.TrimSpace(sub.Name)
	if sub.Name == "" {
		fault(errors.New("a subscription needs a name"), "name")
	} else if err := checkText("name", sub.Name, maxName); err != nil {
		fault(err, "name")
	}
	if err := checkText("description", sub.Description, maxDescription); err != nil {
		fault(err, "description")
	}
	if sub.Origin != "" && (len(sub.Origin) > maxOrigin || !wire.IsSource(sub.Origin)) {
		fault(errors.New("an origin is the source of events: up to 223 lower-case letters, digits, dashes or underscores, first a letter or digit"), "origin")
	}
	if len(sub.EventTypes) == 0 || len(sub.EventTypes) > maxEventTypes {
		fault(errors.New("a subscription has 1 to 100 event types; * takes all"), "eventTypes")
	}
	for i, p := range sub.EventTypes[:min(len(sub.EventTypes), maxEventTypes)] {
		if err := match.CheckPattern(p); err != nil {
			fault(err, "eventTypes", strconv.Itoa(i))
		} else if slices.Contains(sub.EventTypes[:i], p) {
			fault(errors.New("this event type is given twice"), "eventTypes", strconv.Itoa(i))
		}
	}
	if sub.SchemaMajor != nil && *sub.SchemaMajor < 0 {
		fault(errors.New("a schema major version is 0 or more"), "schemaMajor")
	}
	if err := retry.Validate(sub.RetryPolicy); err != nil {
		fault(err, "retryPolicy")
	}
	if sub.Timeout < hub.MinTimeout || sub.Timeout > hub.MaxTimeout || sub.Timeout%time.Millisecond != 0 {
		fault(errors.New("a timeout is 1 to 30 seconds in whole milliseconds"), "timeout")
	}
	headers, err := wire.CustomHeaders(headerPrefix(s.HeaderPrefix), sub.Headers)
	switch {
	case err != nil:
		fault(err, "headers")
	case sub.Kind == hub.SinkPull && len(headers) > 0:
		fault(errors.New("a PULL subscription gets no requests, so it has no headers"), "headers")
	case len(headers) == 0:
		headers = nil
	}
	sub.Headers = headers
	return mistakes
}

func headerPrefix(configured string) string {
	if configured == "" {
		return wire.DefaultHeaderPrefix
	}
	return configured
}

func checkText(what, s string, longest int) error {
	switch {
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return errors.New("the " + what + " is not plain text")
	case utf8.RuneCountInString(s) > longest:
		return errors.New("the " + what + " has more than " + strconv.Itoa(longest) + " characters")
	}
	return nil
}
