package gateway_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

var allRefusals = flag.Bool("all-refusals", false, "compare refusals with MySQL too, pipelined and not, and refuse texts of all lengths")

// refusalServers are the servers whose errors refusals are compared with.
func refusalServers(t *testing.T) map[string][]testmysql.Option {
	servers := map[string][]testmysql.Option{"MariaDB": nil}
	if *allRefusals {
		servers["MySQL"] = []testmysql.Option{testmysql.WithMySQL()}
	}
	if dir := os.Getenv("TARE_MARIADB_DIR"); dir != "" {
		servers["MariaDB of TARE_MARIADB_DIR"] = []testmysql.Option{testmysql.WithPrograms(dir)}
	}
	return servers
}

// query is a COM_QUERY.
func query(sql string) []byte { return append([]byte{byte(mysqlwire.ComQuery)}, sql...) }

func prepare(sql string) []byte { return append([]byte{byte(mysqlwire.ComStmtPrepare)}, sql...) }

// onStatement is a command on a prepared statement.
func onStatement(cmd mysqlwire.Command, id uint32, rest ...byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{byte(cmd)}, id), rest...)
}

// executeText is a COM_STMT_EXECUTE with one parameter, a string, and its type if types is 1.
func executeText(id uint32, flags, types byte, value string) []byte {
	b := onStatement(mysqlwire.ComStmtExecute, id, flags, 1, 0, 0, 0, 0, types)
	if types == 1 {
		b = append(b, 0xFD, 0)
	}
	return append(append(b, byte(len(value))), value...)
}

// attributed is a COM_QUERY with a query attribute n, unless that has no value.
func attributed(sql, value string) []byte {
	if value == "" {
		return mysqlwire.AppendQuery(nil, []byte(sql), mysqlwire.CapQueryAttributes)
	}
	return append(append([]byte{byte(mysqlwire.ComQuery), 1, 1}, oneAttribute(value)...), sql...)
}

// oneAttribute is the parameters of a command with an attribute n: NULL bits, types and names, values.
func oneAttribute(value string) []byte {
	return append([]byte{0, 1, 0xFD, 0, 1, 'n', byte(len(value))}, value...)
}

const last = mysqlwire.LastPreparedID

// A memory is something that a server keeps between commands. It is set up, then a command fails, and what is
// left of it is read.
type memory struct {
	name    string
	setup   [][]byte
	refused []byte
	then    [][]byte

	rule sqlplan.Rule // if it is not the usual one
	late bool         // only the one command is refused, not others like it before and after
	want string       // in the responses through the gateway to MySQL, which ends its own with a packet that no client expects
	kept bool         // a refusal changes less than the server's error does
	attr bool         // the client has query attributes, which MySQL alone offers
}

// memories are the rows of the table in docs/reference/refusals.md.
func memories() []memory {
	q := func(texts ...string) (all [][]byte) {
		for _, sql := range texts {
			all = append(all, query(sql))
		}
		return all
	}
	remove, read, add := query("delete from hidden.secret"), query("select * from hidden.secret"), query("insert into hidden.secret (b) values (1)")
	insert := q("begin", "insert into t (b) values (9)")
	inTransaction := q("do 1", "rollback", "select b from t where b > 3")
	execute := onStatement(mysqlwire.ComStmtExecute, last, 0, 1, 0, 0, 0)
	lastCommands := [][]byte{
		execute, onStatement(mysqlwire.ComStmtBulkExecute, last, 128, 0, 3, 0, 1), onStatement(mysqlwire.ComStmtFetch, last, 1, 0, 0, 0),
		onStatement(mysqlwire.ComStmtReset, last), onStatement(mysqlwire.ComStmtSendLongData, last, append([]byte{0, 0}, "long"...)...), execute,
		onStatement(mysqlwire.ComStmtClose, last), execute, query("select b from t where b > 3"),
	}
	variables := "show session variables where variable_name not in ('timestamp', 'pseudo_thread_id', 'external_user', 'proxy_user', 'rand_seed1', " +
		"'rand_seed2', 'statement_id') and variable_name not like 'in\\_%'"
	byPrepare := sqlplan.Rule{Types: []sqlplan.Type{sqlplan.TypePrepare}}
	selectSecret := prepare("select a, ? from hidden.secret")
	const attribute = "select mysql_query_attribute_string('n')"
	executeAttributed := onStatement(mysqlwire.ComStmtExecute, last, append([]byte{byte(mysqlwire.ExecuteParamCount), 1, 0, 0, 0, 1}, oneAttribute("abc")...)...)
	return []memory{
		{name: "diagnostics", setup: q("select 1/0, cast('x' as signed)"), refused: remove, then: q("show warnings", "show errors", "select @@error_count")},
		{name: "diagnostics: count", setup: q("select 1/0, cast('x' as signed)"), refused: remove, then: q("select @@warning_count")},
		{
			name: "diagnostics: GET", refused: remove,
			then: q("get diagnostics @c = number, @r = row_count", "select @c, @r"),
		},
		{
			name: "diagnostics: GET CONDITION", refused: remove,
			then: q("get diagnostics condition 1 @n = mysql_errno, @m = message_text, @s = returned_sqlstate", "select @n, @m, @s"),
		},
		{name: "ROW_COUNT()", setup: q("update t set b = b + 0, c = 1"), refused: remove, then: q("select row_count()")},
		{name: "FOUND_ROWS()", setup: q("select * from t"), refused: read, then: q("select found_rows()")},
		{name: "LAST_INSERT_ID()", setup: q("insert into t (b) values (7)"), refused: add, then: q("select last_insert_id(), @@last_insert_id, @@identity")},
		{name: "SET INSERT_ID", setup: q("set insert_id = 1000"), refused: add, then: q("insert into t (b) values (8)", "select last_insert_id()")},
		{name: "SET LAST_INSERT_ID", setup: q("set last_insert_id = 77"), refused: add, then: q("select last_insert_id()")},
		{name: "transaction", setup: insert, refused: remove, then: inTransaction},
		{name: "transaction: SELECT", setup: insert, refused: read, then: inTransaction},
		{name: "transaction: CALL", setup: insert, refused: query("call hidden.p()"), rule: sqlplan.Rule{Types: []sqlplan.Type{sqlplan.TypeCall}}, then: inTransaction},
		{name: "transaction: DDL", setup: insert, refused: query("drop table hidden.secret"), then: inTransaction, kept: true},
		{name: "transaction: LOCK TABLES", setup: insert, refused: query("lock tables hidden.secret read"), then: inTransaction, kept: true},
		{name: "transaction: autocommit = 0", setup: q("set autocommit = 0"), refused: remove, then: q("do 1", "insert into t (b) values (9)", "rollback", "select b from t where b > 3")},
		{name: "transaction: savepoint", setup: append(insert, q("savepoint s", "insert into t (b) values (10)")...), refused: remove, then: q("rollback to s", "commit", "select b from t where b > 3")},
		{name: "transaction: XA", setup: q("xa start 'x'", "insert into t (b) values (9)"), refused: remove, then: q("xa end 'x'", "xa rollback 'x'")},
		{name: "SET TRANSACTION", setup: q("set transaction read only"), refused: remove, then: q("insert into t (b) values (9)", "insert into t (b) values (10)")},
		{name: "SET TRANSACTION: SELECT", setup: q("set transaction read only"), refused: read, then: q("insert into t (b) values (9)")},
		{name: "table locks", setup: q("lock tables t read"), refused: remove, then: q("insert into t (b) values (9)", "select * from s", "unlock tables")},
		{name: "user variables", setup: q("set @a = 1"), refused: query("select @a := 2 from hidden.secret"), then: q("select @a")},
		{name: "user variables: SET", setup: q("set @a = 1"), refused: query("set @a = 2, @b = (select a from hidden.secret limit 1)"), then: q("select @a, @b")},
		{name: "session variables: SET", refused: query("set @@sort_buffer_size = 65536, @b = (select a from hidden.secret limit 1)"), then: q(variables)},
		{name: "session variables", setup: q("set sql_mode = 'ANSI_QUOTES'", "set names latin1"), refused: remove, then: q(variables, "show warnings")},
		{name: "default schema", refused: query("use hidden"), rule: sqlplan.Rule{Types: []sqlplan.Type{sqlplan.TypeUse}}, then: q("select database()")},
		{name: "default schema: COM_INIT_DB", refused: append([]byte{byte(mysqlwire.ComInitDB)}, "hidden"...), rule: sqlplan.Rule{Types: []sqlplan.Type{sqlplan.TypeUse}}, then: q("select database()", "show warnings")},
		{name: "session tracking", setup: q("set session_track_schema = 1"), refused: remove, then: q("use test", "do 1")},
		{name: "temporary tables", setup: q("create temporary table x (a int)"), refused: remove, then: q("select * from x")},
		{name: "HANDLER", setup: q("handler t open"), refused: remove, rule: sqlplan.Rule{Types: []sqlplan.Type{sqlplan.TypeDelete}}, then: q("handler t read first")},
		{name: "statements: the first ones", refused: query("insert into t (b) values (77); delete from hidden.secret; insert into t (b) values (78)"), then: q("show warnings", "select b from t where b > 3")},
		{name: "statements: the first one", refused: query("delete from hidden.secret; insert into t (b) values (78)"), then: q("show warnings", "select b from t where b > 3")},
		{name: "statements: results", refused: query("select 1; select b from t; set @a = 5;  delete from hidden.secret -- x"), then: q("select @a")},
		{name: "statements: an earlier error", refused: query("select 1; insert into t (a) values (1); delete from hidden.secret"), then: q("show warnings")},
		{name: "statements: USE", refused: query("use other; delete from hidden.secret"), then: q("select database()", "select * from u")},
		{name: "statements: transaction", refused: query("begin; insert into t (b) values (9); delete from hidden.secret; commit"), then: inTransaction},
		{name: "statements: CALL", refused: query("call two(); delete from hidden.secret"), then: q("select 1")},
		{name: "last prepared statement", setup: [][]byte{prepare("insert into t (b) values (5)")}, refused: prepare("delete from hidden.secret"), then: lastCommands},
		{name: "last prepared statement: diagnostics", setup: [][]byte{prepare("insert into t (b) values (5)")}, refused: prepare("delete from hidden.secret"), then: q("show warnings", "select row_count()")},
		{name: "last prepared statement: text", setup: [][]byte{prepare("insert into t (b) values (5)")}, refused: remove, then: [][]byte{query("show warnings"), execute, query("select b from t where b > 3")}},
		{name: "statements by name", setup: q("prepare s from 'select 1'"), refused: query("prepare s from 'delete from hidden.secret'"), then: q("execute s"), late: true, rule: byPrepare},
		{name: "statements by name: several", setup: q("prepare s from 'select 1'"), refused: query("do 1; prepare s from 'delete from hidden.secret'"), then: q("execute s"), late: true, rule: byPrepare},
		{name: "statements by name: another", setup: q("prepare s from 'select 1'"), refused: query("prepare x from 'delete from hidden.secret'"), then: q("execute s", "execute x"), late: true, rule: byPrepare},
		{
			name: "cursor", late: true, setup: [][]byte{selectSecret, executeText(last, 1, 1, "abc"), onStatement(mysqlwire.ComStmtFetch, last, 1, 0, 0, 0)},
			refused: executeText(last, 1, 0, "def"), then: [][]byte{onStatement(mysqlwire.ComStmtFetch, last, 1, 0, 0, 0)},
		},
		{
			name: "cursor: of another statement", late: true, setup: [][]byte{selectSecret, executeText(last, 1, 1, "abc")},
			refused: remove, then: [][]byte{onStatement(mysqlwire.ComStmtFetch, last, 1, 0, 0, 0)},
		},
		{
			name: "long data", late: true, setup: [][]byte{selectSecret, executeText(last, 0, 1, "abc"), onStatement(mysqlwire.ComStmtSendLongData, last, append([]byte{0, 0}, "long"...)...)},
			refused: executeText(last, 0, 0, ""), then: [][]byte{query("do 1"), executeText(last, 0, 0, "abc")}, want: `#4 "\x00\x00\x01\x00\x00\x00\x03abc"`,
		},
		{
			name: "long data: of another statement", setup: [][]byte{prepare("select ?"), onStatement(mysqlwire.ComStmtSendLongData, last, append([]byte{0, 0}, "long"...)...)},
			refused: remove, then: [][]byte{onStatement(mysqlwire.ComStmtExecute, last, 0, 1, 0, 0, 0, 0, 1, 0xFD, 0)},
		},
		{
			name: "parameter types", late: true, setup: [][]byte{selectSecret}, refused: executeText(last, 0, 1, "abc"),
			then: [][]byte{executeText(last, 0, 0, "def"), executeText(last, 0, 0, "ghi")},
		},
		{
			name: "parameter types: others", late: true, setup: [][]byte{selectSecret, onStatement(mysqlwire.ComStmtExecute, last, 0, 1, 0, 0, 0, 0, 1, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8)},
			refused: executeText(last, 0, 1, "abc"), then: [][]byte{executeText(last, 0, 0, "def"), executeText(last, 0, 0, "ghi")},
		},
		{
			name: "query attributes", attr: true, setup: [][]byte{attributed(attribute, "before")}, refused: attributed(attribute+", a from hidden.secret", "abc"),
			then: [][]byte{attributed(attribute, ""), attributed(attribute, "after"), attributed("show warnings", "")},
		},
		{
			name: "query attributes: several", attr: true, refused: attributed(attribute+"; "+attribute+", a from hidden.secret; "+attribute, "abc"),
			then: [][]byte{attributed(attribute, ""), attributed("show warnings", "abc")},
		},
		{
			name: "query attributes: PREPARE", attr: true, setup: [][]byte{attributed("do 1", "before")}, refused: prepare(attribute + ", a from hidden.secret"),
			then: [][]byte{attributed(attribute, "")},
		},
		{
			name: "query attributes: EXECUTE", attr: true, late: true, setup: [][]byte{prepare(attribute + ", a from hidden.secret")}, refused: executeAttributed,
			then: [][]byte{attributed(attribute, ""), onStatement(mysqlwire.ComStmtExecute, last, 0, 1, 0, 0, 0), executeAttributed},
		},
	}
}

// A refusalRig is a server on which an account lacks the privileges for what a rule refuses.
type refusalRig struct {
	*rig
	direct string // the server's address
	tidb   bool
	Exec   func(...string) error
}

func startRefusals(t *testing.T, opts []testmysql.Option) *refusalRig {
	s := testmysql.StartOrSkip(t, opts...)
	return prepareRefusals(t, s.Addr, s.Exec, false)
}

// prepareRefusals creates the objects of memories, with stored procedures unless the server is TiDB.
func prepareRefusals(t *testing.T, addr string, exec func(...string) error, tidb bool) *refusalRig {
	if !tidb {
		must(t, exec("create database hidden", "create procedure hidden.p() select 1", "create procedure test.two() begin select 1; select 2; end"))
	}
	must(t, exec("create database if not exists hidden", "create table hidden.secret (a int auto_increment primary key, b int)",
		"create database other", "create table other.u (a int)",
		"create table test.t (a int auto_increment primary key, b int, c int)", "create table test.s (a int)",
		"insert into hidden.secret (b) values (1), (2)", "create user limited@'%' identified by '"+testmysql.Password+"'", "grant all on test.* to limited@'%'", "grant all on other.* to limited@'%'"))
	_ = exec("install component 'file://component_query_attributes'") // MySQL's
	return &refusalRig{startGateway(t, addr, nil), addr, tidb, exec}
}

// reset restores the table that memories change.
func (r *refusalRig) reset(t *testing.T) {
	t.Helper()
	if r.tidb { // an AUTO_INCREMENT does not return to 1
		must(t, r.Exec("drop table test.t", "create table test.t (a int auto_increment primary key, b int, c int)"))
	}
	must(t, r.Exec("delete from test.t", "alter table test.t auto_increment = 1", "insert into test.t (b) values (1), (2), (3)"))
}

func (r *refusalRig) connect(t *testing.T, addr, user string, caps mysqlwire.Capability) *mysqlconn.Client {
	t.Helper()
	caps |= mysqlwire.CapMultiStatements | mysqlwire.CapMultiResults | mysqlwire.CapPSMultiResults
	key := mysqlconn.ServerKey{Request: true}
	if !caps.Has(mysqlwire.CapQueryAttributes) {
		c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{
			Addr: addr, User: user, Password: testmysql.Password, Database: "test", TLSMode: mysqlconn.TLSDisabled, ServerKey: key, Capabilities: caps,
		})
		must(t, err)
		return c
	}
	nc, err := net.Dial("tcp", addr) // Dial does not offer the capability
	must(t, err)
	c, err := mysqlconn.LogIn(t.Context(), mysqlconn.New(nc), mysqlconn.Login{
		User: user, Password: testmysql.Password, Charset: 45, MaxPacket: 1 << 30, ServerKey: key,
		Capabilities: caps | mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth | mysqlwire.CapPluginAuthLenenc | mysqlwire.CapDeprecateEOF,
	})
	must(t, err)
	send(t, c, append([]byte{byte(mysqlwire.ComInitDB)}, "test"...))
	receive(t, c, mysqlwire.ComInitDB)
	return c
}

// TestRefusalMemory compares what a session keeps after an error of the server, for lack of a privilege, and after
// a refusal, with and without waiting for responses.
func TestRefusalMemory(t *testing.T) {
	for name, opts := range refusalServers(t) {
		t.Run(name, func(t *testing.T) {
			r := startRefusals(t, opts)
			for _, m := range memories() {
				for _, pipelined := range []bool{true, false} {
					if !pipelined && !*allRefusals {
						continue
					}
					var caps mysqlwire.Capability
					if pipelined {
						caps = mysqlwire.CapSessionTrack | mysqlwire.CapDeprecateEOF
					}
					if m.attr && name != "MySQL" {
						continue
					}
					if m.attr {
						caps |= mysqlwire.CapQueryAttributes
					}
					through, refused := r.playThrough(t, m, pipelined, caps)
					if name == "MySQL" && m.want != "" {
						if !strings.Contains(through, m.want) {
							t.Errorf("%s, pipelined %v: after a refusal\n%s", m.name, pipelined, through)
						}
						continue
					}
					if direct, failed := r.playDirectly(t, m, pipelined, caps); direct != through != m.kept || !sameKind(refused, failed) {
						t.Errorf("%s, pipelined %v: after a refusal\n%safter the server's error\n%s", m.name, pipelined, through, direct)
					}
				}
			}
		})
	}
}

// playDirectly plays m on the server, as an account without privileges for schema hidden.
func (r *refusalRig) playDirectly(t *testing.T, m memory, pipelined bool, caps mysqlwire.Capability) (string, mysqlwire.Err) {
	t.Helper()
	r.reset(t)
	c := r.connect(t, r.direct, "limited", caps)
	defer c.Close()
	if !m.late {
		return play(t, c, m, pipelined, nil, nil)
	}
	permit := func() { must(t, r.Exec("grant all on hidden.* to limited@'%'")) }
	deny := func() { must(t, r.Exec("revoke all on hidden.* from limited@'%'")) }
	defer deny()
	permit()
	return play(t, c, m, false, deny, permit)
}

// playThrough plays m through the gateway, as an account with privileges.
func (r *refusalRig) playThrough(t *testing.T, m memory, pipelined bool, caps mysqlwire.Capability) (string, mysqlwire.Err) {
	t.Helper()
	r.reset(t)
	rule := m.rule
	rule.Name, rule.Action, rule.Message = "hidden", sqlplan.ActionBlock, "not for applications"
	if rule.Types == nil {
		rule.Tables = []string{"hidden.*"}
	}
	permit := func() { must(t, r.planner.SetRules(nil)) }
	deny := func() { must(t, r.planner.SetRules([]sqlplan.Rule{rule})) }
	permit()
	c := r.connect(t, r.addr, testmysql.AppUser, caps)
	defer c.Close()
	if !m.late {
		deny()
		return play(t, c, m, pipelined, nil, nil)
	}
	return play(t, c, m, false, deny, permit)
}

// sameKind reports whether the error of a refused command is a refusal if the server's is a lack of privileges, and the
// same otherwise.
func sameKind(refused, failed mysqlwire.Err) bool {
	switch failed.Number {
	case 1044, 1142, 1143, 1370: // to a schema, a table, a column, a routine
		return refused.Number == mysqlwire.ErrnoSpecificAccessDenied
	}
	return refused.Number == failed.Number
}

// play runs the commands and returns their responses and the refused command's error, the number and text of which are
// replaced in the responses. Before and after that command, it calls deny and permit unless they are nil.
func play(t *testing.T, c *mysqlconn.Client, m memory, pipelined bool, deny, permit func()) (string, mysqlwire.Err) {
	t.Helper()
	commands := append(append(append([][]byte{}, m.setup...), m.refused), m.then...)
	var out []string
	if pipelined {
		for _, p := range commands {
			send(t, c, p)
		}
	}
	var refused mysqlwire.Err
	id := uint32(0)
	for i, p := range commands {
		if i == len(m.setup) && deny != nil {
			deny()
		}
		if m.late && len(p) > 4 && p[0] != byte(mysqlwire.ComQuery) && p[0] != byte(mysqlwire.ComStmtPrepare) {
			p = bytes.Clone(p)
			binary.LittleEndian.PutUint32(p[1:], id) // MySQL has no LastPreparedID
		}
		if !pipelined {
			send(t, c, p)
		}
		text, e, prepared := receive(t, c, mysqlwire.Command(p[0]))
		if prepared != 0 {
			id, text = prepared, "prepared"
		}
		if i == len(m.setup) {
			if refused = e; e.Number == 0 {
				t.Errorf("%s: %q is not refused: %s", m.name, p, text)
			}
			if permit != nil {
				permit()
			}
		}
		out = append(out, fmt.Sprintf("    %.60q: %s\n", commands[i], text))
	}
	all := strings.ReplaceAll(strings.Join(out, ""), fmt.Sprintf("(%d) ", id), "(id) ")
	if refused.Number == 0 {
		return all, refused
	}
	all = strings.ReplaceAll(all, string(refused.Message), "(message)")
	all = strings.ReplaceAll(all, strings.Trim(strconv.Quote(string(refused.Message)), `"`), "(message)")
	number := strconv.Itoa(int(refused.Number))
	return strings.NewReplacer(`"`+number+`"`, "(number)", "error "+number+" ", "error (number) ").Replace(all), refused
}

func send(t *testing.T, c *mysqlconn.Client, payload []byte) {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
	c.Seq = 0
	must(t, c.WriteMessage(payload))
}

// receive reads a response and returns its values, statuses and error as text.
func receive(t *testing.T, c *mysqlconn.Client, cmd mysqlwire.Command) (text string, e mysqlwire.Err, id uint32) {
	t.Helper()
	var r mysqlwire.Response
	var all []byte
	for r.Begin(cmd, c.Capabilities, max(1, c.Seq)); !r.Done(); { // after the packets of the command
		n, _, err := r.Scan(c.Buffered())
		if err != nil {
			t.Fatalf("%v after %q in the response to %v", err, all, cmd)
		}
		all = append(all, c.Buffered()[:n]...)
		c.Discard(n)
		if !r.Done() {
			if err := c.Fill(); err != nil {
				t.Fatalf("%v after %q in the response to %v", err, all, cmd)
			}
		}
	}
	var b strings.Builder
	for len(all) > 0 {
		h := mysqlwire.ParseHeader(all)
		p := all[mysqlwire.HeaderLen : mysqlwire.HeaderLen+h.Len]
		all = all[mysqlwire.HeaderLen+h.Len:]
		switch {
		case bytes.HasPrefix(p, []byte("\x03def")):
		case p[0] == mysqlwire.MarkErr:
			must(t, e.Decode(p))
			fmt.Fprintf(&b, "#%d error %d %s: %s ", h.Seq, e.Number, e.State, e.Message)
		default:
			fmt.Fprintf(&b, "#%d %s ", h.Seq, values(p))
		}
	}
	return b.String(), e, r.StatementID
}

// values returns a packet as text, without the lengths of strings.
func values(p []byte) string {
	var all []string
	for rest := p; len(rest) > 0; {
		n, size := mysqlwire.LenencInt(rest)
		if size != 1 || p[0] == 0 || p[0] >= 0xFA || len(rest) < 1+int(n) {
			return fmt.Sprintf("%q", p)
		}
		all, rest = append(all, string(rest[1:1+n])), rest[1+n:]
	}
	return fmt.Sprintf("%q", all)
}

// TestLongRefusal refuses statements that are longer than the statement memory, also in several packets and in
// pieces that end anywhere: nothing is executed and the session continues.
func TestLongRefusal(t *testing.T) {
	for name, opts := range refusalServers(t) {
		t.Run(name, func(t *testing.T) {
			r := startRefusals(t, append(opts, testmysql.WithArgs("--max-allowed-packet=64M")))
			c := r.connect(t, r.addr, testmysql.AppUser, 0)
			defer c.Close()
			send(t, c, append([]byte{byte(mysqlwire.ComSetOption)}, 1, 0))
			receive(t, c, mysqlwire.ComSetOption)
			send(t, c, prepare("select length(?) from hidden.secret"))
			_, _, id := receive(t, c, mysqlwire.ComStmtPrepare)
			must(t, r.planner.SetRules([]sqlplan.Rule{{Name: "hidden", Action: sqlplan.ActionBlock, Tables: []string{"hidden.*"}}}))
			open := []string{"'%s", `"%s`, "1 /* %s", "1 + `%s", "1 -- %s", "1 + ((%s", `'\%s`, "'%s;", "'%s' ; -- %s"}
			sizes := []int{1 << 20, mysqlwire.MaxPayload + 1}
			if *allRefusals {
				sizes = []int{1 << 20, 3 << 20, mysqlwire.MaxPayload - 1, mysqlwire.MaxPayload, mysqlwire.MaxPayload + 1, 2*mysqlwire.MaxPayload - 1}
			}
			for i, size := range sizes {
				for _, cmd := range []mysqlwire.Command{mysqlwire.ComQuery, mysqlwire.ComStmtPrepare, mysqlwire.ComStmtExecute} {
					p := append([]byte{byte(cmd)}, "insert into hidden.secret (b) values (1), ("...)
					text := open[(i+int(cmd))%len(open)]
					p = append(p, strings.ReplaceAll(text, "%s", strings.Repeat("x", 1+(size-len(p)-len(text))/strings.Count(text, "%s")))...)
					if cmd == mysqlwire.ComStmtExecute {
						p = append(onStatement(cmd, id, 0, 1, 0, 0, 0, 0, 1, 0xFD, 0, 0xFD, 0, 0, 0), bytes.Repeat([]byte{'x'}, size)...)
					}
					send(t, c, p)
					if text, e, _ := receive(t, c, cmd); e.Number != mysqlwire.ErrnoSpecificAccessDenied {
						t.Fatalf("%v of %d bytes: %.300s", cmd, size, text)
					}
					send(t, c, query("show errors"))
					if text, _, _ := receive(t, c, mysqlwire.ComQuery); !strings.Contains(text, "Tare refused") {
						t.Errorf("%v of %d bytes: errors %s", cmd, size, text)
					}
				}
			}
			must(t, r.planner.SetRules(nil))
			send(t, c, query("select count(*) from hidden.secret"))
			if text, _, _ := receive(t, c, mysqlwire.ComQuery); !strings.Contains(text, `["2"]`) {
				t.Errorf("after refused statements the table has %s", text)
			}
		})
	}
}

// TestRefusedMeanwhile sets rules while a long text of several statements arrives, whose first ones the server has received: the client receives an
// error, and the session ends before the last statement.
func TestRefusedMeanwhile(t *testing.T) {
	r := startRefusals(t, []testmysql.Option{testmysql.WithArgs("--max-allowed-packet=64M")})
	c := r.connect(t, r.addr, testmysql.AppUser, mysqlwire.CapMultiStatements)
	defer c.Close()
	text := "do 1; select b /* " + strings.Repeat("x", 15<<20) + " */ from hidden.secret"
	message, _ := mysqlwire.AppendPacket(nil, query(text), 0)
	if _, err := c.Write(message[:14<<20]); err != nil { // more than the sockets have room for
		t.Fatal(err)
	}
	must(t, r.planner.SetRules([]sqlplan.Rule{{Name: "hidden", Action: sqlplan.ActionBlock, Tables: []string{"hidden.*"}}}))
	if _, err := c.Write(message[14<<20:]); err != nil {
		t.Fatal(err)
	}
	c.Seq = 1
	p, err := c.ReadMessage(1 << 16)
	var e mysqlwire.Err
	if err == nil {
		err = e.Decode(p)
	}
	if err != nil || e.Number != mysqlwire.ErrnoSpecificAccessDenied {
		t.Errorf("got error %d, %v", e.Number, err)
	}
	if _, err := c.ReadMessage(1 << 16); err == nil {
		t.Error("the session continues")
	}
	must(t, r.planner.SetRules(nil))
}

// TestLastPrepared refuses a PREPARE after more statements than are kept, and when the server's limit of prepared
// statements is reached: there is no last prepared statement, and the one before it is not executed.
func TestLastPrepared(t *testing.T) {
	r := startRefusals(t, nil)
	must(t, r.Exec("set global max_prepared_stmt_count = 20000"))
	must(t, r.planner.SetRules([]sqlplan.Rule{{Name: "hidden", Action: sqlplan.ActionBlock, Tables: []string{"hidden.*"}}}))
	for _, m := range []struct {
		prepared int
		limit    string
	}{{1, "set global max_prepared_stmt_count = 20000"}, {16<<10 + 1, "do 1"}, {1, "set global max_prepared_stmt_count = 1"}} {
		if m.prepared > 1 && !*allRefusals {
			continue
		}
		must(t, r.Exec("delete from test.t"))
		c := r.connect(t, r.addr, testmysql.AppUser, 0)
		for range m.prepared {
			send(t, c, prepare("insert into t (b) values (5)"))
			receive(t, c, mysqlwire.ComStmtPrepare)
		}
		must(t, r.Exec(m.limit))
		for _, p := range [][]byte{
			prepare("delete from hidden.secret"), onStatement(mysqlwire.ComStmtExecute, last, 0, 1, 0, 0, 0),
			onStatement(mysqlwire.ComStmtReset, last), onStatement(mysqlwire.ComStmtFetch, last, 1, 0, 0, 0),
		} {
			send(t, c, p)
			text, e, _ := receive(t, c, mysqlwire.Command(p[0]))
			want := mysqlwire.ErrnoUnknownStatement
			if p[0] == byte(mysqlwire.ComStmtPrepare) {
				want = mysqlwire.ErrnoSpecificAccessDenied
			}
			if e.Number != want {
				t.Errorf("%d statements, %s: %v: %s, want error %d", m.prepared, m.limit, mysqlwire.Command(p[0]), text, want)
			}
		}
		send(t, c, query("select count(*) from t"))
		if text, _, _ := receive(t, c, mysqlwire.ComQuery); !strings.Contains(text, `["0"]`) {
			t.Errorf("%d statements, %s: rows %s", m.prepared, m.limit, text)
		}
		c.Close()
		must(t, r.Exec("set global max_prepared_stmt_count = 20000"))
	}
}

// TestPreparedLimit prepares a statement when the server's limit of prepared statements is reached: directly, the number of
// the last prepared statement then executes the one before, through the gateway none.
func TestPreparedLimit(t *testing.T) {
	for name, opts := range refusalServers(t) {
		if name == "MySQL" {
			continue // has no number of the last prepared statement
		}
		t.Run(name, func(t *testing.T) {
			r := startRefusals(t, opts)
			for addr, want := range map[string]string{r.direct: `["5"]`, r.addr: "error 1243 "} {
				r.reset(t)
				must(t, r.Exec("set global max_prepared_stmt_count = 1"))
				c := r.connect(t, addr, testmysql.AppUser, 0)
				var saw strings.Builder
				for _, p := range [][]byte{
					prepare("insert into t (b) values (5)"), prepare("select 1"), onStatement(mysqlwire.ComStmtExecute, last, 0, 1, 0, 0, 0), query("select b from t where b > 3"),
				} {
					send(t, c, p)
					text, _, _ := receive(t, c, mysqlwire.Command(p[0]))
					saw.WriteString(text + "\n")
				}
				c.Close()
				if !strings.Contains(saw.String(), "error 1461 ") || !strings.Contains(saw.String(), want) || strings.Contains(saw.String(), `["5"]`) == strings.Contains(saw.String(), "error 1243 ") {
					t.Errorf("want %s:\n%s", want, saw.String())
				}
				must(t, r.Exec("set global max_prepared_stmt_count = 20000"))
			}
		})
	}
}
