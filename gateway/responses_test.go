package gateway_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlwire"
)

const responsesPage = "RESPONSES.md"

var rewriteResponses = flag.Bool("rewrite-responses", false, "write the ends of responses, as the server sends them, into "+responsesPage)

// A responseServer is a kind of server whose responses are compared.
type responseServer struct {
	name    string
	columns [2]int // of the page's table: without and with CLIENT_DEPRECATE_EOF
	start   func(t *testing.T) (addr string, exec func(...string) error)
	feature mysqlwire.Capability // those that change responses
}

func responseServers() []responseServer {
	return []responseServer{
		{"MariaDB", [2]int{1, 2}, func(t *testing.T) (string, func(...string) error) {
			s := testmysql.Start(t)
			return s.Addr, s.Exec
		}, mysqlwire.CapMariaCacheMetadata | mysqlwire.CapMariaProgress | mysqlwire.CapMariaExtendedTypeInfo | mysqlwire.CapMariaBulkOperations | mysqlwire.CapMariaBulkUnitResults},
		{"MySQL", [2]int{3, 4}, func(t *testing.T) (string, func(...string) error) {
			s := testmysql.StartOrSkip(t, testmysql.WithMySQL())
			return s.Addr, s.Exec
		}, mysqlwire.CapOptionalMetadata | mysqlwire.CapQueryAttributes},
	}
}

// responseObjects are what the steps use.
var responseObjects = []string{
	"create database ends", "use ends",
	"create table t (a int)", "insert into t values (1), (2), (3)", "create table w (a int)", "create table m (a int)", "insert into m values (1)",
	"create table k (a int, b int, key (a), key (b))", "insert into k values (1, 1), (2, 2), (3, 3)",
	"create procedure inside() begin declare v int; declare c cursor for select a from t order by a; open c; fetch c into v; select v; close c; select 5; end",
	"create procedure open_only() begin declare v int; declare c cursor for select a from t order by a; open c; fetch c into v; close c; end",
	"create procedure two() begin select 1; select 2 union select 3; end",
	"create procedure filled(out x int) begin declare v int; declare c cursor for select a from t order by a; open c; fetch c into v; close c; select v; set x = 2; end",
	"create procedure fails() begin select 1; signal sqlstate '45000'; end",
	"create function inside() returns int deterministic reads sql data begin declare v int; declare c cursor for select a from t order by a; open c; fetch c into v; close c; return v; end",
}

// A responseStep is a command whose response is compared; steps with a label are rows of the page's table.
type responseStep struct{ label, do string }

const compound = "begin not atomic declare v int; declare c cursor for select a from t order by a; open c; fetch c into v; select v; close c; end"

// responseSteps leave the server as it was.
func responseSteps() []responseStep {
	steps := []responseStep{
		{"`COM_INIT_DB`", "command 02 ends"},
		{"", "command 02 nothing"},
		{"`COM_QUERY`: no rows", "text do 1"},
		{"`COM_QUERY`: rows", "text select a from t"},
		{"", "text select a from t where a > 5"},
		{"", "text select a from t; select 2 where 1 = 0; insert into w values (5); delete from w; select 3"},
		{"`COM_QUERY`: several statements", "text insert into w values (6); select 1; delete from w; select 2"},
		{"`COM_QUERY`: several statements, an error", "text select 1; select a from nowhere; select 2"},
		{"`COM_QUERY`: `CALL`, a cursor in the procedure", "text call inside()"},
		{"", "text call open_only()"},
		{"", "text call two()"},
		{"", "text call filled(@x)"},
		{"", "text call fails()"},
		{"`COM_QUERY`: a compound statement with a cursor", "text " + compound},
		{"`COM_QUERY`: a function with a cursor", "text select inside() from t"},
		{"", "text select a from t where a = inside()"},
		{"", "text select a from t where a in (select inside())"},
		{"", "text insert into w values (inside()), (2)"},
		{"", "text insert into w values (inside()) returning a, inside()"},
		{"", "text delete from w"},
		{"", "text show tables"},
		{"", "text show create table t"},
		{"", "text desc t"},
		{"", "text explain select 1"},
		{"", "text help 'select'"},
		{"", "text check table t"},
		{"", "text checksum table t"},
		{"", "text /* nothing */"},
		{"", "text select 1 from k x join k y on y.a > x.b or y.b > x.a"},
		{"", "text set @a = inside()"},
		{"", "text prepare p from 'select a from t'"},
		{"", "text execute p"},
		{"", "text deallocate prepare p"},
		{"", "text execute immediate 'call inside()'"},
		{"`COM_QUERY`: `LOAD DATA LOCAL`", "file text load data local infile 'f' into table w"},
		{"", "file text load data local infile 'f' into table w; select 5"},
		{"", "file text load data local infile '" + strings.Repeat("f", 5000) + "' into table w"},
		{"", "text delete from w"},
		{"`COM_FIELD_LIST`", "command 04 t\x00"},
		{"", "command 04 nothing\x00"},
		{"`COM_PROCESS_KILL`", "command 0C \x00\x00\x00\x00"},
		{"`COM_PING`", "command 0E"},
		{"`COM_STATISTICS`", "command 09"},
		{"`COM_DEBUG`", "command 0D"},
		{"`COM_SET_OPTION`", "command 1B \x00\x00"},
		{"", "command 1B \x09\x00"},
		{"`COM_REFRESH`", "command 07 \x00"},
		{"`COM_REGISTER_SLAVE`", "command 15 x"},
		{"`COM_STMT_PREPARE`: no columns, no parameters", "prepare do 1"},
		{"`COM_STMT_EXECUTE`: no rows", "execute"},
		{"`COM_STMT_PREPARE`: parameters", "prepare do ?"},
		{"`COM_STMT_SEND_LONG_DATA`", "long"},
		{"`COM_STMT_RESET`", "reset"},
		{"`COM_STMT_CLOSE`", "close"},
		{"", "prepare nothing"},
		{"`COM_STMT_PREPARE`: columns and parameters", "prepare select a, ? from t where a > ?"},
		{"`COM_STMT_PREPARE`: columns", "prepare select a, a from t"},
		{"`COM_STMT_EXECUTE`: rows", "execute"},
		{"`COM_STMT_FETCH`: no cursor", "fetch"},
		{"`COM_STMT_EXECUTE`: a cursor requested", "execute 01"},
		{"", "text select 1"},
		{"`COM_STMT_FETCH`: more rows to come", "fetch"},
		{"`COM_STMT_FETCH`: the last rows", "fetch"},
		{"", "fetch"},
		{"", "execute"},
		{"", "fetch"},
		{"", "reset"},
		{"", "execute"},
		{"", "execute 01"},
		{"", "reset"},
		{"", "fetch"},
		{"", "close"},
		{"", "execute"},
		{"", "prepare select a from t"},
		{"", "execute 01"},
		{"`COM_STMT_EXECUTE`: no cursor, after a first one with a cursor", "execute"},
		{"", "fetch"},
		{"", "reset"},
		{"", "execute"},
		{"", "prepare select inside() from t"},
		{"`COM_STMT_EXECUTE`: a function with a cursor", "execute"},
		{"", "prepare call inside()"},
		{"`COM_STMT_EXECUTE`: `CALL`, a cursor in the procedure", "execute"},
		{"`COM_STMT_EXECUTE`: the same, a cursor requested", "execute 01"},
		{"", "fetch"},
		{"", "prepare call two()"},
		{"", "execute"},
		{"", "execute 01"},
		{"", "prepare call open_only()"},
		{"", "execute"},
		{"", "execute 01"},
		{"", "prepare call filled(?)"},
		{"`COM_STMT_EXECUTE`: `CALL`, output parameters", "execute 00\x01\x01\x06\x00"},
		{"", "execute 01\x01\x01\x06\x00"},
		{"", "prepare call fails()"},
		{"`COM_STMT_EXECUTE`: `CALL`, an error", "execute"},
		{"", "execute 01"},
		{"", "prepare " + compound},
		{"", "execute"},
		{"", "execute 01"},
		{"", "prepare explain select 1"},
		{"", "execute"},
		{"", "execute 01"},
		{"", "prepare desc t"},
		{"", "execute"},
		{"`COM_STMT_EXECUTE`: `DESC`, a cursor requested", "execute 01"},
		{"", "fetch"},
		{"", "prepare show create table t"},
		{"", "execute 01"},
		{"", "execute"},
		{"", "prepare show tables where 1 = inside()"},
		{"", "execute 01"},
		{"", "fetch"},
		{"", "prepare with x as (select a from t) select a from x"},
		{"", "execute 01"},
		{"", "fetch"},
		{"", "prepare analyze select a from t"},
		{"", "close"},
		{"", "prepare analyze select inside() from t"},
		{"`COM_STMT_EXECUTE`: MariaDB's `ANALYZE`, a cursor requested", "execute 01"},
		{"", "prepare set @a = 1"},
		{"", "execute 01"},
		{"", "prepare insert into w values (inside())"},
		{"", "execute"},
		{"", "execute 01"},
		{"", "text delete from w"},
		{"", "prepare load data local infile 'f' into table w"},
		{"`COM_STMT_EXECUTE`: `LOAD DATA LOCAL`", "file execute"},
		{"", "file execute 01"},
		{"", "file bulk \x00\x00"},
		{"", "text delete from w"},
		{"", "prepare insert into w values (?)"},
		{"", "bulk \x80\x00\x03\x00\x00\x01\x00\x00\x00\x00\x02\x00\x00\x00"},
		{"", "bulk \xC0\x00\x03\x00\x00\x01\x00\x00\x00\x00\x02\x00\x00\x00"},
		{"", "text delete from w"},
		{"", "prepare insert into w values (?) returning a"},
		{"", "bulk \x80\x00\x03\x00\x00\x01\x00\x00\x00\x00\x02\x00\x00\x00"},
		{"", "text delete from w"},
		{"`COM_PROCESS_INFO`", "command 0A"},
	}
	steps = append(steps, responseStep{"a command of no bytes", "empty"}, responseStep{"", "prepare select a from t"})
	for flags := range 0x10 { // each combination of the known flags
		steps = append(steps, responseStep{"", fmt.Sprintf("execute %02x", flags)}, responseStep{"", "fetch"}, responseStep{"", "prepare select a from t"})
	}
	return steps
}

// A responseState is what a session did before the steps.
type responseState struct {
	name  string
	setup []string
}

func responseStates() []responseState {
	return []responseState{
		{"new", nil},
		{"transaction", []string{"text begin"}},
		{"read-only transaction", []string{"text start transaction read only"}},
		{"autocommit off", []string{"text set autocommit = 0"}},
		{"no backslash escapes", []string{"text set sql_mode = 'NO_BACKSLASH_ESCAPES'"}},
		{"ANSI quotes", []string{"text set sql_mode = 'ANSI_QUOTES'"}},
		{"slow", []string{"text set long_query_time = 0.2", "text select sleep(0.3)", "text set long_query_time = 10"}},
		{"tracked", []string{"text set session_track_system_variables = 'autocommit,character_set_client,time_zone', session_track_schema = 1, session_track_state_change = 1, session_track_transaction_info = 'STATE'"}},
		{"dropped schema", []string{"text create database dropped", "command 02 dropped", "text drop database dropped", "text select 1"}},
		{"changed definitions", []string{"prepare select * from m", "execute", "text alter table m add b int", "execute", "execute", "text alter table m drop column b", "execute 01", "fetch"}},
		{"open cursor", []string{"prepare select a from t", "execute 01", "prepare select a, a from t", "execute 01", "fetch"}},
		{"locked", []string{"text lock tables t write, w write, k write, m write"}},
		{"no metadata", []string{"text set resultset_metadata = none"}},
		{"reset", []string{"text begin", "command 1F", "command 02 ends"}},
	}
}

// TestResponseEnds sends every command of the protocol to a server, directly and through the gateway, in sessions of
// each state and with the capabilities that change responses. The server says where each response ends: see
// dialogue. The gateway's client must receive the same bytes, mysqlwire.Response must find the same end, and the
// page's table must name it.
func TestResponseEnds(t *testing.T) {
	for _, server := range responseServers() {
		t.Run(server.name, func(t *testing.T) {
			addr, exec := server.start(t)
			must(t, exec(strings.Join(responseObjects[:1], "")))
			m := &responseMatrix{server: server, direct: addr, gateway: startGateway(t, addr, nil).addr, ends: make(map[string]string)}
			d := openDialogue(t, addr, scriptCaps&^mysqlwire.CapConnectWithDB)
			for _, sql := range responseObjects[1:] {
				if r, err := d.run("text " + sql); err != nil || ending(r) != "OK" {
					t.Fatalf("%s: %v, %q", sql, err, r.packets)
				}
			}
			m.run(t)
			m.checkFlags(t)
			m.checkPage(t)
		})
	}
}

type responseMatrix struct {
	server          responseServer
	direct, gateway string
	ends            map[string]string // of the steps in a new session, by column and step
	seen            mysqlwire.Status
}

func (m *responseMatrix) run(t *testing.T) {
	const minimal = mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth
	base := minimal | mysqlwire.CapTransactions | mysqlwire.CapMultiResults | mysqlwire.CapPSMultiResults | mysqlwire.CapMultiStatements | mysqlwire.CapLocalFiles
	features := m.server.feature | mysqlwire.CapSessionTrack
	offered := offers(t, m.gateway)
	if missing := m.server.feature & offers(t, m.direct) &^ offered; missing != 0 {
		t.Errorf("the gateway does not offer %v", missing)
	}
	if m.server.name == "TiDB" {
		base &= offered
	}
	for _, state := range responseStates() {
		for column, eof := range []mysqlwire.Capability{0, mysqlwire.CapDeprecateEOF} {
			m.session(t, state, base|eof, m.server.columns[column])
			m.session(t, state, (base|eof|features)&offered, 0)
			if state.name == "new" {
				m.session(t, state, minimal|eof, 0)
			}
		}
	}
}

// session compares the steps in one state with one set of capabilities. column is the column of the page, or 0.
func (m *responseMatrix) session(t *testing.T, state responseState, caps mysqlwire.Capability, column int) {
	t.Helper()
	steps := []responseStep{{"", "command 02 ends"}}
	for _, do := range state.setup {
		steps = append(steps, responseStep{"", do})
	}
	steps = append(steps, responseSteps()...)
	if state.name == "new" {
		steps = append(steps, otherCommands()...)
	}
	if state.name == "new" && column != 0 {
		wide := "select 1" + strings.Repeat(",1", 70_000)
		steps = append(steps, responseStep{"`COM_QUERY`: more than 65,535 columns", "text " + wide})
		if !caps.Has(mysqlwire.CapDeprecateEOF) { // with it, the end of PREPARE's response cannot be seen
			steps = append(steps, responseStep{"", "prepare " + wide}, responseStep{"", "execute"}, responseStep{"", "execute 01"}, responseStep{"", "text do 1"})
		}
	}
	if m.server.name == "TiDB" { // it ends the connection of a command that is too short
		steps = slices.DeleteFunc(steps, func(s responseStep) bool { return s.do == "empty" || s.do == "command 07" })
	}
	d := openDialogue(t, m.direct, caps)
	kept := make(map[uint32]bool)
	var want []turn
	for _, step := range steps {
		r, err := d.run(step.do)
		if err != nil {
			t.Fatalf("%s, %v, %s, directly: %v after %q", state.name, caps, step.do, err, r.packets)
		}
		want = append(want, r)
		m.note(r, caps)
		if err := m.scan(r, caps, kept, d.statement); err != nil {
			t.Errorf("%s, %v, %.200s: %v\nresponse %q", state.name, caps, step.do, err, r.packets)
		}
		if column != 0 {
			m.record(t, state, step, fmt.Sprint(column, " ", step.label), ending(r))
		}
	}
	d.Close()
	d = openDialogue(t, m.gateway, caps)
	for i, step := range steps {
		r, err := d.run(step.do)
		if state.name == "slow" && i <= len(state.setup) { // what else is slow depends on the machine
			continue
		}
		same := bytes.Equal(withoutNumber(r), withoutNumber(want[i])) || r.cmd == mysqlwire.ComProcessInfo && ending(r) == ending(want[i])
		if err != nil || !same {
			t.Fatalf("%s, %v, %s, through the gateway: %v\ngot  %q\nwant %q", state.name, caps, step.do, err, r.packets, want[i].packets)
		}
	}
	d.Close()
}

// withoutNumber returns the bytes of a response without the number of a prepared statement: MariaDB's numbers continue
// over the connections that one of its threads serves.
func withoutNumber(r turn) []byte {
	b := r.bytes()
	switch {
	case ending(r) == "ERR":
		if at := statementNumber.FindIndex(b); at != nil {
			b = slices.Delete(b, at[0], at[1])
			clear(b[:3])
		}
	case r.cmd == mysqlwire.ComStmtPrepare:
		clear(b[mysqlwire.HeaderLen+1:][:4])
	}
	return b
}

var statementNumber = regexp.MustCompile(`\(\d+\)`)

// record keeps the end of a response in a new session, and checks that it is the same in other states.
func (m *responseMatrix) record(t *testing.T, state responseState, step responseStep, key, end string) {
	t.Helper()
	switch known := m.ends[key]; {
	case step.label == "":
	case state.name == "new":
		m.ends[key] = end
	case end != known && end != "ERR" && known != "ERR" && state.name != "no metadata":
		t.Errorf("%s, %s: ends with %s, in a new session with %s", state.name, step.do, end, known)
	}
}

// otherCommands returns a step for each command byte that responseSteps does not send.
func otherCommands() (steps []responseStep) {
	for b := range 0x100 {
		switch cmd := mysqlwire.Command(b); cmd {
		case mysqlwire.ComQuit, mysqlwire.ComShutdown, mysqlwire.ComSubscribeGroup: // they end the connection
		case mysqlwire.ComChangeUser, mysqlwire.ComBinlogDump, mysqlwire.ComBinlogDumpGTID: // not a response but a dialogue or a stream
		case mysqlwire.ComClone: // not relayed
		default:
			if strings.HasPrefix(cmd.String(), "Command ") || cmd < mysqlwire.ComStmtPrepare {
				steps = append(steps, responseStep{fmt.Sprintf("byte %02X", b), fmt.Sprintf("command %02X", b)})
			}
		}
	}
	return steps
}

// scan checks that mysqlwire.Response finds the end of a response where the server has it.
func (m *responseMatrix) scan(r turn, caps mysqlwire.Capability, kept map[uint32]bool, statement uint32) error {
	var resp mysqlwire.Response
	resp.Begin(r.cmd, caps, 1)
	if r.cmd == mysqlwire.ComStmtExecute {
		switch {
		case r.flags.Has(mysqlwire.ExecuteReadOnlyCursor):
			resp.Cursor = mysqlwire.CursorRequested
		case kept[statement] && m.server.name == "MySQL":
			resp.Cursor = mysqlwire.CursorKept
		}
	}
	b := r.bytes()
	n, ev, err := resp.Scan(b)
	if ev == mysqlwire.EventInfile && err == nil && n == r.fileAt {
		resp.ResumeInfile(r.fileSeq)
		var k int
		k, ev, err = resp.Scan(b[n:])
		n += k
	}
	if err != nil || ev != mysqlwire.EventDone || n != len(b) {
		return fmt.Errorf("Scan = %d of %d, %d, %w", n, len(b), ev, err)
	}
	kept[statement] = kept[statement] || resp.CursorOpen
	return nil
}

// note records the status flags of a response.
func (m *responseMatrix) note(r turn, caps mysqlwire.Capability) {
	if r.cmd == mysqlwire.ComStmtPrepare {
		return
	}
	for i, p := range r.packets {
		body := p[mysqlwire.HeaderLen:]
		var ok mysqlwire.OK
		switch {
		case len(body) == 5 && body[0] == mysqlwire.MarkEOF:
			m.seen |= mysqlwire.Status(uint16(body[3]) | uint16(body[4])<<8)
		case (body[0] == mysqlwire.MarkEOF || i == 0 && body[0] == mysqlwire.MarkOK) && ok.Decode(body, caps) == nil:
			m.seen |= ok.Status
		}
	}
}

// checkFlags checks that the server has sent every flag that it has.
func (m *responseMatrix) checkFlags(t *testing.T) {
	want := mysqlwire.Status(0xFFFF) &^ 0x0004 // a flag of MySQL 3
	if m.server.name == "MySQL" {
		want &^= mysqlwire.StatusMariaANSIQuotes
	}
	if missing := want &^ m.seen; missing != 0 {
		t.Errorf("no response had the status flags %#04x", uint16(missing))
	}
}

// ending names the packet that ends a response.
func ending(r turn) string {
	if len(r.packets) == 0 {
		return "nothing is sent"
	}
	n := len(r.packets)
	last, before := r.packets[n-1][mysqlwire.HeaderLen:], []byte(nil)
	if n > 1 {
		before = r.packets[n-2][mysqlwire.HeaderLen:]
	}
	isDefinition := func(p []byte) bool { return bytes.HasPrefix(p, []byte("\x03def")) }
	after := ""
	switch {
	case isDefinition(before):
		after = " after the definitions"
	case n > 1 && last[0] != mysqlwire.MarkOK:
		after = " after the rows"
	}
	switch {
	case last[0] == mysqlwire.MarkErr:
		return "ERR"
	case isDefinition(last):
		return "the last definition"
	case last[0] == mysqlwire.MarkOK:
		return "OK" + after
	case last[0] == mysqlwire.MarkEOF && len(last) == 5:
		return "EOF" + after
	case last[0] == mysqlwire.MarkEOF:
		return "OK (FE)" + after
	}
	return "one packet of text"
}

// checkPage compares the ends with the table of the page, whose first column has the labels.
func (m *responseMatrix) checkPage(t *testing.T) {
	page, err := os.ReadFile(responsesPage)
	must(t, err)
	lines := strings.Split(string(page), "\n")
	left := make(map[string]bool)
	for key := range m.ends {
		if _, label, _ := strings.Cut(key, " "); !strings.HasPrefix(label, "byte ") {
			left[label] = label != ""
		}
	}
	for i, line := range lines {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		label := strings.TrimSpace(cells[0])
		if !left[label] || len(cells) != 5 {
			continue
		}
		delete(left, label)
		for _, column := range m.server.columns {
			want := m.ends[fmt.Sprint(column, " ", label)]
			if got := strings.TrimSpace(cells[column]); got != want && !*rewriteResponses {
				t.Errorf("%s, %s: %s says %q, the server sends %q", m.server.name, label, responsesPage, got, want)
			}
			cells[column] = " " + want + " "
		}
		lines[i] = "|" + strings.Join(cells, "|") + "|"
	}
	for label, missing := range left {
		if missing {
			t.Errorf("%s has no row %q", responsesPage, label)
		}
	}
	for key, end := range m.ends {
		if _, label, _ := strings.Cut(key, " "); strings.HasPrefix(label, "byte ") && end != "ERR" && !slices.Contains(respondingBytes, label) {
			t.Errorf("the response to the command %s ends with %s", label, end)
		}
	}
	if *rewriteResponses {
		must(t, os.WriteFile(responsesPage, []byte(strings.Join(lines, "\n")), 0o644))
	}
}

// respondingBytes are the commands of otherCommands whose response may be another than an error.
var respondingBytes = []string{"byte 02", "byte 03", "byte 04", "byte 07", "byte 09", "byte 0A", "byte 0D", "byte 0E"}

// TestLocalInfilePackets sends a file whose parts are as long as a packet can be, so that an empty packet ends a part
// and not the file, and a server's request for one by each command that may have it.
func TestLocalInfilePackets(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	d := openDialogue(t, g.addr, scriptCaps&^mysqlwire.CapConnectWithDB|mysqlwire.CapPSMultiResults)
	exec := func(step string) {
		t.Helper()
		if r, err := d.run(step); err != nil || ending(r) != "OK" {
			t.Fatalf("%s: %v, %.200q", step, err, r.packets)
		}
	}
	exec("command 02 " + s.Name)
	exec("text create table t (b longtext)")
	const load = "load data local infile 'f' into table t"
	exec("prepare " + load)
	file := [][]byte{bytes.Repeat([]byte("x"), mysqlwire.MaxPayload), bytes.Repeat([]byte("y"), 2*mysqlwire.MaxPayload), []byte("z\n")}
	for _, payload := range [][]byte{
		mysqlwire.AppendQuery(nil, []byte(load), d.Capabilities),
		mysqlwire.StmtExecute{StatementID: d.statement, Iterations: 1}.AppendTo(nil),
	} {
		r, err := d.send(payload, file)
		var ok mysqlwire.OK
		if err == nil {
			err = ok.Decode(r.packets[len(r.packets)-1][mysqlwire.HeaderLen:], d.Capabilities)
		}
		if err != nil || r.fileAt == 0 || ok.AffectedRows != 1 {
			t.Fatalf("%s: %v, %d rows, %.200q", r.cmd, err, ok.AffectedRows, r.packets)
		}
	}
	exec("text do 1")
	for i, want := range []mysqlwire.Command{mysqlwire.ComQuery, mysqlwire.ComStmtPrepare, mysqlwire.ComQuery, mysqlwire.ComStmtExecute, mysqlwire.ComQuery} {
		if r, text, errText := g.records.wait(t, i); r.Command != want || r.ErrorNumber != 0 {
			t.Errorf("record %d: %s %q, error %q; want %s", i, r.Command, text, errText, want)
		}
	}
}
