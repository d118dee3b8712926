package alter

import (
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestDuplicatesMeanwhile adds a unique key while a client writes values that are equal in it: the error has the values, the number
// of their rows and the keys of these, the table has all rows, and after a correction the same command succeeds.
func TestDuplicatesMeanwhile(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		const clauses = "ADD UNIQUE KEY fresh (u, v(2))"
		d.exec("CREATE TABLE "+d.schema+".dup (a INT, b INT, u INT, v VARCHAR(9), PRIMARY KEY (a, b)) CHARACTER SET utf8mb4",
			"INSERT INTO "+d.schema+".dup VALUES (1, 1, 1, 'x'), (2, 1, 2, 'it''s'), (3, 1, NULL, 'x'), (4, 1, NULL, 'x')")
		o := d.options("dup", clauses)
		p := testproxy.Start(t, o.On.Addr)
		late := o
		late.On.Addr, late.On.TLSMode = p.Addr, mysqlconn.TLSDisabled // the proxy reads the statements
		p.At("ALTER TABLE `"+d.schema+"`.`dup` ALGORITHM=INPLACE", false, func() {
			d.exec("INSERT INTO " + d.schema + ".dup VALUES (5, 7, 2, 'it'), (6, 8, 2, 'item'), (7, 9, 1, 'x'), (8, 1, NULL, 'x')")
		})
		_, err := Run(t.Context(), late)
		if err == nil {
			t.Fatal("the key was added to equal values")
		}
		for _, want := range []string{"Duplicate entry", "the table is unchanged", "'1', 'x' (2 rows: a-b 1-1, 7-9)", "'2', 'it' (3 rows: a-b 2-1, 5-7, 6-8)"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant %q", err, want)
			}
		}
		if n := d.value(d.connect(), "SELECT COUNT(*) FROM "+d.schema+".dup"); n != "8" {
			t.Errorf("%s rows, want 8", n)
		}
		d.exec("DELETE FROM " + d.schema + ".dup WHERE a IN (5, 6, 7)")
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowCommits refuses a copy on a server that delays commits for longer than a swap may take, and copies with a longer limit.
func TestSlowCommits(t *testing.T) {
	aloneOnBoth(t, func(t *testing.T, d *database) {
		set := []string{"SET GLOBAL binlog_group_commit_sync_delay = 0", "SET GLOBAL binlog_group_commit_sync_delay = 300000"}
		if d.product == "MariaDB" {
			set = []string{"SET GLOBAL binlog_commit_wait_count = 0, binlog_commit_wait_usec = 100000", "SET GLOBAL binlog_commit_wait_count = 2, binlog_commit_wait_usec = 300000"}
		}
		d.exec("CREATE TABLE "+d.schema+".slow (id INT PRIMARY KEY)", "INSERT INTO "+d.schema+".slow VALUES (1)")
		t.Cleanup(func() { d.exec(set[0]) })
		d.exec(set[1])
		o := d.options("slow", "ADD COLUMN note INT")
		o.AlwaysCopy = true
		_, err := Run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "delays each commit by 300ms") || !strings.Contains(err.Error(), "raise option max-lock-wait to 1.2s") {
			t.Errorf("with commits of 300 ms: %v", err)
		}
		o.MaxLockWait = 10 * time.Second
		if _, err := Run(t.Context(), o); err != nil {
			t.Error(err)
		}
	})
}
