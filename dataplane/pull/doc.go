// Package pull is the pull API, GET /v1/events: a tenant's events in seq
// order, behind a cursor that the reader keeps.
//
//	api.go      who asks, may he, and what he gets         (shell)
//	params.go   the query's parameters                      (pure)
//	page.go     which events belong into an answer          (shell around the filter)
//	answer.go   the answer's bytes, written piece by piece  (shell)
//	encode.go   one event as JSON, its payload verbatim     (pure)
//	fault.go    what is said when there is no page
//	watcher.go  wakes the long polls
//	gate.go     requests per second and at once, by tenant
//	places.go   where in time a cursor stands
//
// Why a cursor is safe: a tenant's seq is taken under the lock of its counter
// row, which is held until commit. So seq has no gaps, and whoever has seen n
// never sees a smaller one appear. The reader asks for the newest seq first
// and for the rows after that: a row that is missing between cursor and newest
// was dropped by retention, and nothing else. That is said with 410; it is
// never skipped in silence.
package pull
