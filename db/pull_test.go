package db_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/db/internal/dbsqlc"
	"github.com/streaming-hub/streaming-hub/hub"
)

func TestScratch(t *testing.T) {
	l := newLab(t)
	l.exec(`SELECT hub_ensure_partitions(now() + interval '40 days')`)
	l.exec("ANALYZE")
	ins := func(n int) {
		l.exec(fmt.Sprintf(`INSERT INTO events SELECT (left(hub_uuid_floor(now() + (n/1000.0) * interval '1 day')::text, 15) || right(md5(n::text||'%d')::uuid::text, 21))::uuid, 'tenant' || n %% 20, 1 + n/20, 's', 'c', 'a.b', '1', 1, now(), 't', 0, n, '{}', decode(repeat('41',1000),'hex') FROM generate_series(0, %d) n`, n, n))
	}
	show := func(what string) {
		conn := l.hotConn()
		plan := explain(t, conn, "x", dbsqlc.ScanEvents, fmt.Sprintf("'tenant3', 1900, '%s', 100", text(hub.FloorID(time.Now().Add(24*38*time.Hour)))))
		t.Log(what, plan)
		plan = explain(t, conn, "y", dbsqlc.NewestSeqs, "ARRAY['a','b']")
		t.Log(plan)
	}
	show("empty analyzed")
	ins(10)
	l.exec("ANALYZE")
	show("10 analyzed")
	ins(40000)
	show("40000 stale")
	l.exec("ANALYZE")
	show("analyzed")
}
