package gateway_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A halfClose is what a client sends before it closes its sending side.
type halfClose struct {
	name     string
	commands []string // without the command byte; "" is COM_QUIT
}

func halfCloses() []halfClose {
	five := []string{"INSERT INTO half VALUES (1)", "INSERT INTO half VALUES (2)", "INSERT INTO half VALUES (3)", "INSERT INTO half VALUES (4)", "INSERT INTO half VALUES (5)"}
	with := func(more ...string) []string { return append(append([]string(nil), five...), more...) }
	long := "INSERT INTO half VALUES (6) /* " + strings.Repeat("x", 40<<10) + " */"
	return []halfClose{
		{"nothing", nil},
		{"COM_QUIT", []string{""}},
		{"inserts and COM_QUIT", with("")},
		{"inserts", five},
		{"an insert that takes a while", []string{"INSERT INTO half SELECT 1 + SLEEP(0.3)"}},
		{"inserts after one that takes a while", append([]string{"INSERT INTO half SELECT 7 + SLEEP(0.3)"}, with("")...)},
		{"a select that takes a while", []string{"SELECT SLEEP(0.3), 42"}},
		{"a select between inserts", with("SELECT SLEEP(0.3), 42", "INSERT INTO half VALUES (7)", "")},
		{"a transaction", []string{"BEGIN", "INSERT INTO half VALUES (1)", "SELECT SLEEP(0.2)", "COMMIT"}},
		{"an open transaction", []string{"BEGIN", "INSERT INTO half VALUES (1)"}},
		{"an error among inserts", with("INSERT INTO nowhere VALUES (1)", "INSERT INTO half VALUES (8)")},
		{"long inserts", []string{long, "DO SLEEP(0.2)", long, long, ""}},
		{"many", append(bytesOf(with(five...), 40), "")},
		{"selects and COM_QUIT", []string{"SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4", "SELECT SLEEP(0.3), 42", ""}},
		{"selects after one that takes a while", []string{"SELECT SLEEP(0.3), 42", "SELECT 1", "SELECT SLEEP(0.3), 43"}},
	}
}

// bytesOf repeats commands.
func bytesOf(commands []string, times int) (all []string) {
	for range times {
		all = append(all, commands...)
	}
	return all
}

// run sends the commands at once, closes the sending side, and returns what the server sent and the rows of the table.
func (h halfClose) run(t *testing.T, addr string, mode mysqlconn.TLSMode, notify bool, count *mysqlconn.Client) (response []byte, rows string) {
	t.Helper()
	_, err := testscript.Exec(t, count, "TRUNCATE TABLE test.half")
	must(t, err)
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
		Addr: addr, User: testmysql.AppUser, Password: testmysql.Password, Database: testmysql.DefaultSchema, TLSMode: mode, ServerKey: mysqlconn.ServerKey{Request: true},
	})
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(testwait.Limit)))
	var b []byte
	for _, sql := range h.commands {
		p := append([]byte{byte(mysqlwire.ComQuery)}, sql...)
		if sql == "" {
			p = []byte{byte(mysqlwire.ComQuit)}
		}
		b = append(b, testscript.Packets(0, p)...)
	}
	_, err = c.Write(b)
	must(t, err)
	if s, ok := c.NetConn().(*tls.Conn); ok && notify {
		must(t, s.CloseWrite())
	}
	if err := c.Socket().(interface{ CloseWrite() error }).CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) { // after COM_QUIT
		t.Fatal(err)
	}
	response, err = io.ReadAll(c.NetConn())
	if err != nil && len(response) == 0 && len(h.commands) > 1 { // with TLS an end without a notice is an error
		t.Errorf("%s: %v", h.name, err)
	}
	testwait.Until(t, "the server to end the connection", func() bool {
		n := ""
		_, err := count.Query(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '"+testmysql.AppUser+"'", func(r mysqlwire.TextRow) error { n = string(r[0]); return nil })
		must(t, err)
		return n == "0"
	})
	_, err = count.Query(t.Context(), "SELECT CONCAT(COUNT(*), ' rows, sum ', IFNULL(SUM(a), 0)) FROM test.half", func(r mysqlwire.TextRow) error { rows = string(r[0]); return nil })
	must(t, err)
	return response, rows
}

// same reports whether the responses are equal. After COM_QUIT servers close a TLS connection with its notice unread, which
// resets it: a part of the responses may be lost then, directly too.
func (h halfClose) same(got, want []byte, mode mysqlconn.TLSMode) bool {
	if mode == mysqlconn.TLSRequired && len(h.commands) > 0 && h.commands[len(h.commands)-1] == "" {
		return bytes.HasPrefix(got, want) || bytes.HasPrefix(want, got)
	}
	return bytes.Equal(got, want)
}

// trimReadError removes the error that MySQL sends, but not always, when the client's side of a connection ends.
func trimReadError(response []byte) []byte {
	last := bytes.LastIndexByte(response, mysqlwire.MarkErr)
	if last < mysqlwire.HeaderLen {
		return response
	}
	var e mysqlwire.Err
	if e.Decode(response[last:]) != nil || e.Number != mysqlwire.ErrnoNetRead {
		return response
	}
	return response[:last-mysqlwire.HeaderLen]
}

// TestHalfClose has clients send commands and close their sending side: the rows in the table and every byte of the
// responses equal those of a direct connection, with and without TLS and an account for KILL. A last error is excepted:
// trimReadError. A short run has some of these clients.
func TestHalfClose(t *testing.T) {
	clients := halfCloses()
	if testing.Short() {
		rnd := testseed.Rand(t)
		rnd.Shuffle(len(clients), func(i, j int) { clients[i], clients[j] = clients[j], clients[i] })
		clients = clients[:5]
	}
	for name, opts := range killServers() {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, append(opts, testmysql.WithTLS(), testmysql.WithSetup("CREATE TABLE IF NOT EXISTS test.half (a INT)", "GRANT ALL ON *.* TO app@'%'"))...)
			count := dialRoot(t, s.Addr)
			plain := startGateway(t, s.Addr, nil)
			killing := startGateway(t, s.Addr, func(o *gateway.Options) {
				o.Kill = func(_ string, id uint32) error { return s.Exec(fmt.Sprintf("KILL CONNECTION %d", id)) }
			})
			for _, h := range clients {
				for _, way := range []struct {
					mode   mysqlconn.TLSMode
					notify bool
				}{{mysqlconn.TLSDisabled, false}, {mysqlconn.TLSRequired, false}, {mysqlconn.TLSRequired, true}} {
					want, rows := h.run(t, s.Addr, way.mode, way.notify, count)
					for what, g := range map[string]*rig{"": plain, ", with an account for KILL": killing} {
						got, gotRows := h.run(t, g.addr, way.mode, way.notify, count)
						if gotRows != rows || !h.same(trimReadError(got), trimReadError(want), way.mode) {
							t.Errorf("%s, TLS %v %v%s: %s and %d bytes; directly %s and %d bytes", h.name, way.mode, way.notify, what, gotRows, len(got), rows, len(want))
						}
					}
				}
			}
		})
	}
}
