//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	littleendian "encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A step is a command from a client, and how the packets of its response end.
type step struct {
	name    string
	payload []byte
	vague   bool // the response varies: only its existence is compared
}

// Two kinds of clients: old and current ones.
const (
	oldCaps = mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapLongPassword | mysqlwire.CapTransactions | mysqlwire.CapMultiStatements |
		mysqlwire.CapMultiResults | mysqlwire.CapPSMultiResults | mysqlwire.CapPluginAuth | mysqlwire.CapPluginAuthLenenc | mysqlwire.CapLocalFiles | mysqlwire.CapLongFlag
	newCaps = oldCaps | mysqlwire.CapDeprecateEOF | mysqlwire.CapSessionTrack | mysqlwire.CapQueryAttributes | mysqlwire.CapConnectAttrs
)

// An exchange is a raw connection: its responses are compared packet by packet.
type exchange struct {
	t    *testing.T
	c    *mysqlconn.Client
	caps mysqlwire.Capability
}

func newExchange(t *testing.T, addr string, caps mysqlwire.Capability, encrypted bool) *exchange {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { nc.Close() })
	must(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	login := mysqlconn.Login{User: testmysql.AppUser, Password: testmysql.Password, Capabilities: caps, Charset: 255, MaxPacket: 1 << 26}
	if encrypted {
		login.TLS = &tls.Config{InsecureSkipVerify: true} // verification is not the subject of the test
	}
	c, err := mysqlconn.LogIn(t.Context(), mysqlconn.NewBuffer(nc, make([]byte, 1<<16)), login)
	must(t, err)
	must(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return &exchange{t: t, c: c, caps: caps}
}

func (x *exchange) read() []byte {
	x.t.Helper()
	p, err := x.c.ReadMessage(1 << 26)
	if err != nil {
		x.t.Fatalf("read an answer: %v", err)
	}
	return bytes.Clone(p)
}

// ask sends a command and reads its response: by the protocol's specification, independently of the gateway's
// code.
func (x *exchange) ask(s step) (packets [][]byte) {
	x.t.Helper()
	x.c.Seq = 0
	must(x.t, x.c.WriteMessage(s.payload))
	next := func() []byte {
		p := x.read()
		packets = append(packets, p)
		return p
	}
	eof := x.caps.Has(mysqlwire.CapDeprecateEOF)
	end := func(p []byte) bool { return p[0] == 0xFE && (len(p) < 9 || eof && len(p) < 0xFFFFFF) || p[0] == 0xFF }
	definitions := func(n int) (last []byte) {
		for range n {
			next()
		}
		if n > 0 && !eof {
			last = next()
		}
		return last
	}
	switch mysqlwire.Command(s.payload[0]) {
	case mysqlwire.ComStmtClose, mysqlwire.ComStmtSendLongData:
		return nil
	case mysqlwire.ComStatistics:
		next()
		return packets
	case mysqlwire.ComStmtFetch:
		for !end(next()) {
		}
		return packets
	case mysqlwire.ComStmtPrepare:
		if p := next(); p[0] == 0 {
			definitions(int(littleendian.LittleEndian.Uint16(p[7:])))
			definitions(int(littleendian.LittleEndian.Uint16(p[5:])))
		}
		return packets
	case mysqlwire.ComChangeUser:
		for {
			p := next()
			switch {
			case p[0] == 0 || p[0] == 0xFF:
				return packets
			case p[0] == 0xFE: // an authentication switch: the challenge differs
				nonce := p[bytes.IndexByte(p, 0)+1:]
				packets[len(packets)-1] = p[:bytes.IndexByte(p, 0)]
				must(x.t, x.c.WriteMessage(sha2Response(bytes.TrimSuffix(nonce, []byte{0}))))
			case p[0] == 1 && p[1] == mysqlwire.SHA2FullAuth && x.c.IsTLS(): // as for users unknown to the server
				must(x.t, x.c.WriteMessage([]byte("a password\x00")))
			case p[0] == 1 && p[1] == mysqlwire.SHA2FullAuth:
				must(x.t, x.c.WriteMessage([]byte{mysqlwire.SHA2RequestKey}))
			case p[0] == 1 && p[1] != mysqlwire.SHA2FastOK: // the server's key
				must(x.t, x.c.WriteMessage(make([]byte, 256)))
			}
		}
	}
	for { // results
		p := next()
		status := mysqlwire.Status(0)
		switch p[0] {
		case 0xFF, 0xFE:
			return packets
		case 0xFB:
			must(x.t, x.c.WriteMessage([]byte("1\tone\n2\ttwo\n")))
			must(x.t, x.c.WriteMessage(nil))
			continue
		case 0:
			status = x.status(p)
		default:
			n, _ := mysqlwire.LenencInt(p)
			if last := definitions(int(n)); last != nil && x.status(last).Has(mysqlwire.StatusCursorExists) {
				return packets
			}
			for p = next(); !end(p); p = next() {
			}
			if p[0] == 0xFF {
				return packets
			}
			status = x.status(p)
		}
		if !status.Has(mysqlwire.StatusMoreResults) {
			return packets
		}
	}
}

// status returns the status of an OK or EOF packet.
func (x *exchange) status(p []byte) mysqlwire.Status {
	x.t.Helper()
	if p[0] == 0xFE && !x.caps.Has(mysqlwire.CapDeprecateEOF) {
		return mysqlwire.Status(littleendian.LittleEndian.Uint16(p[3:]))
	}
	var ok mysqlwire.OK
	must(x.t, ok.Decode(p, x.caps))
	return ok.Status
}

// sha2Response returns the proof of the password for a server's challenge.
func sha2Response(nonce []byte) []byte {
	once := sha256.Sum256([]byte(testmysql.Password))
	twice := sha256.Sum256(once[:])
	mask := sha256.Sum256(append(twice[:], nonce...))
	for i := range once {
		once[i] ^= mask[i]
	}
	return once[:]
}

// steps returns a client's commands: one for each kind of response that MySQL has.
func steps(caps mysqlwire.Capability) []step {
	command := func(c mysqlwire.Command, more ...byte) []byte { return append([]byte{byte(c)}, more...) }
	execute := func(id uint32, flags mysqlwire.ExecuteFlags, values ...mysqlwire.BinaryValue) []byte {
		var p mysqlwire.StmtParams
		p.Reset(len(values))
		p.Values = values
		return mysqlwire.StmtExecute{StatementID: id, Flags: flags, Iterations: 1, Params: p.AppendTo(nil, flags, caps, true)}.AppendTo(nil)
	}
	number := mysqlwire.BinaryValue{Data: []byte{7, 0, 0, 0, 0, 0, 0, 0}, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}}
	word := mysqlwire.BinaryValue{Data: []byte("word"), ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}}
	long := mysqlwire.BinaryValue{Long: true, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeBlob}}
	all := []step{
		{name: "ping", payload: command(mysqlwire.ComPing)},
		{name: "init db", payload: initDB("exchange")},
		{name: "statistics", payload: command(mysqlwire.ComStatistics), vague: true},
		{name: "debug", payload: command(mysqlwire.ComDebug)}, // refused: it requires SUPER
		{name: "field list", payload: fieldList("kinds")},
		{name: "unknown command", payload: command(0x3F)},
		{name: "option off", payload: mysqlwire.SetOption{Option: mysqlwire.OptionMultiStatementsOff}.AppendTo(nil)},
		{name: "two statements, refused", payload: mysqlwire.AppendQuery(nil, []byte("select 1; select 2"), caps)},
		{name: "option on", payload: mysqlwire.SetOption{Option: mysqlwire.OptionMultiStatementsOn}.AppendTo(nil)},
	}
	for _, sql := range []string{
		"create table kinds (id int auto_increment primary key, name varchar(20), j json, v vector(2), g point, d datetime(6), b bit(3), n decimal(10,2))",
		"insert into kinds (name, j, v, g, d, b, n) values ('a', '{\"k\": [1]}', to_vector('[1,2]'), point(1, 2), '2026-01-02 03:04:05.000006', b'101', 1.5), (null, null, null, null, null, null, null)",
		"select * from kinds", "select * from kinds where id < 0", "select * from nowhere", "selct", "insert into kinds (id) values (1)", "update kinds set name = 'z'",
		"select 1; select * from kinds; update kinds set n = 2; select * from nowhere; select 3", "insert ignore into kinds (id, n) values (1, 'x')", "show warnings",
		"create procedure two() begin select 1; select * from kinds; end", "call two()", "drop procedure two",
		"load data local infile 'it' into table kinds (id, name)", "create table files (id int, name varchar(20))", "load data local infile 'it' into table files",
		"set session_track_system_variables = 'sql_mode,time_zone,autocommit,session_track_gtids,session_track_transaction_info,session_track_state_change'", "set session_track_gtids = OWN_GTID", "set session_track_transaction_info = 'CHARACTERISTICS'", "set session_track_state_change = on",
		"set sql_mode = 'ANSI_QUOTES'", "select \"name\" from kinds", "set sql_mode = default", "use exchange", "start transaction read only", "select 1 from kinds limit 1", "commit",
		"set @user_variable = 1", "explain format=tree select * from kinds where id = 1", "explain analyze select count(*) from files where id < 0 and name = 'no'", "select sql_calc_found_rows 1", "begin", "insert into files values (3, 'three')", "rollback",
		"checksum table files", "analyze table files", "values row(1, 2), row(3, 4)", "table files", "with recursive n (i) as (select 1 union all select i + 1 from n where i < 3000) select /*+ set_var(cte_max_recursion_depth=4000) */ i, repeat('x', i) from n",
		"select repeat('x', 20000000)", "create table big (t longtext)", "insert into big select repeat('y', 17000000)", "select * from big", "do 1", "kill 0", "help 'select'",
		"prepare s from 'select ? + 1'", "set @a = 41", "execute s using @a", "deallocate prepare s", "lock tables files read", "unlock tables", "xa recover", "flush status", "show master status", "show binary log status",
		"signal sqlstate '45000' set message_text = 'mine', mysql_errno = 5000", "select 1 into @x from kinds where id = 1", "-- nothing", "",
	} {
		vague := strings.HasPrefix(sql, "explain analyze") || strings.HasPrefix(sql, "show ") && strings.HasSuffix(sql, "status")
		all = append(all, step{name: sql, payload: mysqlwire.AppendQuery(nil, []byte(sql), caps), vague: vague})
	}
	if caps.Has(mysqlwire.CapQueryAttributes) {
		// One attribute, "n" = "v", and one without a name.
		attributes := append([]byte{byte(mysqlwire.ComQuery), 2, 1, 0, 1}, "\xfd\x00\x01n\xfd\x00\x00\x01v\x02no"...)
		all = append(all, step{name: "attributes", payload: append(attributes, "select mysql_query_attribute_string('n'), mysql_query_attribute_string('none')"...)})
	}
	return append(all, []step{
		{name: "prepare", payload: mysqlwire.StmtPrepare{SQL: []byte("select ?, ?, kinds.* from kinds where id = 1")}.AppendTo(nil)},
		{name: "execute", payload: execute(1, 0, number, word)},
		{name: "execute with long data first", payload: mysqlwire.StmtLongData{StatementID: 1, Param: 1, Data: []byte("in parts, ")}.AppendTo(nil)},
		{name: "more of it", payload: mysqlwire.StmtLongData{StatementID: 1, Param: 1, Data: bytes.Repeat([]byte("long"), 5000)}.AppendTo(nil)},
		{name: "execute with long data", payload: execute(1, 0, number, long)},
		{name: "reset", payload: ofStatement(mysqlwire.ComStmtReset, 1)},
		{name: "prepare for a cursor", payload: mysqlwire.StmtPrepare{SQL: []byte("select id, name from kinds order by id")}.AppendTo(nil)},
		{name: "open a cursor", payload: execute(2, mysqlwire.ExecuteReadOnlyCursor)},
		{name: "fetch one", payload: ofStatement(mysqlwire.ComStmtFetch, 2, 1)},
		{name: "fetch the rest", payload: ofStatement(mysqlwire.ComStmtFetch, 2, 100)},
		{name: "fetch past the end", payload: ofStatement(mysqlwire.ComStmtFetch, 2, 1)},
		{name: "close", payload: ofStatement(mysqlwire.ComStmtClose, 2)},
		{name: "execute what is closed", payload: execute(2, 0)},
		{name: "prepare what is wrong", payload: mysqlwire.StmtPrepare{SQL: []byte("select from")}.AppendTo(nil)},
		{name: "prepare a call", payload: mysqlwire.StmtPrepare{SQL: []byte("insert into files values (?, ?)")}.AppendTo(nil)},
		{name: "insert", payload: execute(4, 0, number, word)},
		{name: "reset the connection", payload: command(mysqlwire.ComResetConnection)},
		{name: "execute what is gone", payload: execute(1, 0, number, word)},
		{name: "change user", payload: (&mysqlwire.ChangeUser{User: []byte(testmysql.AppUser), Database: []byte("exchange"), Charset: 255, AuthPlugin: []byte("caching_sha2_password")}).AppendTo(nil, caps)},
		{name: "schema of the user", payload: mysqlwire.AppendQuery(nil, []byte("select current_user(), database(), @user_variable"), caps)},
		{name: "kill oneself", payload: mysqlwire.AppendQuery(nil, []byte("kill query connection_id()"), caps)},
		{name: "change to nobody", payload: (&mysqlwire.ChangeUser{User: []byte("nobody"), Charset: 255, AuthPlugin: []byte("caching_sha2_password")}).AppendTo(nil, caps)},
	}...)
}

// TestMySQLExchanges sends each kind of command to MySQL, directly and through Tare: the responses are equal,
// packet by packet.
func TestMySQLExchanges(t *testing.T) {
	s := mysqlPlain.get(t)
	_ = s.Exec("install component 'file://component_query_attributes'") // it may be installed already
	p := startTare(t, s.Addr)
	must(t, open(t, s.Addr, "").PingContext(t.Context())) // the server keeps the password: connections without TLS have no key for it
	for _, kind := range []struct {
		name      string
		caps      mysqlwire.Capability
		encrypted bool
	}{{"old", oldCaps, false}, {"new", newCaps, false}, {"new with TLS", newCaps, true}} {
		t.Run(kind.name, func(t *testing.T) {
			var said [2][][][]byte
			all := steps(kind.caps)
			for i, addr := range []string{s.Addr, p.addr} {
				cleanSchema(t, "exchange", s)
				x := newExchange(t, addr, kind.caps, kind.encrypted)
				for _, s := range all {
					said[i] = append(said[i], x.ask(s))
				}
			}
			for i, s := range all {
				direct, through := said[0][i], said[1][i]
				same := len(direct) == len(through)
				for j := 0; same && j < len(direct); j++ {
					same = s.vague || bytes.Equal(direct[j], through[j])
				}
				if !same {
					t.Errorf("%s\ndirectly: %s\nthrough:  %s", s.name, showPackets(direct), showPackets(through))
				}
			}
		})
	}
}

func showPackets(packets [][]byte) string {
	var b strings.Builder
	for i, p := range packets {
		if i == 20 {
			fmt.Fprintf(&b, " and %d more", len(packets)-i)
			break
		}
		fmt.Fprintf(&b, "%.120q ", p)
	}
	return b.String()
}

// initDB and fieldList return commands with names, ofStatement those with numbers.
func initDB(name string) []byte { return append([]byte{byte(mysqlwire.ComInitDB)}, name...) }

func fieldList(table string) []byte {
	return append([]byte{byte(mysqlwire.ComFieldList)}, table+"\x00"...)
}

func ofStatement(command mysqlwire.Command, numbers ...uint32) []byte {
	payload := []byte{byte(command)}
	for _, n := range numbers {
		payload = append(payload, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	return payload
}
