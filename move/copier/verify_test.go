package copier_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/rowstream"
)

// found lists the rows that a verification names, as "kind key".
func found(v *verify.Report) []string {
	var all []string
	for _, d := range v.Different {
		for _, row := range d.Rows {
			all = append(all, string(row.Kind)+" "+strings.Join(row.Key, "/"))
		}
	}
	slices.Sort(all)
	return all
}

// TestVerifyFinds corrupts the target in all ways in which a copy could go wrong: each is found, and narrowed
// to the keys of the rows. Verifying changes nothing, so a second verification finds the same.
func TestVerifyFinds(t *testing.T) {
	p := newPair(t, "verified")
	sqlExec(t, p.source,
		"CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, u VARCHAR(50), d DOUBLE, f FLOAT, b LONGBLOB, n INT NOT NULL, j BIT(12))",
		"INSERT INTO a SELECT seq, CONCAT('Row ', seq), '', 0, IF(seq = 30, 0, 0.5), REPEAT('b', 1000), seq, seq % 4096 FROM seq_1_to_6000",
		"CREATE TABLE k (x VARCHAR(20) COLLATE utf8mb4_general_ci, y BIT(9), v INT, PRIMARY KEY (x, y)) CHARACTER SET utf8mb4",
		"INSERT INTO k SELECT CONCAT('Key ', seq DIV 7), seq % 7, seq FROM seq_1_to_3000", "ANALYZE TABLE a, k")
	for _, how := range []string{"direct", "wire"} {
		t.Run(how, func(t *testing.T) {
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS verified", "DROP DATABASE IF EXISTS _tare")
			o := p.options("a", "k")
			if how == "wire" {
				o.From = overTheWire(t, root(p.from), wire.Zstd)
			}
			o.ChunkBytes, o.Verify = 600_000, true
			report, err := copier.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if report.Mismatches() != 0 || report.Tables[0].Verify.Rows != 6000 || report.Tables[0].Verify.Chunks < 5 {
				t.Fatalf("right after the copy: %+v", report.Tables[0].Verify)
			}
			sqlExec(t, p.target, "USE verified", testrows.Session,
				"UPDATE a SET b = CONCAT(REPEAT('b', 999), 'c') WHERE id = 10",
				"DELETE FROM a WHERE id IN (20, 6000)",
				"INSERT INTO a (id, n) VALUES (-1, 0), (7000, 0)",
				"UPDATE a SET f = -1e-60 WHERE id = 30", // -0
				"UPDATE a SET t = CONCAT(t, ' ') WHERE id = 40",
				"UPDATE a SET t = UPPER(t) WHERE id = 50",
				"UPDATE a SET u = NULL WHERE id = 60",
				"UPDATE a SET f = 0.50000006 WHERE id = 70",
				"UPDATE a SET n = IF(id = 5001, 5002, 5001) WHERE id IN (5001, 5002)", // an exchange, under which the XOR of CRCs stays the same
				"UPDATE a SET u = 'x', t = NULL WHERE id = 80",
				"UPDATE k SET x = LOWER(x) WHERE v = 100",
				"UPDATE k SET y = y + 256 WHERE v = 200")
			want := []string{
				"changed 10", "changed 30", "changed 40", "changed 50", "changed 5001", "changed 5002", "changed 60", "changed 70", "changed 80",
				"extra -1", "extra 7000", "missing 20", "missing 6000",
			}
			for range 2 {
				if report, err = copier.Run(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				a, k := report.Tables[0].Verify, report.Tables[1].Verify
				if diff := cmp.Diff(want, found(a)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]string{"extra Key 28/260", "extra key 14/2", "missing Key 14/2", "missing Key 28/4"}, found(k)); diff != "" {
					t.Error(diff)
				}
				if a.Missing != 2 || a.Extra != 2 || a.Changed != 9 || a.Truncated || !a.Different[0].Earlier || a.Before != 0 || report.Mismatches() != 17 {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

// TestVerifyGoesOn interrupts a verification: the next one resumes with the remaining chunks, and the one
// after that compares all again.
func TestVerifyGoesOn(t *testing.T) {
	p := newPair(t, "goeson")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(100))",
		"INSERT INTO a SELECT seq, REPEAT('x', 100) FROM seq_1_to_5000", "ANALYZE TABLE a")
	o := p.options("a")
	o.ChunkBytes, o.Workers, o.Verify = 30_000, 2, true
	stopped := errors.New("stopped by the test")
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := o
	n := 0
	events := make(chan struct{}, 1) // used as a lock
	interrupted.Observe = func(e telemetry.Event) {
		events <- struct{}{}
		defer func() { <-events }()
		if e.Kind == telemetry.EventVerified {
			if n++; n == 5 {
				cancel(stopped)
			}
		}
	}
	if _, err := copier.Run(ctx, interrupted); !errors.Is(err, stopped) && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	report, err := runAfter(t, o)
	if err != nil {
		t.Fatal(err)
	}
	v, chunks := report.Tables[0].Verify, report.Tables[0].Chunks
	if v.Before < 5 || v.Before+v.Chunks != chunks || v.Mismatches() != 0 {
		t.Errorf("gone on: %+v of %d chunks", v, chunks)
	}
	if report, err = copier.Run(t.Context(), o); err != nil || report.Tables[0].Verify.Chunks != chunks || report.Tables[0].Verify.Before != 0 {
		t.Errorf("all again: %+v, %v", report, err)
	}
}

// TestVerifyParts verifies copies of some rows and columns, under other names.
func TestVerifyParts(t *testing.T) {
	p := newPair(t, "parts")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(100), e ENUM('x', 'y'), big TEXT)",
		"INSERT INTO a SELECT seq, IF(seq % 3 = 0, NULL, CONCAT('c', seq)), 1 + seq % 2, 'big' FROM seq_1_to_2000")
	sqlExec(t, p.target, "CREATE DATABASE parts", "CREATE TABLE parts.b (e2 ENUM('x', 'y'), number INT PRIMARY KEY, other INT DEFAULT 5)")
	o := p.options("a")
	o.Verify = true
	s := &o.Tables[0]
	s.ToName, s.Where, s.ShardColumn, s.Shard = "b", "id > 100", "c", rowstream.Shard{Index: 1, Count: 2}
	s.Columns = []tabledef.ColumnSpec{{From: "e", To: "e2"}, {From: "id", To: "number"}}
	sqlExec(t, p.target, "ALTER TABLE parts.b DROP COLUMN other")
	report, err := copier.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if v := report.Tables[0].Verify; v.Mismatches() != 0 || v.Rows != report.Tables[0].Rows || v.Rows < 900 || v.Rows > 1500 {
		t.Errorf("%+v", v)
	}
	sqlExec(t, p.target, "UPDATE parts.b SET e2 = 3 - (e2 + 0) ORDER BY number LIMIT 1")
	if report, err = copier.Run(t.Context(), o); err != nil || report.Mismatches() != 1 {
		t.Errorf("%+v, %v", report, err)
	}

	o.Tables[0].Columns = []tabledef.ColumnSpec{{From: "e", To: "e2"}}
	sqlExec(t, p.target, "DROP DATABASE _tare", "CREATE OR REPLACE TABLE parts.b (e2 ENUM('x', 'y'))")
	if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the column id of its key is not among option columns") {
		t.Errorf("without the key: %v", err)
	}
	if got := read(t, p.target, "SELECT COUNT(*) FROM parts.b"); got[0] != `["0"]` {
		t.Errorf("it was found out after %v rows", got)
	}
}

// TestVerifyTruncates has more differences than are named: all are counted.
func TestVerifyTruncates(t *testing.T) {
	p := newPair(t, "truncated")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a SELECT seq FROM seq_1_to_3000")
	o := p.options("a")
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sqlExec(t, p.target, "DELETE FROM truncated.a WHERE id % 2 = 0", "INSERT INTO truncated.a SELECT seq FROM test.seq_5001_to_7000")
	o.Verify = true
	report, err := copier.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if v := report.Tables[0].Verify; v.Missing != 1500 || v.Extra != 2000 || !v.Truncated || len(found(v)) != 1000 {
		t.Errorf("missing %d, extra %d, truncated %v, %d named", v.Missing, v.Extra, v.Truncated, len(found(v)))
	}
}
