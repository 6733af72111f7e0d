// Package health says when a destination that keeps failing is no longer
// tried. A destination has one of two policies.
//
// FAILURE_SPAN (Span) judges each subscription by its unbroken run of
// failures: it trips when the run has lasted long enough and its failures lie
// far enough apart, so that neither one bad hour nor one failure long ago
// disables anything. One success ends the run.
//
// FAILURE_RATE (Rate) judges a destination URL by its counts since the last
// enabling. DISABLED still tries one delivery every ten minutes, whose success
// enables the URL again; FROZEN tries nothing until a person enables it.
//
// Test sends never reach this package. What the verdicts lead to, held
// deliveries, notifications and the kill switch, is the caller's business.
package health
