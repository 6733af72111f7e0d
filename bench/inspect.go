package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// profileSeconds is shorter than any run worth profiling.
const profileSeconds = 5

// inspect begins to watch where the time goes, as far as the options ask for
// it; the function it returns ends that and prints what Postgres did.
func (r *rig) inspect(ctx context.Context) (end func() error, err error) {
	profiled := make(chan error, 1)
	if r.o.profile != "" {
		go func() { profiled <- r.saveProfile() }()
	} else {
		profiled <- nil
	}
	if !r.o.statements {
		return func() error { return <-profiled }, nil
	}
	conn, err := pgx.Connect(ctx, r.postgres.DSN())
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT pg_stat_statements_reset()"); err != nil {
		return nil, fmt.Errorf("watch Postgres's statements: %w", err)
	}
	return func() error {
		defer conn.Close(ctx)
		rows, err := conn.Query(ctx, `
			SELECT round(total_exec_time)::int, calls::int, rows::int, (wal_bytes / 1024)::int, left(regexp_replace(query, '\s+', ' ', 'g'), 60)
			FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 14`)
		if err != nil {
			return err
		}
		defer rows.Close()
		fmt.Printf("%9s %8s %9s %9s  statement\n", "ms", "calls", "rows", "WAL KiB")
		for rows.Next() {
			var ms, calls, n, wal int
			var query string
			if err := rows.Scan(&ms, &calls, &n, &wal, &query); err != nil {
				return err
			}
			fmt.Printf("%9d %8d %9d %9d  %s\n", ms, calls, n, wal, query)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return <-profiled
	}, nil
}

func (r *rig) saveProfile() error {
	res, err := http.Get(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", r.planeURL, profileSeconds))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	file, err := os.Create(r.o.profile)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, res.Body)
	return err
}

// metric reads one number of the data plane's metrics.
func (r *rig) metric(name string) (float64, error) {
	res, err := http.Get(r.planeURL + "/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}
