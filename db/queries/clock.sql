-- name: ClockTime :one
SELECT clock_timestamp()::timestamptz AS now;
