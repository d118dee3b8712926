package copier_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/move/copier"
)

var errStopHere = errors.New("stopped by the test")

// stopAfter runs a copy with one worker and stops it after the given number of chunks.
func stopAfter(t *testing.T, o copier.Options, chunks int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o.Workers = 1
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventChunk {
			if chunks--; chunks == 0 {
				cancel(errStopHere)
			}
		}
	}
	if _, err := copier.Run(ctx, o); !errors.Is(err, errStopHere) {
		t.Fatalf("the copy ended with %v, want it to be stopped", err)
	}
}

// equalRows compares the rows of a table with those of its copy.
func equalRows(t *testing.T, p *pair, name string) {
	t.Helper()
	sql := "SELECT * FROM %s ORDER BY 1, 2, 3"
	want, got := read(t, p.source, fmt.Sprintf(sql, name)), read(t, p.target, fmt.Sprintf(sql, "copied."+name))
	if !slices.Equal(want, got) {
		t.Errorf("table %s: %d rows, want %d", name, len(got), len(want))
	}
}

// TestKeyDirections copies, stops, resumes, follows and verifies tables with ascending and descending key
// columns, also with a key that was altered in between.
func TestKeyDirections(t *testing.T) {
	onOneServer(t, "directions", func(t *testing.T, p *pair) {
		const rows = " SELECT seq %% 7, CONCAT('n', seq %% 53), seq FROM seq"
		sqlExec(t, p.source, "CREATE TABLE seq AS WITH RECURSIVE s (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM s WHERE seq < 900) SELECT seq FROM s")
		create := func(name, key string) {
			sqlExec(t, p.source, fmt.Sprintf("CREATE TABLE %s (a INT NOT NULL, b VARCHAR(9) NOT NULL, c INT NOT NULL, PRIMARY KEY %s)", name, key), fmt.Sprintf("INSERT INTO %s"+rows, name), "ANALYZE TABLE "+name)
		}
		recorded := func(name, want string) {
			t.Helper()
			if got := read(t, p.target, "SELECT spec FROM _tare.copy_table WHERE target_table = '"+name+"'"); got[0] != fmt.Sprintf("[%q]", "table directions."+name+want) {
				t.Errorf("%s: recorded as %s", name, got)
			}
		}
		for _, tt := range []struct{ name, key, order, altered string }{
			{"mixed", "(a, b DESC, c)", "; chunks by asc, desc, asc", ""},
			{"down", "(a DESC, b DESC, c DESC)", "", ""},
			{"mixed2up", "(a DESC, b, c DESC)", "; chunks by desc, asc, desc", "(a, b, c)"},
			{"up2mixed", "(a, b, c)", "", "(a, b DESC, c)"},
			{"mixed2other", "(a, b DESC, c)", "; chunks by asc, desc, asc", "(a DESC, b, c)"},
		} {
			create(tt.name, tt.key)
			o := p.into("copied", tt.name)
			o.ChunkBytes = 1 << 10
			stopAfter(t, o, 4)
			recorded(tt.name, tt.order)
			if tt.altered != "" {
				sqlExec(t, p.source, "ALTER TABLE "+tt.name+" DROP PRIMARY KEY, ADD PRIMARY KEY "+tt.altered)
			}
			o.Verify = true
			report, err := runAfter(t, o)
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			if r := report.Tables[0]; r.Before < 4 || r.Chunks < 10 || report.Mismatches() != 0 || r.Verify.Compared() != r.Chunks {
				t.Errorf("%s: %+v, %+v", tt.name, r, r.Verify)
			}
			equalRows(t, p, tt.name)
			sqlExec(t, p.target, "DELETE FROM copied."+tt.name+" WHERE c = 77")
			if report, err = copier.Run(t.Context(), o); err != nil || report.Mismatches() != 1 {
				t.Errorf("%s: a lost row: %d mismatches, %v", tt.name, report.Mismatches(), err)
			}
		}
		create("followed", "(a, b DESC, c)")
		o := p.into("copied", "followed")
		o.ChunkBytes, o.Follow, o.UntilCaughtUp, o.Verify = 1<<10, true, true, true
		stopAfter(t, o, 3)
		sqlExec(t, p.source, "UPDATE followed SET b = CONCAT('m', b) WHERE a = 3", "DELETE FROM followed WHERE a = 5", "INSERT INTO followed VALUES (5, 'zz', 1), (-1, 'aa', 1), (99, 'q', 1)")
		report, err := runAfter(t, o)
		if err != nil || report.Mismatches() != 0 {
			t.Fatal(err)
		}
		equalRows(t, p, "followed")
		recorded("followed", "; chunks by asc, desc, asc")
	})
}

// TestKeyDirectionsOverTheWire cuts and verifies a table with a mixed key through a wire.Service.
func TestKeyDirectionsOverTheWire(t *testing.T) {
	p := newPair(t, "wiredirections")
	sqlExec(t, p.source, "CREATE TABLE a (x INT NOT NULL, y INT NOT NULL, PRIMARY KEY (x DESC, y))", "INSERT INTO a SELECT seq % 9, seq FROM seq_1_to_2000")
	p.over = overTheWire(t, root(p.from), wire.NoCompression)
	o := p.options("a")
	o.ChunkBytes, o.Follow, o.UntilCaughtUp, o.Verify = 1<<10, true, true, true
	stopAfter(t, o, 5)
	report, err := runAfter(t, o)
	if err != nil || report.Mismatches() != 0 || report.Tables[0].Chunks < 12 {
		t.Fatalf("%+v, %v", report, err)
	}
	p.same(t, "a")
	if got := read(t, p.target, "SELECT spec FROM _tare.copy_table"); !strings.Contains(got[0], "; chunks by desc, asc") {
		t.Errorf("recorded as %s", got)
	}
}
