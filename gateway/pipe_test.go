package gateway_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestStreamIsWhole has a backend close its connection right after the requested binary log, as servers do
// for clients that read to its end: no byte of it is lost.
func TestStreamIsWhole(t *testing.T) {
	const packets, size = 64, 32 << 10
	payload := make([]byte, size)
	backend := testscript.Start(t, func(_ int, c *mysqlconn.Conn) {
		if !testscript.Login(c) {
			return
		}
		testscript.Command(c)
		for range packets {
			c.AppendMessage(payload)
		}
		_ = c.Flush()
	})
	g := startGateway(t, backend, nil)
	for range 50 {
		c := testscript.MustConnect(t, g.addr)
		c.Seq = 0
		if err := c.WriteMessage(mysqlwire.BinlogDump{Offset: 4, File: []byte("log.1")}.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		for i := range packets {
			if p, err := c.ReadMessage(1 << 20); err != nil || len(p) != size {
				t.Fatalf("packet %d of %d: %d bytes, %v", i, packets, len(p), err)
			}
		}
	}
}

// TestRefusedStream has a server refuse the binary log: the rules apply to the next command.
func TestRefusedStream(t *testing.T) {
	for _, server := range hostCacheServers() {
		t.Run(server.name, func(t *testing.T) {
			_, g := server.start(t)
			for _, refused := range [][]byte{
				mysqlwire.BinlogDump{Offset: 1, File: []byte("log.1")}.AppendTo(nil),
				mysqlwire.BinlogDumpGTID{}.AppendTo(nil),
				append([]byte{byte(mysqlwire.ComTableDump)}, "\x04test\x06secret"...),
			} {
				must(t, g.planner.SetRules(nil))
				c := dialApp(t, g.addr)
				if p := command(t, c, refused, first)[0]; p[0] != mysqlwire.MarkErr {
					t.Fatalf("%x: %q, want an error", refused[0], p)
				}
				must(t, g.planner.SetRules([]sqlplan.Rule{{Name: "secret", Action: sqlplan.ActionBlock, Tables: []string{"*.secret"}}}))
				var e mysqlwire.Err
				must(t, e.Decode(command(t, c, []byte("\x03SELECT * FROM test.secret"), first)[0]))
				if e.Number != mysqlwire.ErrnoSpecificAccessDenied {
					t.Errorf("after %x: error %d %s, want the rule's", refused[0], e.Number, e.Message)
				}
				c.Close()
			}
		})
	}
}

// TestStreamEndsSession reads the binary log to its end, or to an error, with another command pipelined: the
// server closes the connection and does not execute the command, which pipe relies on.
func TestStreamEndsSession(t *testing.T) {
	for _, server := range hostCacheServers() {
		t.Run(server.name, func(t *testing.T) {
			server.opts = append(server.opts, testmysql.WithBinlog(), testmysql.WithSetup("GRANT ALL ON *.* TO app@'%'"))
			_, g := server.start(t)
			for _, checksum := range []string{"'NONE'", "NULL"} { // without either, MySQL ends with an error
				c := dialApp(t, g.addr)
				_, err := testscript.Exec(t, c, "SET @master_binlog_checksum = "+checksum+", @source_binlog_checksum = "+checksum)
				must(t, err)
				if end := streamEnd(t, c, "CREATE TABLE test.behind (a INT)"); end != mysqlwire.MarkEOF && (end != mysqlwire.MarkErr || checksum != "NULL") {
					t.Errorf("checksum %s: the stream ends by %#x", checksum, end)
				}
			}
			_, err := testscript.Exec(t, dialApp(t, g.addr), "CREATE TABLE test.behind (a INT)")
			must(t, err)
		})
	}
}

// streamEnd requests the binary log with a statement pipelined, and returns the first byte of the last
// packet.
func streamEnd(t *testing.T, c *mysqlconn.Client, behind string) byte {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	c.Seq = 0
	c.AppendMessage(mysqlwire.BinlogDump{Offset: 4, Flags: 1, ServerID: 77}.AppendTo(nil))
	c.Seq = 0
	c.AppendMessage([]byte("\x03" + behind))
	must(t, c.Flush())
	c.Seq = 1
	end := byte(0)
	for {
		p, err := c.ReadMessage(1 << 24)
		if errors.Is(err, io.EOF) {
			return end
		}
		must(t, err)
		if end == mysqlwire.MarkErr || end == mysqlwire.MarkEOF {
			t.Fatalf("the server responds to the command behind the stream: %q", p)
		}
		end = p[0]
	}
}

// dialApp logs in with the right password.
func dialApp(t *testing.T, addr string) *mysqlconn.Client {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: addr, User: testmysql.AppUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true}})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
