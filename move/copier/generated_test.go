package copier_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/move/copier"
)

// TestGeneratedColumns copies tables with generated columns: the copy and a verification detect values that a
// session of the source computed differently from the target.
func TestGeneratedColumns(t *testing.T) {
	onOneServer(t, "gen", func(t *testing.T, p *pair) {
		sqlExec(t, p.source, "CREATE TABLE plain (id INT PRIMARY KEY, b VARCHAR(20) CHARACTER SET utf8mb4, n INT, "+
			"g VARCHAR(60) CHARACTER SET utf8mb4 AS (CONCAT(UPPER(b), ')\\' AS (', n)) STORED, v INT AS (n * (n + 1)) VIRTUAL, KEY g (g), UNIQUE KEY u (v, id))",
			"INSERT INTO plain (id, b, n) VALUES (1, 'it''s', 2), (2, NULL, 3), (3, '\\\\', NULL)",
			"CREATE TABLE zone (id INT PRIMARY KEY, ts TIMESTAMP NULL, g DATETIME AS (ts) STORED)",
			"SET time_zone = '+05:00'", "INSERT INTO zone (id, ts) VALUES (1, '2026-01-02 03:04:05'), (2, NULL)", "SET time_zone = '+00:00'",
			"INSERT INTO zone (id, ts) VALUES (3, '2026-01-02 03:04:05')")
		for _, how := range []string{"direct", "wire"} {
			if p.over = nil; how == "wire" {
				p.over = overTheWire(t, root(p.from), wire.Zstd)
			}
			sqlExec(t, p.target, "DROP DATABASE copied", "CREATE DATABASE copied", "USE copied", "DROP DATABASE IF EXISTS _tare")
			o := p.into("copied", "plain")
			o.Verify = true
			report, err := copier.Run(t.Context(), o)
			if err != nil || report.Mismatches() != 0 {
				t.Fatalf("%s: %+v, %v", how, report, err)
			}
			_, err = copier.Run(t.Context(), p.into("copied", "zone"))
			if want := "generated columns (g) have other values in the target for 1 rows"; err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%s: %v, want %q", how, err, want)
			}
			if rows := read(t, p.target, "SELECT * FROM zone"); len(rows) > 0 {
				t.Errorf("%s: rows were written: %v", how, rows)
			}

			// Excluded by the operator, and detected by a verification once they are included again.
			o = p.into("copied", "zone")
			o.Restart = true
			o.Tables[0].Columns = []tabledef.ColumnSpec{{From: "id", To: "id"}, {From: "ts", To: "ts"}}
			if _, err := copier.Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			sqlExec(t, p.target, "UPDATE _tare.copy_table SET spec = REPLACE(spec, '; columns id, ts', '')")
			o = p.into("copied", "zone")
			o.Verify = true
			report, err = copier.Run(t.Context(), o)
			if err != nil || report.Mismatches() != 1 || fmt.Sprint(found(report.Tables[0].Verify)) != "[changed 1]" {
				t.Errorf("%s: %+v, %v", how, report, err)
			}
		}
	})
}

// TestGeneratedDefinitions checks that a target whose generated columns differ from the source's is refused.
func TestGeneratedDefinitions(t *testing.T) {
	onOneServer(t, "gen", func(t *testing.T, p *pair) {
		sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, n INT, g INT AS (n + id * 2) STORED, v VARCHAR(20) AS (CONCAT(n)) VIRTUAL)")
		for _, tt := range []struct{ target, want string }{
			{"g INT AS (n + id * 3) STORED, v VARCHAR(20) AS (CONCAT(n)) VIRTUAL", "generated column g is computed by "},
			{"g INT AS ((n + id) * 2) STORED, v VARCHAR(20) AS (CONCAT(n)) VIRTUAL", "generated column g is computed by "},
			{"g INT AS (n + id * 2) VIRTUAL, v VARCHAR(20) AS (CONCAT(n)) VIRTUAL", "generated column g is stored in one of the two only"},
			{"g BIGINT AS (n + id * 2) STORED, v VARCHAR(20) AS (CONCAT(n)) VIRTUAL", "generated column g is int"},
			{"g INT, v VARCHAR(20) AS (CONCAT(n)) VIRTUAL", "generated column g is missing in the target"},
			{"g INT AS (n + id * 2) STORED", "generated column v is missing in the target"},
			{"g INT AS (n + id * 2) STORED, v VARCHAR(20) AS (CONCAT(n)) VIRTUAL, w INT AS (1) VIRTUAL", "generated column w is missing in the source"},
			{"v VARCHAR(20) AS (CONCAT(n)) VIRTUAL, g INT AS (n + id * 2) STORED", ""},
		} {
			sqlExec(t, p.target, "DROP TABLE IF EXISTS a", "CREATE TABLE a (id INT PRIMARY KEY, n INT, "+tt.target+")")
			_, err := copier.Plan(t.Context(), p.into("copied", "a"))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %v, want %q", tt.target, err, tt.want)
			}
		}
	})
}
