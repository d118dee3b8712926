package binlog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/rowstream"
)

// xaServers runs a test about XA on each product; MySQL if it is installed.
func xaServers(t *testing.T, test func(t *testing.T, d *Direct, one, two func(...string), tables []*rowstream.Table)) {
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

// TestFollowXALost reads XA transactions over connections that are lost.
func TestFollowXALost(t *testing.T) {
	xaServers(t, func(t *testing.T, d *Direct, one, two func(...string), tables []*rowstream.Table) {
		from := now(t, d, false)
		changes := follow(t, d, FollowOptions{From: from, Tables: tables, ServerID: 78}).(*changes)
		one("XA START 'x'", "INSERT INTO a VALUES (1, 1, 'prepared')", "XA END 'x'", "XA PREPARE 'x'")
		two("INSERT INTO a VALUES (2, 2, 'between')")
		var b ChangeBatch
		if err := changes.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		got := texts(changesOf(t, &b))
		changes.mu.Lock()
		if err := changes.disconnect(t.Context(), errors.New("lost")); err != nil {
			t.Error(err)
		}
		changes.mu.Unlock()
		one("XA COMMIT 'x'")
		got = append(got, texts(until(t, changes, now(t, d, false)))...)
		if diff := cmp.Diff([]string{`0 insert -> ["2" "2" "between"].`, `0 insert -> ["1" "1" "prepared"].`}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSnapshotWaitsForXA takes a snapshot while an XA transaction is prepared: it waits for its end, so that
// the log after it has no commit of an earlier prepared transaction.
func TestSnapshotWaitsForXA(t *testing.T) {
	xaServers(t, func(t *testing.T, d *Direct, one, two func(...string), tables []*rowstream.Table) {
		one("XA START 'x'", "INSERT INTO a VALUES (1, 1, 'prepared')", "XA END 'x'", "XA PREPARE 'x'")
		type taken struct {
			view rowstream.View
			err  error
		}
		done := make(chan taken, 1)
		go func() {
			v, err := d.Snapshot(t.Context(), 2, tables)
			done <- taken{v, err}
		}()
		select {
		case s := <-done:
			t.Fatalf("it did not wait: %v", s.err)
		case <-time.After(200 * time.Millisecond):
		}
		one("XA COMMIT 'x'")
		s := testwait.Receive(t, "the snapshot", done)
		if s.err != nil {
			t.Fatal(s.err)
		}
		defer s.view.Close()
		if strings.Contains(s.view.How(), "XA") {
			t.Errorf("%s", s.view.How())
		}
		from, err := ParsePosition(s.view.Position())
		if err != nil {
			t.Fatal(err)
		}
		two("INSERT INTO a VALUES (2, 2, 'later')")
		if got := texts(until(t, follow(t, d, FollowOptions{From: from, Tables: tables}), now(t, d, false))); len(got) != 1 {
			t.Errorf("behind the snapshot: %v", got)
		}
	})
}
