package gateway_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestStateGoesAlong switches a session with every kind of session state, and checks the state on the other
// side.
func TestStateGoesAlong(t *testing.T) {
	p := startPair(t, nil)
	for i, s := range p.servers { // defaults that replay does not set
		must(t, s.Exec("CREATE DATABASE other", fmt.Sprintf("CREATE TABLE other.note (side INT) SELECT %d AS side", i)))
	}
	c := p.session(t)
	for _, sql := range []string{
		"SET NAMES latin1", "SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "SET time_zone='+05:30'", "SET autocommit=0", "SET autocommit=1",
		"SET @answer = 42, @word := 'yes'", "SET SESSION group_concat_max_len = 1024 * 8", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
		"CREATE TABLE shop.counted (id INT AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO shop.counted VALUES (7)", "INSERT INTO shop.counted VALUES (NULL)", "USE other",
	} {
		if _, err := testscript.Exec(t, c, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	const question = "SELECT CONCAT_WS('|', @@character_set_client, @@collation_connection, @@sql_mode, @@time_zone, @@autocommit, @answer, @word, " +
		"@@group_concat_max_len, @@tx_isolation, DATABASE(), LAST_INSERT_ID())"
	before, from := value(t, c, question), port(t, c)
	p.mustSwitch(t, switchover.Standby)
	if after := value(t, c, question); after != before {
		t.Errorf("on the other side: %s\nwant:              %s", after, before)
	}
	if at := port(t, c); at == from {
		t.Errorf("the session is still on port %s", at)
	}
	if side := value(t, c, "SELECT side FROM note"); side != "1" {
		t.Errorf("side %s, want 1", side)
	}
	if addr := *p.saved.Load(); addr != p.servers[1].Addr {
		t.Errorf("the route was saved as %s", addr)
	}
	if _, err := testscript.Exec(t, c, "SELECT side FROM note"); err != nil {
		t.Fatal(err)
	}
	r, _, _ := p.records.wait(t, 17)
	if r.Backend != p.servers[1].Addr {
		t.Errorf("the record's backend is %s, want %s", r.Backend, p.servers[1].Addr)
	}
	if again := p.session(t); port(t, again) == from {
		t.Error("a new session went to the old side")
	}
}

// TestStatementsGoAlong executes prepared statements after a switch as libmysqlclient does: it sends the
// parameter types with the first execution only.
func TestStatementsGoAlong(t *testing.T) {
	p := startPair(t, nil)
	c := p.session(t)
	first := prepareOne(t, c, "SELECT ? + 1") // its number belongs to another statement on the other side
	second := prepareOne(t, c, "SELECT CONCAT(?, @@port)")
	closeStatement(t, c, first)
	typed := func(id uint32, text string, withTypes bool) []byte {
		b := []byte{byte(mysqlwire.ComStmtExecute), 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
		binary.LittleEndian.PutUint32(b[1:], id)
		if withTypes {
			b = append(b, 1, byte(mysqlwire.TypeVarString), 0)
		} else {
			b = append(b, 0)
		}
		return append(append(b, byte(len(text))), text...)
	}
	row := func(payload []byte) string {
		t.Helper()
		packets := command(t, c, payload, isEOF)
		if packets[0][0] == mysqlwire.MarkErr {
			t.Fatalf("execute: %q", packets[0])
		}
		return string(packets[2][3:]) // header, bitmap, length
	}
	from := row(typed(second, "x", true))
	p.mustSwitch(t, switchover.Standby)
	to := row(typed(second, "x", false))
	if to == from || !strings.HasPrefix(to, "x") {
		t.Errorf("executed: %q before, %q after", from, to)
	}
	if again := row(typed(second, strings.Repeat("y", 200), false)); !strings.HasPrefix(again, "yyy") {
		t.Errorf("executed again: %q", again)
	}
	third := prepareOne(t, c, "SELECT CONCAT('third', ?)")
	if third == second {
		t.Fatalf("a new statement has the number %d of another", third)
	}
	if got := row(typed(third, "!", true)); got != "third!" {
		t.Errorf("the statement prepared there: %q", got)
	}
	// A number that the client does not have may belong to another statement on the other side.
	for _, payload := range [][]byte{typed(first, "x", true), {byte(mysqlwire.ComStmtReset), 1, 0, 0, 0}} {
		if p := command(t, c, payload, first0); p[0][0] != mysqlwire.MarkErr {
			t.Errorf("a statement that was closed answered %q", p[0])
		}
	}
	closeStatement(t, c, second)
	p.mustSwitch(t, switchover.Backend)
	if got := row(typed(third, "?", false)); got != "third?" {
		t.Errorf("back on the first side: %q", got)
	}
}

func first0([]byte) bool { return true }

// prepareOne prepares a statement with one parameter and one column, and returns its number.
func prepareOne(t *testing.T, c *mysqlconn.Client, sql string) uint32 {
	t.Helper()
	n := 0
	packets := command(t, c, mysqlwire.StmtPrepare{SQL: []byte(sql)}.AppendTo(nil), func(p []byte) bool {
		n++
		return p[0] == mysqlwire.MarkErr || n == 3 // DEPRECATE_EOF: the response and two definitions
	})
	var ok mysqlwire.PrepareOK
	must(t, ok.Decode(packets[0], c.Capabilities))
	return ok.StatementID
}

func closeStatement(t *testing.T, c *mysqlconn.Client, id uint32) {
	t.Helper()
	c.Seq = 0
	must(t, c.WriteMessage(binary.LittleEndian.AppendUint32([]byte{byte(mysqlwire.ComStmtClose)}, id)))
}

// TestPins creates state that exists only in the server, and state that must not be mistaken for it.
func TestPins(t *testing.T) {
	p := startPair(t, nil)
	for _, s := range p.servers {
		must(t, s.Exec("CREATE PROCEDURE shop.p() SELECT 1", "CREATE FUNCTION shop.f() RETURNS INT RETURN 1", "SET GLOBAL group_concat_max_len=5000",
			"CREATE ROLE r", "GRANT r TO app@'%'"))
	}
	const reset = "COM_RESET_CONNECTION"
	cases := []struct {
		sql  []string
		want string // part of the reason; "" if the session can move
	}{
		{[]string{"CREATE TEMPORARY TABLE x (a INT)"}, "a temporary table"},
		{[]string{"DO GET_LOCK('x', 1)"}, "GET_LOCK"},
		{[]string{"LOCK TABLES note READ"}, "locked tables"},
		{[]string{"LOCK TABLES note READ", "UNLOCK TABLES"}, ""},
		{[]string{"HANDLER note OPEN"}, "HANDLER"},
		{[]string{"PREPARE s FROM 'SELECT 1'"}, "PREPARE"},
		{[]string{"CALL p()"}, "procedure"},
		{[]string{"SELECT f()"}, "function"},
		{[]string{"SET @a = NOW()"}, "variables"},
		{[]string{"SET @a = @@port"}, "variables"},
		{[]string{"SELECT 1 INTO @a"}, "variables"},
		{[]string{"SET insert_id = 5"}, "variables"},
		{[]string{"SET @a = 1; SET @b = 2"}, "may have left something"},
		{[]string{"SELECT nonsense from", "SELECT * FROM nowhere", "SET GLOBAL max_error_count=64"}, ""},
		{[]string{"SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')", "SET character_set_results = NULL"}, ""},
		{[]string{"BEGIN", "SAVEPOINT a", "ROLLBACK"}, ""},
		{[]string{"SET ROLE r"}, ""},
		{[]string{"SET ROLE r", reset}, "a role"}, // which the server keeps
		{[]string{"SET @a = NOW()", reset}, ""},
	}
	for _, k := range cases {
		t.Run(k.sql[0], func(t *testing.T) {
			c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
				Addr: p.addr, User: "app", Password: "tare-test", Database: "shop", TLSMode: mysqlconn.TLSDisabled, Capabilities: mysqlwire.CapMultiStatements,
			})
			must(t, err)
			defer func() { // each case has its sessions
				c.Close()
				testwait.Equal(t, "the session to end", 0, p.Sessions)
			}()
			for _, sql := range k.sql {
				if sql == reset {
					must(t, c.Send(t.Context(), []byte{byte(mysqlwire.ComResetConnection)}))
				} else {
					_, _ = testscript.Exec(t, c, sql)
				}
			}
			to := switchover.Standby
			if side, _ := p.Active(); side == to {
				to = switchover.Backend
			}
			token := p.mustHold(t, gateway.MaxPause)
			_, _, err = p.Switch(t.Context(), token, to, false)
			pinned, is := errors.AsType[*gateway.PinnedError](err)
			switch {
			case k.want == "" && err != nil:
				t.Errorf("the session was not taken along: %v", err)
			case k.want != "" && (!is || !strings.Contains(pinned.Sessions[0].Reason, k.want) || pinned.Sessions[0].Digest == "" || pinned.Sessions[0].User != "app"):
				t.Errorf("got %v, want a pin for %s", err, k.want)
			}
			if k.want == "" {
				return
			}
			if moved, closed, err := p.Switch(t.Context(), token, to, true); err != nil || moved != 0 || closed != 1 {
				t.Errorf("closing what is pinned: %d moved, %d closed, %v", moved, closed, err)
			}
			if _, err := testscript.Exec(t, c, "SELECT 1"); err == nil {
				t.Error("a session that was to be closed was served")
			}
		})
	}
}
