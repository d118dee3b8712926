package binlog_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestUnloggedChanges reads tables of a server that does not log all of its writes: following is refused, and
// so is a snapshot over several connections. One connection without following needs no log.
func TestUnloggedChanges(t *testing.T) {
	server := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithArgs("--binlog-ignore-db=hidden"))
	if err := server.Exec("CREATE DATABASE hidden", "CREATE TABLE hidden.t (id INT PRIMARY KEY)", "CREATE DATABASE shown", "CREATE TABLE shown.t (id INT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	d := testrows.Direct(t, testrows.Root(server))
	table := func(schema string) []*rowstream.Table {
		t.Helper()
		x, err := d.Describe(t.Context(), schema, "t")
		if err != nil {
			t.Fatal(err)
		}
		return []*rowstream.Table{x}
	}
	hidden, shown := table("hidden"), table("shown")
	now, err := d.CurrentPosition(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	snapshot := func(n int, tables []*rowstream.Table) error {
		v, err := d.Snapshot(t.Context(), n, tables)
		if err == nil {
			err = v.Close()
		}
		return err
	}
	accepted := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v, want it to be accepted", what, err)
		}
	}
	refused := func(what string, err error, text string) {
		t.Helper()
		if !errors.Is(err, session.ErrNotLogged) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %v, want one about %q", what, err, text)
		}
	}
	accepted("follow a schema that is logged", d.CheckFollow(t.Context(), shown, now))
	accepted("a snapshot of it", snapshot(2, shown))
	refused("follow a schema that is left out", d.CheckFollow(t.Context(), hidden, now), "binlog-ignore-db")
	refused("a snapshot of it over several connections", snapshot(2, hidden), "option workers 1")
	accepted("a snapshot over one", snapshot(1, hidden))

	if _, err := d.Follow(t.Context(), binlog.FollowOptions{From: now, Tables: hidden}); !errors.Is(err, session.ErrNotLogged) {
		t.Errorf("follow without checks before: %v, want it refused", err)
	}
	changes, err := d.Follow(t.Context(), binlog.FollowOptions{From: now, Tables: shown})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()

	replicate := "CHANGE MASTER TO MASTER_HOST = '127.0.0.9', MASTER_PORT = 9, MASTER_USER = 'nobody'"
	if err := server.Exec(replicate); err != nil {
		t.Fatal(err)
	}
	refused("follow a replica that does not log what is replicated", d.CheckFollow(t.Context(), shown, now), "log_slave_updates")
	refused("a snapshot of it", snapshot(2, shown), "127.0.0.9:9")
	if err := server.Exec("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT, RELOAD ON *.* TO '" + testmysql.AppUser + "'@'%'"); err != nil {
		t.Fatal(err)
	}
	limited := testrows.Direct(t, testrows.App(server))
	refused("follow what may be a replica", limited.CheckFollow(t.Context(), shown, now), "MONITOR")
	v, err := limited.Snapshot(t.Context(), 2, shown)
	if err != nil {
		t.Fatalf("a snapshot under a lock: %v", err)
	}
	defer v.Close()
	if v.How() != "FLUSH TABLES WITH READ LOCK" || v.Position() != "" {
		t.Errorf("the snapshot was taken by %q at %q, want a lock and no position, since it may be a replica", v.How(), v.Position())
	}

	// Changes that are already being read detect it at the next reconnect.
	killDumps(t, server)
	var b binlog.ChangeBatch
	stop := new(binlog.StopError)
	for err = nil; err == nil; {
		err = changes.Next(t.Context(), &b)
	}
	if !errors.As(err, &stop) || stop.Reason != binlog.StopSettings {
		t.Errorf("changes after a reconnect: %v, want StopSettings", err)
	}
}

// killDumps closes the connections of all readers of the server's log.
func killDumps(t *testing.T, server *testmysql.Server) {
	t.Helper()
	db, err := sql.Open("mysql", server.DSN("root"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var ids []string
	testwait.Until(t, "a reader of the server's log", func() bool { // the server may not yet have executed its command, which has no response
		ids = nil
		rows, err := db.QueryContext(context.WithoutCancel(t.Context()), "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return len(ids) > 0
	})
	for _, id := range ids {
		if err := server.Exec("KILL " + id); err != nil {
			t.Fatal(err)
		}
	}
}
