package copier_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// TestVerifyFollowed compares both sides while the source is written to continuously: rows that change during
// the comparison are no mismatch, and those that differ in the target are found.
func TestVerifyFollowed(t *testing.T) {
	p := newPair(t, "verifyfollowed")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, n INT NOT NULL, c VARCHAR(100))",
		"INSERT INTO a SELECT seq, 0, REPEAT('x', 100) FROM seq_1_to_3000", "ANALYZE TABLE a")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing sync.WaitGroup
	defer testwait.Group(t, "the writer to stop", &writing)
	defer stop()
	writing.Go(func() { // writes all rows except those whose number is a multiple of ten
		c, err := session.Connect(ctx, root(p.from))
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		rnd := newRand(3)
		pace := time.NewTicker(5 * time.Millisecond) // at full speed, nearly every comparison meets a row that has just changed
		defer pace.Stop()
		for ctx.Err() == nil {
			<-pace.C
			id := rnd.IntN(300)*10 + 1 + rnd.IntN(9)
			sql := fmt.Sprintf("UPDATE verifyfollowed.a SET n = n + 1 WHERE id = %d", id)
			if rnd.IntN(3) == 0 {
				sql = fmt.Sprintf("REPLACE INTO verifyfollowed.a VALUES (%d, 0, 'again')", id)
			} else if rnd.IntN(3) == 0 {
				sql = fmt.Sprintf("DELETE FROM verifyfollowed.a WHERE id = %d", id)
			}
			if _, err := c.Exec(ctx, sql); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	o := p.options("a")
	o.ChunkBytes, o.Workers, o.Follow, o.UntilCaughtUp, o.Verify = 90_000, 2, true, true, true
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventDiffers || e.Kind == telemetry.EventRetry {
			t.Logf("%s chunk %d: %s", e.Kind, e.Chunk, e.Text)
		}
	}
	report, err := copier.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	v := report.Tables[0].Verify
	if v == nil || v.Passes < 1 || v.Chunks != report.Tables[0].Chunks || v.Mismatches() != 0 {
		t.Fatalf("while it is written to: %+v", v)
	}

	// Rows after the start of the last chunk, many more than a chunk has.
	sqlExec(t, p.source, "INSERT INTO a SELECT seq, 0, REPEAT('y', 100) FROM seq_3001_to_9000")
	if _, err = copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sqlExec(t, p.target, "UPDATE verifyfollowed.a SET n = 7 WHERE id = 6000")
	if report, err = copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	v = report.Tables[0].Verify
	if diff := cmp.Diff([]string{"changed 6000"}, found(v)); diff != "" {
		t.Error(diff)
	}
	if v.Chunks != report.Tables[0].Chunks || v.Rows < 6300 {
		t.Errorf("%d of %d chunks with %d rows were compared", v.Chunks, report.Tables[0].Chunks, v.Rows)
	}
	for _, d := range v.Different {
		if d.After == nil || d.Upto == nil || d.Source.Rows > 3000 {
			t.Errorf("a difference is named within %v to %v, %d rows: the rows behind the last chunk are compared as one", d.After, d.Upto, d.Source.Rows)
		}
	}
	sqlExec(t, p.target, "UPDATE verifyfollowed.a SET n = 0 WHERE id = 6000")

	sqlExec(t, p.target, "UPDATE verifyfollowed.a SET n = 7 WHERE id IN (10, 1500)", "DELETE FROM verifyfollowed.a WHERE id = 2990", "INSERT INTO verifyfollowed.a VALUES (0, 0, '')")
	if report, err = copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	v = report.Tables[0].Verify
	names := found(v)
	if diff := cmp.Diff([]string{"changed 10", "changed 1500", "extra 0", "missing 2990"}, names); diff != "" {
		t.Error(diff)
	}
	if v.Changed != 2 || v.Extra != 1 || v.Missing != 1 || v.Different[0].Position == "" {
		t.Errorf("%+v", v)
	}
}
