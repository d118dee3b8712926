package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/rowstream"
)

// xaServers runs a test about XA on each product; MySQL if it is installed.
func xaServers(t *testing.T, test func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table)) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startOrSkip(t, append(opts, testmysql.WithBinlog())...)
			d := direct(t, root(server))
			first, second := connect(t, root(server)), connect(t, root(server))
			exec1 := func(sql ...string) { exec(t, first, sql...) }
			exec1("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "CREATE DATABASE f", "USE f", "CREATE TABLE a (id INT PRIMARY KEY, n INT, s VARCHAR(100))", "CREATE TABLE c (id INT PRIMARY KEY)")
			exec(t, second, "USE f")
			table, err := d.Describe(t.Context(), "f", "a")
			if err != nil {
				t.Fatal(err)
			}
			test(t, d, exec1, func(sql ...string) { exec(t, second, sql...) }, []*rowstream.Table{table})
		})
	}
}

// TestFollowXA reads XA transactions: rows are returned when they are committed, in the order of the commits,
// and a position to resume from is before the prepared ones.
func TestFollowXA(t *testing.T) {
	xaServers(t, func(t *testing.T, d *binlog.Direct, one, two func(...string), tables []*rowstream.Table) {
		from := now(t, d, false)
		one("XA START 'x'", "INSERT INTO a VALUES (1, 1, 'prepared')", "SAVEPOINT s", "INSERT INTO a VALUES (-2, 2, 'undone')", "ROLLBACK TO s",
			"UPDATE a SET n = 3 WHERE id = 1", "XA END 'x'", "XA PREPARE 'x'")
		prepared := now(t, d, false)
		two("INSERT INTO a VALUES (5, 5, 'meanwhile')")
		two("XA START 'gone', 'b', 7", "INSERT INTO a VALUES (6, 6, 'rolled back')", "XA END 'gone', 'b', 7", "XA PREPARE 'gone', 'b', 7", "XA ROLLBACK 'gone', 'b', 7",
			"XA START 'y'", "INSERT INTO a VALUES (7, 7, 'one phase')", "XA END 'y'", "XA COMMIT 'y' ONE PHASE",
			"XA START 'other'", "INSERT INTO c VALUES (1)", "XA END 'other'", "XA PREPARE 'other'", "XA COMMIT 'other'")

		changes := follow(t, d, binlog.FollowOptions{From: from, Tables: tables})
		var b binlog.ChangeBatch
		var got []seen
		for len(got) < 2 {
			if err := changes.Next(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			got = append(got, changesOf(t, &b)...)
			if b.Upto.Compare(prepared) >= 0 {
				t.Errorf("%s is behind a transaction that is prepared", b.Upto)
			}
		}
		resume := b.Upto
		one("XA COMMIT 'x'")
		to := now(t, d, false)
		got = append(got, until(t, changes, to)...)
		want := []string{
			`0 insert -> ["5" "5" "meanwhile"].`, `0 insert -> ["7" "7" "one phase"].`,
			`0 insert -> ["1" "1" "prepared"]`, `0 update ["1" "1" "prepared"] -> ["1" "3" "prepared"].`,
		}
		if diff := cmp.Diff(want, texts(got)); diff != "" {
			t.Error(diff)
		}
		for name, f := range followers(t, d) { // everything after it is returned again
			if diff := cmp.Diff(want, texts(until(t, follow(t, f, binlog.FollowOptions{From: resume, Tables: tables}), to))); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}

		// From after the PREPARE.
		_, stop := untilStop(t, d, binlog.FollowOptions{From: prepared, Tables: tables})
		if stop.Reason != binlog.StopRolledBack || stop.Digest == "" {
			t.Errorf("the commit of what was prepared before: %v", stop)
		}
	})
}
