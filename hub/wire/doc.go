// Package wire is the border between Kafka and the hub, and between the hub
// and a webhook: it judges a record on the way in and writes an event's
// headers on the way out.
//
// A record carries one CloudEvent 1.0 in binary mode. Its attributes travel in
// headers named ce-<name> or ce_<name>, in any case; the record's value is the
// event's data and is never parsed. Judge gives one of three verdicts: Accept,
// Skip (well formed, but not for tenants) or Quarantine with a Reason.
//
// The checks have an order, and the first fault names the reason, so that the
// same record always gets the same verdict whatever the order of its headers:
// mode, conflicts, specversion, every attribute in the order of the table in
// attributes.go, extensions by name, skip, source against topic, type against
// its parts, size of headers, size of body.
package wire
