package copier_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/move/copier"
)

// TestOldTemporalFormat copies and follows columns that MariaDB keeps in the format of its version 5.3, of a table from before an upgrade,
// or under mysql56_temporal_format=0, in the source, in the target and in both.
func TestOldTemporalFormat(t *testing.T) {
	p := newPair(t, "temporal")
	const definition = " (id INT PRIMARY KEY, d DATETIME, d3 DATETIME(3), ts TIMESTAMP NULL, ts6 TIMESTAMP(6) NULL, tm TIME, tm2 TIME(2))"
	for _, name := range []string{"old", "new"} {
		sqlExec(t, p.source, "SET GLOBAL mysql56_temporal_format = "+map[string]string{"old": "0", "new": "1"}[name], "CREATE TABLE "+name+definition)
	}
	insert := func(name string, id string) string {
		return "INSERT INTO temporal." + name + " VALUES (" + id + ", '2026-01-02 03:04:05', '2026-01-02 03:04:05.678', '2026-01-02 03:04:05', '2026-01-02 03:04:05.678901', '-123:04:05', '12:34:56.78')," +
			"(" + id + "+1, NULL, NULL, NULL, NULL, NULL, NULL), (" + id + "+2, '0000-00-00', '9999-12-31 23:59:59.999', '1970-01-02', '2038-01-01', '00:00:00', '-838:59:59.99')"
	}
	sqlExec(t, p.source, "SET sql_mode = ''", insert("old", "1"), insert("new", "1"))
	const rows = "SELECT id, d, d3, ts, ts6, tm, tm2 FROM temporal."
	for _, format := range []string{"1", "0"} {
		sqlExec(t, p.target, "SET GLOBAL mysql56_temporal_format = "+format)
		for _, name := range []string{"old", "new"} {
			sqlExec(t, p.target, "DROP DATABASE IF EXISTS temporal", "DROP DATABASE IF EXISTS _tare")
			o := p.options(name)
			o.Verify = true
			if _, err := copier.Run(t.Context(), o); err != nil {
				t.Fatalf("source %s, target's format %s: %v", name, format, err)
			}
			if d := cmp.Diff(read(t, p.source, rows+name), read(t, p.target, rows+name)); d != "" {
				t.Errorf("source %s, target's format %s (- source, + target)\n%s", name, format, d)
			}
			sqlExec(t, p.target, "DROP DATABASE temporal", "DROP DATABASE _tare")
			o.Follow, o.UntilCaughtUp = true, true
			written := false
			o.Observe = func(e telemetry.Event) {
				if e.Kind == telemetry.EventFollow && !written {
					written = true
					sqlExec(t, p.source, insert(name, "1"+format+"01"), "UPDATE temporal."+name+" SET d3 = d3 + INTERVAL 1 MICROSECOND, tm2 = '-00:00:00.01' WHERE id = 1")
				}
			}
			_, err := copier.Run(t.Context(), o)
			if name == "old" {
				if err == nil || written || !strings.Contains(err.Error(), "column d3: MariaDB keeps its datetime(3) in the format of version 5.3") {
					t.Errorf("followed: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(read(t, p.source, rows+name), read(t, p.target, rows+name)); d != "" {
				t.Errorf("followed, target's format %s (- source, + target)\n%s", format, d)
			}
		}
	}
	sqlExec(t, p.target, "SET GLOBAL mysql56_temporal_format = 1")
}
