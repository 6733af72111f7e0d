// Package breaker keeps a destination that fails from being asked again and
// again: one circuit breaker for each (tenant, destination).
//
//	          5 in a row, or half of 10 in 2 min
//	CLOSED ───────────────────────────────────────▶ OPEN ◀──────┐
//	  ▲  ▲                                         │  │         │ the probe
//	  │  └──── a success of a last attempt ────────┘  │ wait    │ failed:
//	  │                                               ▼ over    │ wait × 2
//	  └──────────── the probe succeeded ────────── HALF_OPEN ───┘
//
// State is one row that all replicas share. A process reads it, asks Admit
// before each attempt, and sums what its attempts said in a Delta. Apply adds
// the Delta to the row; After does the same for one outcome and is the only
// way for a probe's. Each write is a compare-and-set on Version: who loses
// reads the row again and applies the same Delta to that. So no count is lost,
// and a probe, which counts as taken only once it is stored, is never taken
// twice.
//
// Each opening and each closing begins a new generation, and an attempt
// carries the generation it was admitted in. A failure of an older generation
// says nothing about this one: slow requests that began before the circuit
// opened cannot open it again after it healed.
//
// It is never stuck. A wait for a probe is at most MaxOpen, a probe whose
// worker died is free after ProbeLease, times that no clock could have written
// count as over, and while it is open the last attempt of a delivery still
// runs, so that none ends unsent.
package breaker
