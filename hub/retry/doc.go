// Package retry says when a failed delivery is tried again.
//
// A policy is one of three families. CURVE and SCHEDULE are lists of steps,
// each wait uniform between nothing and its step (full jitter), so that
// deliveries which failed together do not return together. EXPONENTIAL
// doubles without jitter.
//
// A policy ends a delivery in one of two ways: its attempts are used up
// (EXHAUSTED), or an attempt that started at or past the policy's age limit
// failed (EXPIRED). Such an attempt still runs; it is the last. A delay that
// is not a try, an open breaker or a rate limit for instance, uses up no
// attempt and never reaches this package.
//
// Waits are whole milliseconds.
package retry
