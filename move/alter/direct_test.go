package alter

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/taredb/tare/internal/move/telemetry"
)

// TestLint has what servers say of clauses.
func TestLint(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE "+d.schema+".t (id INT PRIMARY KEY, a INT, b VARCHAR(20), c DATETIME(6), KEY k (a), CONSTRAINT positive CHECK (a > 0))",
			"INSERT INTO "+d.schema+".t VALUES (1, 1, 'x', '2026-01-01'), (2, 2, 'y', '2026-01-02')")
		for _, tt := range []struct {
			clauses string
			always  bool
			limit   int64
			way     Way
			why     string
		}{
			{clauses: "ADD COLUMN note VARCHAR(200)", way: WayInstant},
			{clauses: "ADD COLUMN note VARCHAR(200)", always: true, way: WayCopy, why: "option always-copy"},
			{clauses: "DROP INDEX k", way: WayInplace, why: "no rows are written"},
			{clauses: "ADD INDEX k2 (b)", way: WayInplace, why: "option max-inplace allows"},
			{clauses: "ADD INDEX k2 (b)", limit: -1, way: WayCopy, why: "option max-inplace allows"},
			{clauses: "MODIFY a VARCHAR(20)", way: WayCopy, why: "blocks writes"},
			{clauses: "ADD COLUMN d INT, ADD INDEX k2 (d), MODIFY a BIGINT", way: WayCopy, why: "blocks writes"},
			{clauses: "DROP COLUMN missing", way: WayNone, why: "missing"},
		} {
			o := d.options("t", tt.clauses)
			o.AlwaysCopy, o.MaxInplace = tt.always, tt.limit
			p, err := Lint(t.Context(), o)
			if err != nil {
				t.Errorf("%s: %v", tt.clauses, err)
				continue
			}
			if p.Way != tt.way || !strings.Contains(p.Why, tt.why) {
				t.Errorf("%s: by %s (%s), want %s (%s); %+v", tt.clauses, p.Way, p.Why, tt.way, tt.why, p.Judgement)
			}
		}
		c := d.connect()
		if left := d.value(c, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_tare' AND TABLE_NAME LIKE '"+newJudge(c, &Statement{Schema: d.schema, Table: "t"}, nil).name+"%'"); left != "0" {
			t.Errorf("%s probes are left", left)
		}
	})
}

// TestSize has the size of tables whose statistics are those of an empty table: it is that of their files, partitions included.
func TestSize(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for table, partitions := range map[string]string{"t": "", "p": " PARTITION BY HASH (id) PARTITIONS 3"} {
			d.exec("CREATE TABLE "+d.schema+"."+table+" (id INT AUTO_INCREMENT PRIMARY KEY, a CHAR(200) NOT NULL) STATS_AUTO_RECALC=0"+partitions,
				"ANALYZE TABLE "+d.schema+"."+table, "INSERT INTO "+d.schema+"."+table+" (a) VALUES ('x')")
			for range 14 {
				d.exec("INSERT INTO " + d.schema + "." + table + " (a) SELECT a FROM " + d.schema + "." + table)
			}
			p, err := Lint(t.Context(), d.options(table, "ADD COLUMN b INT"))
			if err != nil {
				t.Fatal(err)
			}
			if p.Bytes < 3<<20 || p.Bytes > 64<<20 { // 16,384 rows of more than 200 bytes
				t.Errorf("%s: %d bytes", table, p.Bytes)
			}
		}
	})
}

// TestDirect alters tables by the server's own algorithms.
func TestDirect(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE "+d.schema+".t (id INT PRIMARY KEY, a INT, KEY k (a))", "INSERT INTO "+d.schema+".t VALUES (1, 1)")
		for _, tt := range []struct {
			clauses string
			way     Way
		}{{"ADD COLUMN note VARCHAR(200)", WayInstant}, {"ADD INDEX k2 (note), DROP INDEX k", WayInplace}} {
			r, err := Run(t.Context(), d.options("t", tt.clauses))
			if err != nil {
				t.Fatal(err)
			}
			if r.Way != tt.way || r.Tries != 1 {
				t.Errorf("%s: %+v", tt.clauses, r)
			}
		}
		c := d.connect()
		if keys := d.value(c, "SELECT GROUP_CONCAT(INDEX_NAME, COLUMN_NAME ORDER BY 1) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME = 't'"); keys != "k2note,PRIMARYid" {
			t.Errorf("keys are %s", keys)
		}
		o := d.options("t", "ADD COLUMN a INT")
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "1060") {
			t.Errorf("a column that exists: %v", err)
		}
		o = d.options("t", "MODIFY a VARCHAR(20)")
		o.NeverCopy = true
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "option never-copy") {
			t.Errorf("never a copy: %v", err)
		}
	})
}

// TestLockWait has a client hold the table's lock: clients behind the ALTER TABLE are served between its tries, and it gives up.
func TestLockWait(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE "+d.schema+".t (id INT PRIMARY KEY)", "INSERT INTO "+d.schema+".t VALUES (1)")
		holder := d.connect()
		for _, sql := range []string{"START TRANSACTION", "SELECT * FROM t"} {
			if _, err := holder.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		o := d.options("t", "ADD COLUMN a INT")
		o.LockTries, o.MaxLockWait, o.Monitor = 1, time.Second, &Monitor{}
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "open in each of 1 tries") {
			t.Errorf("a lock that is held: %v", err)
		}
		if s := o.Monitor.Status(); s.Alter.LockTries != 1 || len(s.Alter.Tries) != 1 || s.Alter.Tries[0].Error == "" || s.Alter.LockSeconds < 1 || s.Alter.Step() != telemetry.StepAltering {
			t.Errorf("after a wait that was given up: %+v", s.Alter)
		}
		if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if r, err := Run(t.Context(), o); err != nil || r.Way != WayInstant {
			t.Errorf("a lock that is free: %+v, %v", r, err)
		}
		s := o.Monitor.Status()
		if len(s.Alter.Tries) != 1 || s.Alter.Tries[0].Error != "" || s.Alter.LockSeconds != 0 || s.Alter.Step() != telemetry.StepDone || s.Alter.Way != "instant" || s.From != d.server.Addr {
			t.Errorf("after the next run: %+v of %s", s.Alter, s.From)
		}
		if err := testutil.CollectAndCompare(o.Monitor, strings.NewReader(`
# HELP tare_alter_lock_tries_total Statements and swaps that waited for the table's lock.
# TYPE tare_alter_lock_tries_total counter
tare_alter_lock_tries_total 2
`), "tare_alter_lock_tries_total", "tare_alter_swap_pause_seconds", "tare_alter_old_table_until_timestamp_seconds"); err != nil {
			t.Error(err)
		}
	})
}
