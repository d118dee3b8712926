package gateway_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// through opens a database handle that reaches the schema through the gateway.
func through(t *testing.T, g *rig, s *testmysql.Schema, change func(*mysql.Config)) *sql.DB {
	t.Helper()
	cfg := s.Config("app")
	cfg.Addr, cfg.DBName = g.addr, s.Name
	if change != nil {
		change(cfg)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// raw opens one connection through the gateway, for protocol details that drivers hide.
func raw(t *testing.T, g *rig, s *testmysql.Schema, caps mysqlwire.Capability) *mysqlconn.Client {
	t.Helper()
	cfg := s.Config("app")
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{
		Addr: g.addr, User: cfg.User, Password: cfg.Passwd, Database: s.Name,
		TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true}, Capabilities: caps,
	})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// command sends one command and reads packets up to one that last accepts.
func command(t *testing.T, c *mysqlconn.Client, payload []byte, last func(p []byte) bool) (packets [][]byte) {
	t.Helper()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	c.Seq = 0
	must(t, c.WriteMessage(payload))
	for {
		p, err := c.ReadMessage(64 << 20)
		must(t, err)
		packets = append(packets, bytes.Clone(p))
		if last(p) {
			return packets
		}
	}
}

func first([]byte) bool { return true }

func isEOF(p []byte) bool {
	return p[0] == mysqlwire.MarkEOF && len(p) < 9 || p[0] == mysqlwire.MarkErr
}

func TestStatements(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	db := through(t, g, s, func(c *mysql.Config) { c.MultiStatements = true })
	db.SetMaxOpenConns(1)
	_, err := db.Exec("create table t (id int primary key auto_increment, v varchar(50))")
	must(t, err)
	res, err := db.Exec("insert into t (v) values ('a'), ('b'), ('c')")
	must(t, err)
	if n, _ := res.RowsAffected(); n != 3 {
		t.Errorf("%d rows affected, want 3", n)
	}
	var v string
	must(t, db.QueryRow("select v from t where id = ?", 2).Scan(&v)) // prepared
	if v != "b" {
		t.Errorf("v = %q, want b", v)
	}
	rows, err := db.Query("select id from t; select v from t where id > 1; select 1 from t where 1 = 0")
	must(t, err)
	var sets []int
	for {
		n := 0
		for rows.Next() {
			n++
		}
		sets = append(sets, n)
		if !rows.NextResultSet() {
			break
		}
	}
	must(t, errors.Join(rows.Err(), rows.Close()))
	if fmt.Sprint(sets) != "[3 2 0]" {
		t.Errorf("rows of the results: %v, want [3 2 0]", sets)
	}
	_, err = db.Exec("select nothing from nowhere")
	if e, ok := errors.AsType[*mysql.MySQLError](err); !ok || e.Number != 1146 {
		t.Errorf("got %v, want error 1146", err)
	}

	want := []struct {
		text           string
		cmd            mysqlwire.Command
		rows, affected uint64
		results        uint32
		errno          uint16
	}{
		{"CREATE TABLE", mysqlwire.ComQuery, 0, 0, 1, 0},
		{"INSERT INTO `t`", mysqlwire.ComQuery, 0, 3, 1, 0},
		{"SELECT `v` FROM `t` WHERE `id` = ?", mysqlwire.ComStmtPrepare, 0, 0, 1, 0},
		{"SELECT `v` FROM `t` WHERE `id` = ?", mysqlwire.ComStmtExecute, 1, 0, 1, 0},
		{"SELECT `id` FROM `t`; SELECT", mysqlwire.ComQuery, 5, 0, 3, 0},
		{"SELECT `nothing`", mysqlwire.ComQuery, 0, 0, 1, 1146},
	}
	for i, w := range want {
		r, text, errText := g.records.wait(t, i)
		if !strings.HasPrefix(text, w.text) || r.Command != w.cmd || r.RowsReturned != w.rows ||
			r.RowsAffected != w.affected || r.Results != w.results || r.ErrorNumber != w.errno {
			t.Errorf("record %d: %s %q rows %d affected %d results %d error %d; want %+v",
				i, r.Command, text, r.RowsReturned, r.RowsAffected, r.Results, r.ErrorNumber, w)
		}
		if w.errno != 0 && (r.SQLState != "42S02" || !strings.Contains(errText, "nowhere")) {
			t.Errorf("record %d: SQLSTATE %q, text %q", i, r.SQLState, errText)
		}
		if r.User != "app" || r.Schema != s.Name || r.Total <= 0 || r.FirstByte <= 0 || r.BytesIn == 0 || r.BytesOut == 0 {
			t.Errorf("record %d lacks something: %+v", i, r)
		}
	}
	if r, _, _ := g.records.wait(t, 3); len(r.Binds) != 1 || !r.PlanCached {
		t.Errorf("the execution has %d bind values and plan_cached %v", len(r.Binds), r.PlanCached)
	}
}

func TestTransactionsAreNumbered(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	for _, sql := range []string{"select 1", "begin", "select 2", "commit", "select 3", "begin", "rollback"} {
		if _, err := testscript.Exec(t, c, sql); err != nil {
			t.Fatal(err)
		}
	}
	var got []uint64
	for i := range 7 {
		r, _, _ := g.records.wait(t, i)
		got = append(got, r.TransactionID)
	}
	if fmt.Sprint(got) != "[0 1 1 1 0 2 2]" {
		t.Errorf("transactions %v, want [0 1 1 1 0 2 2]", got)
	}
}

func TestLocalInfile(t *testing.T) {
	s := testmysql.Shared(t)
	must(t, s.Exec("SET GLOBAL local_infile=1"))
	g := startGateway(t, s.Addr, nil)
	db := through(t, g, s, nil)
	_, err := db.Exec("create table t (a int, b text)")
	must(t, err)
	const lines = 50_000
	name := t.Name()
	mysql.RegisterReaderHandler(name, func() io.Reader {
		var b bytes.Buffer
		for i := range lines {
			fmt.Fprintf(&b, "%d\tline %d\n", i, i)
		}
		return &b
	})
	defer mysql.DeregisterReaderHandler(name)
	res, err := db.Exec("load data local infile 'Reader::" + name + "' into table t")
	must(t, err)
	if n, _ := res.RowsAffected(); n != lines {
		t.Errorf("%d rows loaded, want %d", n, lines)
	}
	r, text, _ := g.records.wait(t, 1)
	if r.StatementType != "load" || r.RowsAffected != lines || r.BytesIn < lines*10 || !strings.HasPrefix(text, "LOAD DATA") {
		t.Errorf("record: type %s, %d rows, %d bytes in, %q", r.StatementType, r.RowsAffected, r.BytesIn, text)
	}
	// A client without such a file sends only the empty packet; the session continues.
	db.SetMaxOpenConns(1)
	if _, err = db.Exec("load data local infile '/no/such' into table t"); err == nil {
		t.Error("a file that the driver does not allow was loaded")
	}
	var n int
	if err := db.QueryRow("select count(*) from t").Scan(&n); err != nil || n != lines {
		t.Errorf("%d rows, %v; want %d", n, err, lines)
	}
}

// TestLongMessages sends and receives messages around the size boundaries of packets and buffers.
func TestLongMessages(t *testing.T) {
	s := testmysql.Shared(t)
	must(t, s.Exec("SET GLOBAL max_allowed_packet=64*1024*1024"))
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	for i, size := range []int{
		2<<10 - 5, 2<<10 - 4, 4 << 10, 64 << 10, // the buffers of clients, backends and relays
		1 << 20, // the statement memory
		1<<20 + 1, mysqlwire.MaxPayload - 1, mysqlwire.MaxPayload, mysqlwire.MaxPayload + 1, 2 * mysqlwire.MaxPayload,
	} {
		const head, tail = "select /* c */ '", "' as x"
		value := strings.Repeat("x", size-1-len(head)-len(tail))
		var got int
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := c.Query(ctx, head+value+tail, func(row mysqlwire.TextRow) error {
			got = len(row[0])
			return nil
		})
		cancel()
		if err != nil {
			t.Fatalf("a statement of %d bytes: %v", size, err)
		}
		if got != len(value) {
			t.Errorf("a statement of %d bytes: got %d bytes back, want %d", size, got, len(value))
		}
		r, text, _ := g.records.wait(t, i)
		if text != "SELECT ? AS `x`" || int(r.BytesIn) < size || int(r.BytesOut) < len(value) || r.RowsReturned != 1 {
			t.Errorf("a statement of %d bytes: record %q with %d bytes in, %d out, %d rows", size, text, r.BytesIn, r.BytesOut, r.RowsReturned)
		}
	}
}

// TestTooLong sends a message that exceeds the server's limit: the server's error reaches the client.
func TestTooLong(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithArgs("--max-allowed-packet=1M"))
	g := startGateway(t, s.Addr, nil)
	cfg := s.Config("app")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: g.addr, User: cfg.User, Password: cfg.Passwd, TLSMode: mysqlconn.TLSDisabled, ServerKey: mysqlconn.ServerKey{Request: true}})
	must(t, err)
	defer c.Close()
	_, err = c.Exec(ctx, "select '"+strings.Repeat("x", 20<<20)+"'")
	if err == nil {
		t.Fatal("20 MiB passed a server that takes 1 MiB")
	}
	if e, ok := testscript.ServerError(err); ok && e.Number != mysqlwire.ErrnoPacketTooLarge && e.Number != mysqlwire.ErrnoNetRead {
		t.Errorf("got %v, want error 1153 or 2013", err)
	}
}

func TestPreparedStatements(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	for _, sql := range []string{"create table t (id int, b longblob)", "insert into t values (1,'a'),(2,'b'),(3,'c'),(4,'d'),(5,'e')"} {
		if _, err := testscript.Exec(t, c, sql); err != nil {
			t.Fatal(err)
		}
	}
	prepare := func(sql string) uint32 {
		p := command(t, c, append([]byte{byte(mysqlwire.ComStmtPrepare)}, sql...), first)
		var ok mysqlwire.PrepareOK
		must(t, ok.Decode(p[0], c.Capabilities))
		rest := int(ok.Params) + int(ok.Columns)
		if !c.Capabilities.Has(mysqlwire.CapDeprecateEOF) {
			rest += int(min(ok.Params, 1)) + int(min(ok.Columns, 1))
		}
		for range rest {
			_, err := c.ReadMessage(1 << 16)
			must(t, err)
		}
		return ok.StatementID
	}
	id := binary.LittleEndian.AppendUint32
	t.Run("cursor", func(t *testing.T) {
		st := prepare("select id from t where id > ? order by id")
		execute := append(id([]byte{byte(mysqlwire.ComStmtExecute)}, st), 1, 1, 0, 0, 0, 0, 1, 3, 0, 1, 0, 0, 0) // cursor; > 1
		p := command(t, c, execute, isEOF)
		if len(p) != 3 {
			t.Fatalf("EXECUTE with a cursor: %d packets, want a count, a definition and EOF", len(p))
		}
		fetch := append(id([]byte{byte(mysqlwire.ComStmtFetch)}, st), 3, 0, 0, 0)
		if p = command(t, c, fetch, isEOF); len(p) != 4 {
			t.Errorf("FETCH 3: %d packets, want 3 rows and EOF", len(p))
		}
		if p = command(t, c, fetch, isEOF); len(p) != 2 {
			t.Errorf("the second FETCH: %d packets, want 1 row and EOF", len(p))
		}
	})
	t.Run("long data", func(t *testing.T) {
		st := prepare("update t set b = ? where id = 1")
		for range 20 {
			c.Seq = 0
			must(t, c.WriteMessage(append(append(id([]byte{byte(mysqlwire.ComStmtSendLongData)}, st), 0, 0), bytes.Repeat([]byte("y"), 200_000)...)))
		}
		execute := append(id([]byte{byte(mysqlwire.ComStmtExecute)}, st), 0, 1, 0, 0, 0, 0, 1, 252, 0)
		if p := command(t, c, execute, first); p[0][0] != mysqlwire.MarkOK {
			t.Fatalf("EXECUTE: %q", p[0])
		}
		var n int
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := c.Query(ctx, "select length(b) from t where id = 1", func(r mysqlwire.TextRow) error {
			_, err := fmt.Sscan(string(r[0]), &n)
			return err
		})
		if err != nil || n != 4_000_000 {
			t.Errorf("%d bytes arrived, %v; want 4,000,000", n, err)
		}
	})
	t.Run("reset and close", func(t *testing.T) {
		st := prepare("select id from t where id = ?")
		if p := command(t, c, id([]byte{byte(mysqlwire.ComStmtReset)}, st), first); p[0][0] != mysqlwire.MarkOK {
			t.Errorf("RESET: %q", p[0])
		}
		c.Seq = 0
		must(t, c.WriteMessage(id([]byte{byte(mysqlwire.ComStmtClose)}, st)))
		if p := command(t, c, append(id([]byte{byte(mysqlwire.ComStmtExecute)}, st), 0, 1, 0, 0, 0, 0, 1, 3, 0, 1, 0, 0, 0), first); p[0][0] != mysqlwire.MarkErr {
			t.Errorf("EXECUTE after CLOSE: %q, want an error", p[0])
		}
	})
	t.Run("pipelined", func(t *testing.T) {
		// MariaDB's connectors send PREPARE and EXECUTE of "the last one" in one write.
		var b []byte
		b, _ = mysqlwire.AppendPacket(b, append([]byte{byte(mysqlwire.ComStmtPrepare)}, "select id from t where id < ?"...), 0)
		b, _ = mysqlwire.AppendPacket(b, append(id([]byte{byte(mysqlwire.ComStmtExecute)}, mysqlwire.LastPreparedID), 0, 1, 0, 0, 0, 0, 1, 3, 0, 3, 0, 0, 0), 0)
		b, _ = mysqlwire.AppendPacket(b, []byte{byte(mysqlwire.ComPing)}, 0)
		_, err := c.Write(b)
		must(t, err)
		// PREPARE: OK, a parameter, a column; EXECUTE: a count, a definition, two rows; PING: OK; and the EOF
		// packets or their substitutes.
		want := []int{3, 5, 1}
		if !c.Capabilities.Has(mysqlwire.CapDeprecateEOF) {
			want = []int{5, 6, 1}
		}
		for i, n := range want {
			c.Seq = 1
			for range n {
				p, err := c.ReadMessage(1 << 16)
				must(t, err)
				if p[0] == mysqlwire.MarkErr {
					t.Fatalf("command %d: %q", i, p)
				}
			}
		}
	})
	if _, err := testscript.Exec(t, c, "select 1"); err != nil {
		t.Error(err)
	}
}

func TestOtherCommands(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, mysqlwire.CapMultiStatements)
	if _, err := testscript.Exec(t, c, "create table t (id int, v int)"); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []struct {
		name    string
		payload []byte
		first   byte
		last    func([]byte) bool
	}{
		{"PING", []byte{byte(mysqlwire.ComPing)}, mysqlwire.MarkOK, first},
		{"STATISTICS", []byte{byte(mysqlwire.ComStatistics)}, 'U', first},
		{"SET_OPTION", []byte{byte(mysqlwire.ComSetOption), 1, 0}, mysqlwire.MarkEOF, first},
		{"INIT_DB", append([]byte{byte(mysqlwire.ComInitDB)}, "mysql"...), mysqlwire.MarkOK, first},
		{"INIT_DB of none", append([]byte{byte(mysqlwire.ComInitDB)}, "no_such"...), mysqlwire.MarkErr, first},
		{"INIT_DB back", append([]byte{byte(mysqlwire.ComInitDB)}, s.Name...), mysqlwire.MarkOK, first},
		{"FIELD_LIST", append([]byte{byte(mysqlwire.ComFieldList)}, "t\x00"...), 3, isEOF},
		{"PROCESS_INFO", []byte{byte(mysqlwire.ComProcessInfo)}, 0, func(p []byte) bool { return p[0] == mysqlwire.MarkErr || isEOF(p) && len(p) < 9 }},
		{"RESET_CONNECTION", []byte{byte(mysqlwire.ComResetConnection)}, mysqlwire.MarkOK, first},
		{"DEBUG", []byte{byte(mysqlwire.ComDebug)}, 0, first},
		{"an unknown one", []byte{0x55}, mysqlwire.MarkErr, first},
	} {
		if cmd.name == "PROCESS_INFO" {
			continue // a result set like any other
		}
		p := command(t, c, cmd.payload, cmd.last)
		if cmd.first != 0 && p[0][0] != cmd.first {
			t.Errorf("%s: answer %q", cmd.name, p[0])
		}
	}
	if _, err := testscript.Exec(t, c, "select 1"); err != nil {
		t.Errorf("after all commands: %v", err)
	}
}

func TestSchemaIsFollowed(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	for _, sql := range []string{"select 1", "use mysql", "select 2", "use `" + s.Name + "`", "select 3"} {
		if _, err := testscript.Exec(t, c, sql); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{s.Name, s.Name, "mysql", "mysql", s.Name} {
		if r, text, _ := g.records.wait(t, i); r.Schema != want {
			t.Errorf("%s: schema %q, want %q", text, r.Schema, want)
		}
	}
}

// TestModesAreFollowed sends the same bytes under modes that change their meaning.
func TestModesAreFollowed(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	for _, sql := range []string{
		`select "a" from (select 1 as a) x`, "set sql_mode = 'ANSI_QUOTES'", `select "a" from (select 1 as a) x`,
		"set sql_mode = 'NO_BACKSLASH_ESCAPES'", `select 'a\', 'b'`, "set sql_mode = ''", `select 'a\'', 'b'`,
	} {
		if _, err := testscript.Exec(t, c, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for i, want := range map[int]string{
		0: "SELECT ? FROM (SELECT ? AS `a`) `x`", 2: "SELECT `a` FROM (SELECT ? AS `a`) `x`",
		4: "SELECT ?, ...", 6: "SELECT ?, ...",
	} {
		if _, text, _ := g.records.wait(t, i); text != want {
			t.Errorf("record %d: %q, want %q", i, text, want)
		}
	}
}

func TestChangeUser(t *testing.T) {
	s := testmysql.Shared(t)
	must(t, s.Exec("CREATE OR REPLACE USER gwother@'%' IDENTIFIED BY 'otherpw'", "GRANT ALL ON *.* TO gwother@'%'"))
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	u := mysqlwire.ChangeUser{User: []byte("gwother"), Database: []byte("mysql"), Charset: 45, AuthPlugin: []byte("mysql_native_password")}
	p := command(t, c, u.AppendTo(nil, c.Capabilities), first)
	if p[0][0] == mysqlwire.MarkEOF { // the method is switched, with a new challenge
		var sw mysqlwire.AuthSwitchRequest
		must(t, sw.Decode(p[0]))
		must(t, c.WriteMessage(mysqlconn.ScrambleNative("otherpw", bytes.TrimSuffix(sw.Data, []byte{0}))))
		reply, err := c.ReadMessage(1 << 16)
		must(t, err)
		if reply[0] != mysqlwire.MarkOK {
			t.Fatalf("CHANGE_USER: %q", reply)
		}
	}
	if _, err := testscript.Exec(t, c, "select current_user()"); err != nil {
		t.Fatal(err)
	}
	if r, _, _ := g.records.wait(t, 0); r.User != "gwother" || r.Schema != "mysql" {
		t.Errorf("after CHANGE_USER the record has user %q and schema %q", r.User, r.Schema)
	}
}

// TestKill kills an idle connection and a running statement on the server: the client's connection ends, with
// the server's error if it sends one.
func TestKill(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	t.Run("idle", func(t *testing.T) {
		c := raw(t, g, s, 0)
		must(t, s.Exec(fmt.Sprintf("KILL %d", c.ConnectionID)))
		must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		if _, err := io.Copy(io.Discard, c.NetConn()); err != nil {
			t.Errorf("the client's connection did not end: %v", err)
		}
	})
	t.Run("running", func(t *testing.T) {
		c := raw(t, g, s, 0)
		done := make(chan error, 1)
		go func() {
			_, err := c.Exec(context.Background(), "select sleep(60)")
			done <- err
		}()
		testwait.Until(t, "the killed statement to end", func() bool {
			if s.Exec(fmt.Sprintf("KILL QUERY %d", c.ConnectionID)) != nil {
				return false
			}
			select {
			case <-done:
				return true
			case <-time.After(10 * time.Millisecond): // it may not have started: kill it again
				return false
			}
		})
	})
}

func TestTLSIsMirrored(t *testing.T) {
	secure := testmysql.Start(t, testmysql.WithTLS())
	plain := testmysql.Shared(t)
	for _, c := range []struct {
		name    string
		addr    string
		cfg     *mysql.Config
		mode    mysqlconn.TLSMode
		client  string // go-sql-driver's tls parameter
		version string // prefix of Ssl_version; "-" if the login must fail
	}{
		{"mirror, client with", secure.Addr, secure.Config("app"), mysqlconn.TLSPreferred, "skip-verify", "TLSv1"},
		{"mirror, client without", secure.Addr, secure.Config("app"), mysqlconn.TLSPreferred, "false", ""},
		{"mirror, backend without", plain.Addr, plain.Config("app"), mysqlconn.TLSPreferred, "skip-verify", "-"},
		{"off, client with", secure.Addr, secure.Config("app"), mysqlconn.TLSDisabled, "skip-verify", ""},
		{"required, client without", secure.Addr, secure.Config("app"), mysqlconn.TLSRequired, "false", "TLSv1"},
		{"required, client with", secure.Addr, secure.Config("app"), mysqlconn.TLSRequired, "skip-verify", "TLSv1"},
		{"required, backend without", plain.Addr, plain.Config("app"), mysqlconn.TLSRequired, "false", "-"},
		{"verify-ca", secure.Addr, secure.Config("app"), mysqlconn.TLSVerifyCA, "false", "TLSv1"},
		{"verify-identity", secure.Addr, secure.Config("app"), mysqlconn.TLSVerifyIdentity, "false", "TLSv1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startGateway(t, c.addr, func(o *gateway.Options) {
				o.Backend.TLS, o.Backend.CAs, o.ClientTLS = c.mode, secure.CA, gateway.ClientTLSPreferred
			})
			cfg := c.cfg.Clone()
			cfg.Addr, cfg.TLSConfig = g.addr, c.client
			cfg.TLS = nil
			connector, err := mysql.NewConnector(cfg)
			must(t, err)
			db := sql.OpenDB(connector)
			defer db.Close()
			var name, version string
			err = db.QueryRow("show status like 'Ssl_version'").Scan(&name, &version)
			switch {
			case c.version == "-":
				if err == nil {
					t.Errorf("connected with %q", version)
				}
			case err != nil:
				t.Error(err)
			case !strings.HasPrefix(version, c.version) || c.version == "" && version != "":
				t.Errorf("the backend's leg has %q, want %q", version, c.version)
			}
		})
	}
	t.Run("verify-ca, unknown authority", func(t *testing.T) {
		g := startGateway(t, secure.Addr, func(o *gateway.Options) {
			o.Backend.TLS, o.ClientTLS = mysqlconn.TLSVerifyCA, gateway.ClientTLSPreferred
		})
		_, err := testscript.Connect(t, g.addr)
		if e, ok := testscript.ServerError(err); !ok || !strings.Contains(e.Message, "certificate") {
			t.Errorf("got %v, want an error about the certificate", err)
		}
	})
}
