package binlog

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestGTIDBehindWideEvent has events in the log larger than max_allowed_packet, after which MariaDB returns
// no GTID of a position. The scanned GTID equals the server's, over two domains and two files.
func TestGTIDBehindWideEvent(t *testing.T) {
	server := testmysql.Start(t, testmysql.WithBinlog(), testmysql.WithArgs("--max-allowed-packet=1M"))
	cfg := mysqlconn.Config{Addr: server.Addr, User: testmysql.RootUser, Password: testmysql.Password, Capabilities: mysqlwire.CapLocalFiles}
	c, err := session.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exec := func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	if !session.IsMariaDB(c.ServerVersion) {
		t.Skip("the GTIDs of MySQL need no position in a file")
	}
	exec("CREATE DATABASE wide", "CREATE TABLE wide.t (id INT PRIMARY KEY, a LONGBLOB, b LONGBLOB)",
		"INSERT INTO wide.t VALUES (1, REPEAT('a', 900000), REPEAT('b', 900000))")
	check := func(server bool) {
		t.Helper()
		text, err := session.CurrentPosition(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ParsePosition(text)
		if err != nil {
			t.Fatal(err)
		}
		p.GTID = ""
		if byServer, err := gtidAt(t.Context(), c, p); err != nil || (byServer != "") != server {
			t.Errorf("the server knows %q, %v at %s", byServer, err, p)
		}
		want := ""
		if _, err := c.Query(t.Context(), "SELECT @@global.gtid_binlog_pos", func(row mysqlwire.TextRow) error {
			want = string(row[0])
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		q, err := withGTID(t.Context(), cfg, c, p)
		if err != nil {
			t.Fatal(err)
		}
		found, err := parseGTIDs(q.GTID)
		if err != nil {
			t.Fatal(err)
		}
		if known, err := parseGTIDs(want); err != nil || !found.sameMaria(&known) {
			t.Errorf("the GTID at %s is %q, want %q (%v)", p, q.GTID, want, err)
		}
		p.Offset -= 3
		if _, err := scanGTID(t.Context(), cfg, c, p); err == nil {
			t.Errorf("%s is within an event, and has a GTID", p)
		}
	}
	check(false)
	exec("SET SESSION gtid_domain_id = 7", "INSERT INTO wide.t VALUES (2, REPEAT('c', 900000), REPEAT('d', 900000))")
	check(false)
	exec("FLUSH BINARY LOGS", "SET SESSION gtid_domain_id = 0", "INSERT INTO wide.t VALUES (3, '', '')")
	check(true)
	for i := range 3 {
		exec(fmt.Sprintf("UPDATE wide.t SET b = REPEAT('%d', 1000000) WHERE id < 3", i))
	}
	check(false)
}

// TestOffsetAfter checks offsets beyond the 32 bits of an event.
func TestOffsetAfter(t *testing.T) {
	for _, c := range []struct {
		at   uint64
		low  uint32
		want uint64
	}{{4, 256, 256}, {256, 256, 256}, {1<<32 - 10, 5, 1<<32 + 5}, {1<<32 + 5, 70, 1<<32 + 70}, {3<<32 - 1, 0, 3 << 32}} {
		if got := offsetAfter(c.at, c.low); got != c.want {
			t.Errorf("the offset after %d with %d is %d, want %d", c.at, c.low, got, c.want)
		}
	}
}
