package binlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// beatServers are the options of the servers for tests of heartbeats; MySQL if it is installed.
var beatServers = map[string][]testmysql.Option{
	"MariaDB": {testmysql.WithBinlog()},
	"MySQL":   {testmysql.WithMySQL(), testmysql.WithBinlog()},
	"MySQL with GTIDs, compressed": {
		testmysql.WithMySQL(), testmysql.WithBinlog(), testmysql.WithArgs("--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-transaction-compression=ON"),
	},
}

// A beatReader reads the changes of tables and the heartbeats between them.
type beatReader struct {
	t       *testing.T
	changes binlog.Changes
	upto    binlog.Position
	rows    int
	beat    uint64
}

// until reads until a heartbeat has arrived.
func (r *beatReader) until(number uint64) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), testwait.Limit)
	defer cancel()
	for r.beat < number {
		if err := r.next(ctx); err != nil {
			r.t.Fatalf("wait for heartbeat %d, after %d: %v", number, r.beat, err)
		}
	}
}

func (r *beatReader) next(ctx context.Context) error {
	var b binlog.ChangeBatch
	err := r.changes.Next(ctx, &b)
	if err == nil {
		r.upto, r.beat, r.rows = b.Upto, max(r.beat, b.Heartbeat), r.rows+len(b.Changes)
	}
	return err
}

// TestBeatOverLostConnection writes a heartbeat after the connection of the previous one was lost.
func TestBeatOverLostConnection(t *testing.T) {
	for name, options := range beatServers {
		t.Run(name, func(t *testing.T) {
			server := testmysql.StartOrSkip(t, options...)
			if err := server.Exec("CREATE DATABASE one"); err != nil {
				t.Fatal(err)
			}
			d := testrows.Direct(t, testrows.Root(server))
			h := binlog.Heartbeat{Copy: "c1", Run: "r1", Schemas: []string{"one"}}
			for range 3 {
				h.Number++
				if err := d.WriteHeartbeat(t.Context(), h); err != nil {
					t.Fatalf("heartbeat %d: %v", h.Number, err)
				}
				var id string
				if _, err := d.BeatConnection().Query(t.Context(), "SELECT CONNECTION_ID()", func(row mysqlwire.TextRow) error {
					id = string(row[0])
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if err := server.Exec("KILL " + id); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestHeartbeat reads heartbeats in the log, also after a lost connection, and does not continue in a log
// that was reset, however long that is.
func TestHeartbeat(t *testing.T) {
	for name, options := range beatServers {
		t.Run(name, func(t *testing.T) {
			testHeartbeat(t, testmysql.StartOrSkip(t, options...))
		})
	}
}

func testHeartbeat(t *testing.T, server *testmysql.Server) {
	run := func(statements ...string) {
		t.Helper()
		if err := server.Exec(statements...); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE DATABASE one", "CREATE DATABASE `two-2`", "CREATE TABLE one.t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)", "CREATE TABLE `two-2`.t (id INT PRIMARY KEY)")
	d := testrows.Direct(t, testrows.Root(server))
	var tables []*rowstream.Table
	for _, schema := range []string{"one", "two-2"} {
		table, err := d.Describe(t.Context(), schema, "t")
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	h := binlog.Heartbeat{Copy: "c1", Run: "r1", Schemas: rowstream.Schemas(tables)}
	beat := func() uint64 {
		t.Helper()
		h.Number++
		if err := d.WriteHeartbeat(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		return h.Number
	}
	follow := func(from binlog.Position) *beatReader {
		t.Helper()
		c, err := d.Follow(t.Context(), binlog.FollowOptions{From: from, Tables: tables, Run: h.Run, Heartbeat: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return &beatReader{t: t, changes: c, upto: from}
	}
	start, err := d.CurrentPosition(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := follow(start)
	run("INSERT INTO one.t (v) VALUES ('a'), ('b')")
	r.until(beat())
	if r.rows != 2 || r.upto.Heartbeat == "" {
		t.Fatalf("%d rows were read up to %s, want 2 and a heartbeat", r.rows, r.upto)
	}
	run("INSERT INTO one.t (v) VALUES ('c')")
	r.until(beat()) // a heartbeat after the last row
	run("INSERT INTO one.t (v) VALUES ('d')", "UPDATE one.t SET v = 'dd' WHERE v = 'd'")
	killDumps(t, server)
	r.until(beat())
	if r.rows != 5 {
		t.Errorf("%d rows were read over a lost connection, want 5", r.rows)
	}
	run("INSERT INTO one.t (v) VALUES ('e')")
	last := beat()
	r.until(last)
	run("FLUSH BINARY LOGS", "INSERT INTO one.t (v) VALUES ('f')")
	upto := r.upto
	again, plain := follow(upto), follow(binlog.Position{File: upto.File, Offset: upto.Offset, Heartbeat: upto.Heartbeat})
	r.until(beat())
	for what, other := range map[string]*beatReader{"its text": again, "file and offset": plain} {
		if other.until(h.Number); other.rows != 1 {
			t.Errorf("%d rows were read from the position by %s on, want 1", other.rows, what)
		}
	}

	// The log is reset, and becomes longer than the position.
	reset := "RESET MASTER"
	if !session.IsMariaDB(testrows.Connect(t, testrows.Root(server)).ServerVersion) {
		reset = "RESET BINARY LOGS AND GTIDS"
	}
	_ = r.changes.Close()
	_ = again.changes.Close()
	_ = plain.changes.Close()
	run(reset)
	for i := range 200 {
		run(fmt.Sprintf("INSERT INTO one.t (v) VALUES (REPEAT('%d', 2000))", i%10))
	}
	run("FLUSH BINARY LOGS", "INSERT INTO one.t (v) VALUES ('g')")
	for what, from := range map[string]binlog.Position{"its text": upto, "file and offset": {File: upto.File, Offset: upto.Offset, Heartbeat: upto.Heartbeat}} {
		ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
		r := follow(from)
		for err = nil; err == nil; {
			err = r.next(ctx)
		}
		cancel()
		stop := new(binlog.StopError)
		if !errors.As(err, &stop) || r.rows > 0 {
			t.Errorf("after the log was started again, from the position by %s on: %d rows and %v, want it to stop", what, r.rows, err)
		}
	}

	if err := d.DeleteHeartbeat(t.Context(), h); err != nil {
		t.Error(err)
	}
	for _, s := range h.Schemas {
		if _, err := d.Describe(t.Context(), s, binlog.HeartbeatTable); !errors.Is(err, rowstream.ErrNoTable) {
			t.Errorf("the table of heartbeats in %s after their end: %v, want it to be gone", s, err)
		}
	}
}
