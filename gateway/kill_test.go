package gateway_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A killForm is a way to name a connection by its id, % in the text.
type killForm struct {
	text     string
	prepared bool // by COM_STMT_PREPARE, the id as a parameter if the text has a ?
	args     bool
}

// killForms are the forms of KILL CONNECTION and KILL QUERY in the servers' grammars, and the ways to execute a statement.
func killForms() []killForm {
	forms := []killForm{
		{"KILL ?", true, true},
		{"KILL CONNECTION ?", true, true},
		{"KILL CONNECTION %", true, false},
		{"EXECUTE IMMEDIATE 'KILL %'", false, false},
		{"EXECUTE IMMEDIATE CONCAT('KILL ', %)", false, false},
		{"PREPARE k FROM 'KILL %'; EXECUTE k", false, false},
		{"SET @id = %; PREPARE k FROM 'KILL ?'; EXECUTE k USING @id", false, false},
		{"BEGIN NOT ATOMIC KILL %; END", false, false},
		{"BEGIN NOT ATOMIC DECLARE i INT DEFAULT %; KILL i; END", false, false},
		{"DROP PROCEDURE IF EXISTS test.ender; CREATE PROCEDURE test.ender(IN i BIGINT) KILL i; CALL test.ender(%)", false, false},
		{"SET @id = %; KILL @id", false, false},
		{"SET @id = '%'; KILL CONNECTION @id", false, false},
		{"KILL %; SELECT 1", false, false},
		{"SELECT 1; KILL %", false, false},
		{"DO 1; KILL CONNECTION %; DO 1", false, false},
	}
	for _, kind := range []string{"", "CONNECTION ", "/* by id */ HARD ", "SOFT CONNECTION ", "/*!50000 CONNECTION */ "} {
		for _, id := range []string{"%", "(%)", "%+0", "'%'", "0+%", "% DIV 1", "CAST('%' AS UNSIGNED)", "% -- end", "%;"} {
			forms = append(forms, killForm{text: "KILL " + kind + id})
		}
	}
	return forms
}

// killServers are the servers of the tests of connection ids.
func killServers() map[string][]testmysql.Option {
	return map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}}
}

// openAt returns a pool at addr whose statements may be several.
func openAt(t *testing.T, addr string) *sql.DB {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.MultiStatements = testmysql.RootUser, testmysql.Password, "tcp", addr, true
	connector, err := mysql.NewConnector(cfg)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// killerError is the error number of a server's response, -1 for another error.
func killerError(err error) int {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return int(e.Number)
	}
	if err != nil {
		return -1
	}
	return 0
}

func (f killForm) run(ctx context.Context, db *sql.DB, id uint32) (err error) {
	text := strings.ReplaceAll(f.text, "%", uintText(id))
	if !f.prepared {
		_, err = db.ExecContext(ctx, text)
		return err
	}
	st, err := db.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer st.Close()
	if f.args {
		_, err = st.ExecContext(ctx, id)
	} else {
		_, err = st.ExecContext(ctx)
	}
	return err
}

// dialRoot logs in as an account that may kill.
func dialRoot(t *testing.T, addr string) *mysqlconn.Client {
	t.Helper()
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: addr, User: testmysql.RootUser, Password: testmysql.Password})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestKillForms kills connections by the ids of their greetings in every form. Each form has the same outcome through
// the gateway as directly: the same error, and the connection is killed or not.
func TestKillForms(t *testing.T) {
	for name, opts := range killServers() {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, opts...)
			g := startGateway(t, s.Addr, nil)
			direct, through := openAt(t, s.Addr), openAt(t, g.addr)
			killed := 0
			for _, form := range killForms() {
				outcome := func(db *sql.DB, addr string) (errno int, dead bool) {
					victim := dialRoot(t, addr)
					errno = killerError(form.run(t.Context(), db, victim.ConnectionID))
					if errno != 0 {
						_, err := testscript.Exec(t, victim, "SELECT 1")
						return errno, err != nil
					}
					testwait.Until(t, form.text+" to end the connection", func() bool {
						_, err := testscript.Exec(t, victim, "SELECT 1")
						return err != nil
					})
					return 0, true
				}
				errno, dead := outcome(direct, s.Addr)
				if got, gone := outcome(through, g.addr); got != errno || gone != dead {
					t.Errorf("%s: error %d, killed %t; directly error %d, killed %t", form.text, got, gone, errno, dead)
				}
				if dead {
					killed++
				}
			}
			if killed < 20 {
				t.Errorf("%d forms kill a connection directly, want at least 20", killed)
			}
			if name == "MySQL" { // it has no COM_PROCESS_KILL
				return
			}
			victim := dialRoot(t, g.addr)
			must(t, dialRoot(t, g.addr).Send(t.Context(), binary.LittleEndian.AppendUint32([]byte{byte(mysqlwire.ComProcessKill)}, victim.ConnectionID)))
			if _, err := testscript.Exec(t, victim, "SELECT 1"); err == nil {
				t.Error("COM_PROCESS_KILL: the connection was not killed")
			}
		})
	}
}

// TestKillAfterSwitch kills sessions that were switched to another server, by the ids of their greetings in every form: a form
// kills that session or is the error of a server that has no such connection, and never kills another session. The second
// server counts through the first one's ids, as servers that were started together do.
func TestKillAfterSwitch(t *testing.T) {
	p := startPair(t, nil)
	for _, s := range p.servers {
		must(t, s.Exec("GRANT ALL ON *.* TO app@'%'"))
	}
	forms := killForms()
	victims := make([]*mysqlconn.Client, len(forms))
	greeted := make(map[string]bool)
	for i := range victims {
		victims[i] = p.session(t)
		greeted[uintText(victims[i].ConnectionID)] = true
	}
	p.mustSwitch(t, switchover.Standby)
	for i, v := range victims {
		id := value(t, v, "SELECT CONNECTION_ID()")
		if greeted[id] && id != uintText(v.ConnectionID) {
			t.Errorf("victim %d has the id %s of another one's greeting", i, id)
		}
	}
	killers := p.open(t, func(c *mysql.Config) { c.MultiStatements = true })
	alive, killed := len(victims), 0
	for i, form := range forms {
		errno := killerError(form.run(t.Context(), killers, victims[i].ConnectionID))
		switch errno {
		case 0:
			alive, killed = alive-1, killed+1
			testwait.Until(t, form.text+" to end its session", func() bool { return !p.loggedIn(victims[i].ConnectionID) })
		case 1094:
		default:
			if direct := killerError(form.run(t.Context(), openAt(t, p.servers[1].Addr), 1<<31)); errno != direct {
				t.Errorf("%s: error %d, directly %d", form.text, errno, direct)
			}
		}
		sessions := 0
		for _, v := range victims {
			if p.loggedIn(v.ConnectionID) {
				sessions++
			}
		}
		if sessions != alive {
			t.Fatalf("%s: error %d, and %d sessions are left of %d", form.text, errno, sessions, alive)
		}
	}
	if killed < 12 {
		t.Errorf("%d forms kill the session, want at least the 12 lone KILL statements of plain numbers", killed)
	}
}

// TestConnectionID compares the id of the greeting with those that the server shows, and names a running statement by it.
func TestConnectionID(t *testing.T) {
	for name, opts := range killServers() {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, opts...)
			g := startGateway(t, s.Addr, nil)
			c, other := dialRoot(t, g.addr), dialRoot(t, g.addr)
			id := uintText(c.ConnectionID)
			for _, q := range []string{
				"SELECT CONNECTION_ID()", "SELECT @@pseudo_thread_id", "SELECT ID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()",
			} {
				var got string
				_, err := c.Query(t.Context(), q, func(r mysqlwire.TextRow) error { got = string(r[0]); return nil })
				if must(t, err); got != id {
					t.Errorf("%s: %s, want the greeting's %s", q, got, id)
				}
			}
			seen := false
			_, err := other.Query(t.Context(), "SHOW PROCESSLIST", func(r mysqlwire.TextRow) error { seen = seen || string(r[0]) == id; return nil })
			if must(t, err); !seen {
				t.Errorf("SHOW PROCESSLIST has no connection %s", id)
			}
			done := make(chan error, 1)
			go func() {
				_, err := c.Exec(context.Background(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT COUNT(*) FROM n a, n b, n c, n d")
				done <- err
			}()
			shows := []string{"EXPLAIN FOR CONNECTION "}
			if name == "MariaDB" {
				shows = append(shows, "SHOW EXPLAIN FOR ")
			}
			for _, show := range shows {
				testwait.UntilState(t, show+"to succeed", func() (string, bool) {
					rows := 0
					_, err := other.Query(t.Context(), show+id, func(mysqlwire.TextRow) error { rows++; return nil })
					return "", err == nil && rows > 0
				})
			}
			_, err = testscript.Exec(t, other, "KILL QUERY "+id+"+0")
			must(t, err)
			_ = testwait.Receive(t, "the statement to end", done)
			if _, err := testscript.Exec(t, c, "SELECT 1"); err != nil {
				t.Errorf("after KILL QUERY: %v", err)
			}
		})
	}
}
