package copier_test

import (
	"testing"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/move/copier"
)

// TestCounters copies a table whose highest ids were deleted before the copy and reused during it. New rows
// of the target continue after the source's ids; a higher counter of the target is kept.
func TestCounters(t *testing.T) {
	for _, how := range []string{"direct", "wire"} {
		t.Run(how, func(t *testing.T) {
			p := newPair(t, "counters")
			if how == "wire" {
				p.over = overTheWire(t, root(p.from), wire.NoCompression)
			}
			const columns = " (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, b INT COMMENT '\n) AUTO_INCREMENT=7')"
			sqlExec(t, p.source, "CREATE TABLE b"+columns+" COMMENT='AUTO_INCREMENT=9'", "CREATE TABLE plain (id INT PRIMARY KEY)",
				"INSERT INTO b (b) SELECT seq FROM seq_1_to_100", "INSERT INTO b VALUES (500, 0)", "DELETE FROM b WHERE id > 90")
			sqlExec(t, p.target, "CREATE DATABASE counters", "CREATE TABLE counters.b"+columns)
			o := p.options("b", "plain")
			o.Observe = func(e telemetry.Event) {
				if e.Kind == telemetry.EventDone && e.Table == "counters.b" {
					if _, err := p.source.Exec(t.Context(), "INSERT INTO b VALUES (700, 0)"); err != nil {
						t.Error(err)
					}
				}
			}
			for _, want := range []string{"701", "702"} {
				if _, err := copier.Run(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				o.Observe = nil
				sqlExec(t, p.target, "INSERT INTO counters.b (b) VALUES (1)")
				if got := read(t, p.target, "SELECT MAX(id) FROM counters.b"); got[0] != `["`+want+`"]` {
					t.Errorf("the next id is %s, want %s", got[0], want)
				}
				sqlExec(t, p.target, "DELETE FROM counters.b WHERE id > 90")
			}
		})
	}
}
