// Package match says which subscriptions want an event, and why.
//
// A subscription wants an event when six clauses hold: same tenant, enabled,
// verified, origin, event type, schema major. Each clause is one function, and
// Wants, Explain and Index all ask the same six, so that what the hub does and
// what it says about it cannot differ.
//
// The kind of the destination is no clause: a pull subscription matches too,
// as a saved filter. Whoever makes deliveries leaves those out.
package match
