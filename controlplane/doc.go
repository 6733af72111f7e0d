// Package controlplane holds what people may say and see: who is asking
// (Actor), event subscriptions and their verification, the history of
// events and deliveries, why an event matched, quarantined records and
// dead-letter observations, and the live feed of outcomes.
//
// It writes intent to Postgres and never sends an event. The one request that
// leaves it is the verification probe, made by the data plane's own sink
// behind the Prober interface. Its use cases know no GraphQL: package graph
// translates. A mistake in an input is a UserError and part of an answer; an
// error is the hub's own fault.
//
// A tenant never sees another's rows. Every use case takes the Actor and gives
// the same answer for what is missing and for what is not theirs. Behind that
// stands a second wall in the database: whoever lets an actor in calls Within.
package controlplane
