package copier_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// heapMost runs do and returns the maximum growth of the bytes of the heap's objects. The collector runs so
// often that they include little garbage.
func heapMost(t *testing.T, do func()) int64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtime.GC()
	metrics.Read(sample)
	before := int64(sample[0].Value.Uint64())
	most := before
	end := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for ticker := time.NewTicker(time.Millisecond); ; {
			select {
			case <-end:
				ticker.Stop()
				return
			case <-ticker.C:
				metrics.Read(sample)
				most = max(most, int64(sample[0].Value.Uint64()))
			}
		}
	})
	do()
	close(end)
	testwait.Group(t, "the sampling to end", &sampling)
	return most - before
}

// TestHugeRow copies, verifies and follows one huge row of bytes that must be escaped in statements: memory
// stays within three times the row, even where an event has two images of it.
func TestHugeRow(t *testing.T) {
	p := newPairAlone(t, "huge") // the heap is that of the process
	for _, c := range []*mysqlconn.Client{p.source, p.target} {
		sqlExec(t, c, "SET GLOBAL max_allowed_packet = 1 << 30")
		defer sqlExec(t, c, "SET GLOBAL max_allowed_packet = DEFAULT")
	}
	row := int64(hugeRow) << 20
	source := connect(t, root(p.from))
	sqlExec(t, source, "USE huge", "CREATE TABLE t (id INT PRIMARY KEY, n INT, c LONGBLOB NOT NULL)")
	huge := func(id string) []string {
		return []string{"INSERT INTO t SELECT " + id + ", 1, REPEAT(x'000102090a5c27ff', @n)"}
	}
	sqlExec(t, source, "SET @n = "+strconv.FormatInt(row/8, 10))
	sqlExec(t, source, huge("1")...)
	const slack = 24 << 20
	within := func(what string, do func()) {
		t.Helper()
		most := heapMost(t, do)
		t.Logf("%s: %.2f times the row", what, float64(most)/float64(row))
		if most > 3*row+slack {
			t.Errorf("%s: the heap had %d bytes, more than three times the row's %d", what, most, row)
		}
	}
	run := func(o copier.Options) {
		t.Helper()
		from := root(p.from)
		from.MaxPacket, o.To.MaxPacket = 1<<30, 1<<30
		o.From = copier.FromServer(from)
		report, err := copier.Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if n := report.Mismatches(); n > 0 {
			t.Fatalf("%d rows differ", n)
		}
	}
	for _, how := range []string{"0", "1"} {
		sqlExec(t, p.target, "DROP DATABASE IF EXISTS huge", "DROP DATABASE IF EXISTS _tare", "SET GLOBAL local_infile = "+how)
		within(map[string]string{"0": "copy by INSERT", "1": "copy by LOAD DATA"}[how], func() { run(p.options("t")) })
	}
	o := p.options("t")
	o.Verify = true
	within("verify", func() { run(o) })
	o = p.options("t")
	o.Follow, o.UntilCaughtUp = true, true
	sqlExec(t, source, huge("2")...)
	within("follow an insert", func() { run(o) })
	sqlExec(t, source, "UPDATE t SET n = 2 WHERE id = 1")
	within("follow an update", func() { run(o) })
	sqlExec(t, source, "DELETE FROM t WHERE id = 1")
	within("follow a delete", func() { run(o) })
	p.same(t, "t")
}
