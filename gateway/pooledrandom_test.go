package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A world is one of two ways to the same server: directly, or through a gateway whose sessions share connections. Statements contain
// W for the world's letter in the names of schemas and locks.
type world struct {
	letter, addr string
}

// neutral undoes text.
func (w world) neutral(s string) string {
	return strings.NewReplacer(w.letter+"1", "W1", w.letter+"2", "W2", w.letter+"x", "Wx").Replace(s)
}

func (w world) text(sql string) string { return strings.ReplaceAll(sql, "W", w.letter) }

// A twin is a client in both worlds.
type twin struct {
	number  int
	worlds  [2]world
	clients [2]*mysqlconn.Client
	change  func(*mysqlconn.Config)

	statements [2][3]slot // that stay prepared
}

// A slot has a prepared statement of a client in one world.
type slot struct {
	id     uint32
	params int
	typed  bool                  // the server has parameter types
	value  mysqlwire.BinaryValue // of the last execution
	long   bool                  // the first value was sent in pieces
}

func (w *twin) dial(t *testing.T) {
	for i, world := range w.worlds {
		if w.clients[i] != nil {
			w.clients[i].Close()
		}
		w.statements[i] = [3]slot{}
		if w.number%4 != 3 {
			w.clients[i] = dialPooled(t, world.addr, world.text("W1"), w.change)
			continue
		}
		d := openDialogue(t, world.addr, basicCaps) // as an old client does
		must(t, d.Send(t.Context(), append([]byte{byte(mysqlwire.ComInitDB)}, world.text("W1")...)))
		w.clients[i] = d.Client
	}
}

// basicCaps are those without which no client logs in.
const basicCaps = mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth

// An outcome is what a client sees of a command.
type outcome struct {
	err    string
	rows   []string
	result mysqlconn.Result
	status mysqlwire.Status
}

func (o outcome) String() string {
	return fmt.Sprintf("error %q, rows %q, %+v, %v", o.err, o.rows, o.result, o.status)
}

// run executes a step in one of the worlds: a statement, or a command whose name starts with a colon.
func (w *twin) run(ctx context.Context, at int, step string) (o outcome) {
	c, world := w.clients[at], w.worlds[at]
	var err error
	row := func(r mysqlwire.TextRow) error {
		var b strings.Builder
		for _, v := range r {
			fmt.Fprintf(&b, "%q,", strings.ReplaceAll(string(v), world.letter+"1", "W1"))
		}
		o.rows = append(o.rows, strings.ReplaceAll(strings.ReplaceAll(b.String(), world.letter+"2", "W2"), world.letter+"x", "Wx"))
		return nil
	}
	name, arg, _ := strings.Cut(step, " ")
	switch arg = world.text(arg); name {
	case ":slot":
		return w.runSlot(ctx, at, arg)
	case ":reset":
		if err = c.Send(ctx, []byte{byte(mysqlwire.ComResetConnection)}); err == nil {
			w.statements[at] = [3]slot{}
		}
	case ":change":
		if err = changeSharedUser(c, arg, testmysql.Password, world.text("W1"), uint16([]uint8{45, 8, 33}[w.number%3])); err == nil {
			w.statements[at] = [3]slot{}
		}
	case ":init":
		err = c.Send(ctx, append([]byte{byte(mysqlwire.ComInitDB)}, arg...))
	case ":prepared", ":unexecuted": // prepared, executed twice and closed; the other one is not executed
		var ok mysqlwire.PrepareOK
		if ok, err = c.Prepare(ctx, []byte(arg)); err == nil {
			for i := 0; i < 2 && name == ":prepared"; i++ {
				o.result, err = c.Execute(ctx, ok.StatementID, nil, func(p []byte) error {
					o.rows = append(o.rows, fmt.Sprintf("%x", p))
					return nil
				})
			}
			err = errors.Join(err, c.CloseStatement(ok.StatementID))
		}
	default:
		o.result, err = c.Query(ctx, world.text(step), row)
	}
	if err != nil {
		o.err = world.neutral(err.Error())
	}
	o.status = c.Status & (mysqlwire.StatusInTrans | mysqlwire.StatusAutocommit | mysqlwire.StatusNoBackslashEscapes | mysqlwire.StatusInTransReadonly)
	return o
}

// noConnection is in the error of a command that has waited for a connection in vain.
const noConnection = "no connection for user"

// runSlot executes a command on one of the client's prepared statements: a number, the command, and its argument.
func (w *twin) runSlot(ctx context.Context, at int, step string) (o outcome) {
	c, st := w.clients[at], &w.statements[at][step[0]-'0']
	command, arg, _ := strings.Cut(step[2:], " ")
	id := binary.LittleEndian.AppendUint32(nil, cmp.Or(st.id, mysqlwire.LastPreparedID-1))
	piece := append(append(append([]byte{byte(mysqlwire.ComStmtSendLongData)}, id...), 0, 0), "1"...)
	execute := func(flags mysqlwire.ExecuteFlags, types bool, value mysqlwire.BinaryValue) {
		var p mysqlwire.StmtParams
		p.Reset(st.params)
		long := st.long
		if long {
			value, types = mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}, Long: true}, true
		}
		p.Values = slices.Repeat([]mysqlwire.BinaryValue{value}, st.params)
		e := mysqlwire.StmtExecute{StatementID: binary.LittleEndian.Uint32(id), Flags: flags, Iterations: 1}
		if st.id != 0 && st.params > 0 {
			e.Params = p.AppendTo(nil, 0, c.Capabilities, types || !st.typed)
			st.typed, st.value, st.long = true, value, false
			if value.Long {
				st.value.Long, st.value.Data = false, []byte("2")
			}
		}
		o = w.raw(at, e.AppendTo(nil))
		if long && strings.Contains(o.err, noConnection) { // for the value in pieces: it is sent again for the next try
			st.long = true
			w.raw(at, piece)
		}
	}
	number := mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}, Data: []byte{3, 0, 0, 0, 0, 0, 0, 0}}
	text := mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}, Data: []byte("2")}
	switch command {
	case "prepare":
		if st.id != 0 {
			w.runSlot(ctx, at, step[:2]+"close")
		}
		ok, err := c.Prepare(ctx, []byte(arg))
		if err != nil {
			return outcome{err: w.worlds[at].neutral(err.Error())}
		}
		*st = slot{id: ok.StatementID, params: int(ok.Params)}
		o.rows = []string{fmt.Sprint(ok.Params, ok.Columns, ok.Warnings)}
	case "execute":
		execute(0, true, number)
	case "text":
		execute(0, true, text)
	case "again":
		if st.typed { // with the value's type of the last execution
			number = st.value
		}
		execute(0, false, number)
	case "cursor":
		execute(mysqlwire.ExecuteReadOnlyCursor, true, number)
	case "fetch":
		o = w.raw(at, append(append([]byte{byte(mysqlwire.ComStmtFetch)}, id...), 1, 0, 0, 0))
	case "reset":
		o = w.raw(at, append([]byte{byte(mysqlwire.ComStmtReset)}, id...))
		st.long = false
	case "long":
		o = w.raw(at, piece)
		st.long = st.params > 0
	case "close":
		o = w.raw(at, append([]byte{byte(mysqlwire.ComStmtClose)}, id...))
		*st = slot{}
	}
	return o
}

// raw sends a command, and returns the response's packets.
func (w *twin) raw(at int, payload []byte) (o outcome) {
	all, errno, err := w.exchange(at, payload)
	if err != nil {
		return outcome{err: err.Error()}
	}
	for _, s := range [...]string{"1", "2", "x"} { // names of schemas
		all = bytes.ReplaceAll(all, []byte(w.worlds[at].letter+s), []byte("WW"+s))
	}
	switch errno {
	case 0:
		o.rows = []string{fmt.Sprintf("%q", all)}
	case 1243: // contains the number
		o.err = "unknown statement"
	default:
		o.err = string(all)
	}
	return o
}

func (w *twin) exchange(at int, payload []byte) (all []byte, errno uint16, err error) {
	c := w.clients[at]
	c.Seq = 0
	if err := c.WriteMessage(payload); err != nil {
		return nil, 0, err
	}
	var r mysqlwire.Response
	r.Begin(mysqlwire.Command(payload[0]), c.Capabilities, 1)
	if r.Cursor = mysqlwire.CursorUnused; len(payload) > 5 && payload[0] == byte(mysqlwire.ComStmtExecute) && payload[5] != 0 {
		r.Cursor = mysqlwire.CursorRequested
	}
	for !r.Done() {
		if err := c.Fill(); err != nil {
			return nil, 0, err
		}
		n, _, err := r.Scan(c.Buffered())
		all = append(all, c.Buffered()[:n]...)
		c.Discard(n)
		if err != nil {
			return nil, 0, err
		}
	}
	return all, r.Errno, nil
}

// steps are templates: K is the client's number, N a small random number.
var randomSteps = []string{
	"INSERT INTO tK (v) VALUES (N)", "INSERT INTO tK (v) VALUES (N), (N)", "INSERT INTO tK VALUES (100000000 + N, N)", "REPLACE INTO tK (id, v) VALUES (N, N)",
	"INSERT INTO tK (v) VALUES (LAST_INSERT_ID())", "SELECT LAST_INSERT_ID()", "SELECT LAST_INSERT_ID(N)", "SELECT @@last_insert_id, @@identity",
	"UPDATE tK SET v = v + 1 WHERE id < N", "UPDATE tK SET v = LAST_INSERT_ID(v) WHERE id = N", "DELETE FROM tK WHERE v > 3", "SELECT * FROM tK ORDER BY id LIMIT 3",
	"INSERT INTO W2.tK (v) VALUES (N)", "SELECT COUNT(*) FROM tK", "SELECT id, v FROM tK WHERE id = N", "DELETE FROM tK",
	"SELECT SQL_CALC_FOUND_ROWS id FROM tK LIMIT 1", "SELECT FOUND_ROWS()", "SELECT ROW_COUNT()", "SHOW WARNINGS", "SHOW ERRORS", "SELECT @@warning_count, @@error_count",
	"SELECT CAST('1x' AS SIGNED)", "SELECT CAST('yN' AS SIGNED), 1/0", "INSERT IGNORE INTO tK (id, v) VALUES (N, 'abc')", "INSERT INTO tK (id, v) VALUES (N, 1), (N, 1)",
	"GET DIAGNOSTICS @n = NUMBER", "SELECT nothing FROM tK", "SELEC 1", "SELECT 'a\\'b', \"c\"", "SELECT HEX('é'), CHARSET('x'), COLLATION('x')", "SELECT 'a' 'b'",
	"BEGIN", "START TRANSACTION READ ONLY", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "COMMIT AND CHAIN",
	"SET autocommit = 0", "SET autocommit = 1", "SET autocommit = 1", "SET NAMES utf8mb4", "SET NAMES latin1", "SET NAMES latin1 COLLATE latin1_bin", "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'",
	"SET character_set_results = NULL", "SET character_set_client = latin1", "SET CHARACTER SET utf8mb4", "SET collation_connection = utf8mb4_unicode_ci",
	"SET sql_mode = ''", "SET sql_mode = 'ANSI_QUOTES'", "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'", "SET @@sql_mode = DEFAULT", "SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')",
	"SET time_zone = '+0N:00'", "SET time_zone = 'nowhere'", "SET group_concat_max_len = 10N", "SET SESSION group_concat_max_len = @@group_concat_max_len + 1", "SET foreign_key_checks = 0, unique_checks = OFF",
	"SET sql_select_limit = N", "SET sql_select_limit = DEFAULT", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION TRANSACTION READ ONLY",
	"SET SESSION TRANSACTION READ WRITE", "SET TRANSACTION READ ONLY", "SET div_precision_increment = N", "SET lc_time_names = 'de_DE'", "SET max_sort_length = 10N", "SET sql_auto_is_null = 0", "SET sql_safe_updates = N",
	"SET timestamp = 10N", "SET last_insert_id = N", "SET insert_id = 5000N", "SET rand_seed1 = N, rand_seed2 = N", "SELECT RAND(N)", "SET sql_big_selects = 1, @x = N",
	"USE W1", "USE W2", "USE W2", ":init W1", ":init W2", ":init nowhere", "USE nowhere", "SELECT DATABASE()",
	"CREATE DATABASE IF NOT EXISTS WxK", "USE WxK", "DROP DATABASE IF EXISTS WxK",
	"SET @u = N", "SET @u := @u + 1, @v = 'x'", "SELECT @u, @v, @w, @n, @trg, @f", "SELECT @w := N", "SELECT N INTO @u",
	"CREATE TEMPORARY TABLE ttK (a INT)", "INSERT INTO ttK VALUES (N)", "SELECT * FROM ttK", "DROP TEMPORARY TABLE IF EXISTS ttK",
	"SELECT GET_LOCK('W_K', 0)", "SELECT RELEASE_LOCK('W_K')", "SELECT RELEASE_ALL_LOCKS()", "SELECT IS_FREE_LOCK('W_K')", "DO RELEASE_LOCK('W_K')",
	"LOCK TABLES tK WRITE", "UNLOCK TABLES", "UNLOCK TABLES", "HANDLER tK OPEN", "HANDLER tK READ FIRST", "HANDLER tK CLOSE",
	"PREPARE p FROM 'SELECT COUNT(*) FROM tK'", "EXECUTE p", "DEALLOCATE PREPARE p", "EXECUTE p", "PREPARE q FROM 'SET @u = 7'", "EXECUTE q",
	":prepared SELECT id, v FROM tK LIMIT 2", ":prepared INSERT INTO tK (v) VALUES (N)", ":prepared SELECT LAST_INSERT_ID()", ":prepared SET @u = N", ":prepared SELECT @u", ":prepared nonsense",
	":prepared SET sql_mode = 'ANSI_QUOTES'", ":prepared SET NAMES latin1", ":prepared CREATE TEMPORARY TABLE ttK (a INT)", ":prepared SELECT FOUND_ROWS()",
	"INSERT INTO gK VALUES (N)", "SELECT * FROM vfK", "SELECT fK()", "CALL pK(N)", "SELECT v FROM viK", "SET STATEMENT max_statement_time = 100 FOR SELECT 1", "DO 1", "DO SLEEP(0)",
	":slot 0 prepare SELECT id, v FROM tK WHERE v < ? ORDER BY id LIMIT 3", ":slot 0 prepare SELECT id, v FROM tK WHERE v < ? ORDER BY id LIMIT 3", ":slot 1 prepare INSERT INTO tK (v) VALUES (?)",
	":slot 2 prepare SELECT ?, DATABASE(), 'a' 'b', @@sql_mode", ":slot 2 prepare SELECT LAST_INSERT_ID()", ":slot 1 prepare SELECT CONCAT(?, 'x')", ":slot 2 prepare SELECT \"id\" FROM tK",
	":slot 0 execute", ":slot 0 execute", ":slot 1 execute", ":slot 1 execute", ":slot 2 execute", ":slot 2 execute", ":slot 0 again", ":slot 1 again", ":slot 2 again", ":slot 0 again", ":slot 1 again",
	":slot 0 text", ":slot 1 text", ":slot 0 cursor", ":slot 0 fetch", ":slot 0 fetch", ":slot 1 long", ":slot 0 long", ":slot 0 reset", ":slot 1 reset", ":slot 0 close", ":slot 1 close", ":slot 2 close",
	":reset", ":reset", ":reset", ":reset", ":redial", ":change app", ":change root", "TRUNCATE tK", "ANALYZE TABLE tK", "SHOW TABLES LIKE 'tK'", "EXPLAIN SELECT 1", "SELECT 1; SELECT 2", "XA START 'W_K'", "XA END 'W_K'", "XA ROLLBACK 'W_K'",
	"CHECKSUM TABLE tK", "SELECT v FROM tK WHERE id = 1 FOR UPDATE", "LOCK TABLES", "KILL QUERY 0", "SIGNAL SQLSTATE '45000'", "/* only a comment */", "SELECT NEXTVAL(sK)", "SELECT LASTVAL(sK)",
}

// stateQuery compares what SHOW VARIABLES does not show.
const pooledState = "SELECT DATABASE(), CURRENT_USER(), @u, @v, @w, @n, @trg, @f, @x"

// volatile variables differ between two connections.
var volatile = []string{
	"timestamp", "rand_seed1", "rand_seed2", "statement_id", "pseudo_thread_id", "session_track_state_change", "last_insert_id", "identity", "error_count", "warning_count",
	"last_gtid", "gtid_binlog_pos", "gtid_current_pos", "gtid_binlog_state", "gtid_executed", "insert_id", "innodb_buffer_pool_load_incremental", "in_transaction",
}

func (w *twin) variables(ctx context.Context, at int) (all []string, err error) {
	_, err = w.clients[at].Query(ctx, "SHOW SESSION VARIABLES", func(r mysqlwire.TextRow) error {
		if !slices.Contains(volatile, string(r[0])) {
			all = append(all, strings.ReplaceAll(string(r[0])+"="+string(r[1]), w.worlds[at].letter+"1", "W1"))
		}
		return nil
	})
	return all, err
}

var poolSteps = flag.Int("pool-steps", 100, "steps of TestPooledRandomly per server and kind")

// TestPooledRandomly executes random sequences of statements directly and through shared connections, by sixteen clients on two of
// them, and compares what each client sees and the state of its session.
func TestPooledRandomly(t *testing.T) {
	bothServers(t, func(t *testing.T, s *testmysql.Server) {
		for name, lifetime := range map[string]time.Duration{"shared": 0, "changed": time.Nanosecond} {
			t.Run(name, func(t *testing.T) { pooledRandomly(t, s, *poolSteps, lifetime) })
		}
	})
}

func pooledRandomly(t *testing.T, s *testmysql.Server, steps int, lifetime time.Duration) {
	rnd := rand.New(rand.NewPCG(testseed.New(t), 0))
	const clients = 16
	setup := []string{"set global log_bin_trust_function_creators = 1"}
	for _, l := range []string{"dq", "pq"} {
		for _, schema := range []string{l + "1", l + "2"} {
			setup = append(setup, "drop database if exists "+schema, "create database "+schema)
			for k := range clients {
				in := func(format string) string {
					return strings.NewReplacer("S.", schema+".", "K", strconv.Itoa(k)).Replace(format)
				}
				for _, sql := range []string{
					"create table S.tK (id int auto_increment primary key, v int)", "create table S.gK (x int)", "create trigger S.trK before insert on S.gK for each row set @trg = new.x",
					"create function S.fK() returns int no sql begin set @f = 1; return 1; end", "create view S.vfK as select S.fK()", "create view S.viK as select v from S.tK limit 2",
					"create procedure S.pK(n int) begin set @u = n; insert into S.tK (v) values (n); end",
				} {
					if k%4 == 0 || strings.Contains(sql, ".tK (") && !strings.Contains(sql, "procedure") {
						setup = append(setup, in(sql))
					}
				}
			}
		}
	}
	for at := 0; at < len(setup); at += 20 {
		must(t, s.Exec(setup[at:min(at+20, len(setup))]...))
	}
	r := startPooled(t, s, 2, func(o *gateway.PoolOptions) { o.Lifetime, o.Wait, o.Depth = lifetime, 30*time.Millisecond, 4 })
	worlds := [2]world{{"dq", s.Addr}, {"pq", r.addr}}
	var all []*twin
	for k := range clients {
		w := &twin{number: k, worlds: worlds, change: func(c *mysqlconn.Config) {
			c.Charset = []uint8{45, 8, 33}[k%3]
			if k%4 == 1 {
				c.Capabilities = mysqlwire.CapMultiStatements | mysqlwire.CapSessionTrack
			}
			if k%4 == 2 {
				c.Capabilities = mysqlwire.CapFoundRows
			}
		}}
		w.dial(t)
		all = append(all, w)
	}
	t.Log("clients are connected")
	var history []string
	refusals, compared, failures := 0, 0, 0
	for i := range steps {
		w := all[rnd.IntN(clients)]
		step := randomSteps[rnd.IntN(len(randomSteps))]
		step = strings.NewReplacer("K", strconv.Itoa(w.number), "N", strconv.Itoa(1+rnd.IntN(4))).Replace(lower(step))
		history = append(history, fmt.Sprintf("%d: %s", w.number, step))
		fail := func(format string, args ...any) {
			t.Helper()
			var own []string
			for _, h := range history {
				if strings.HasPrefix(h, strconv.Itoa(w.number)+": ") {
					own = append(own, h)
				}
			}
			since := 0
			for i, h := range own {
				if strings.HasSuffix(h, ":redial") {
					since = i
				}
			}
			t.Errorf("step %d, client %d: %s\nits steps:\n%s", i, w.number, fmt.Sprintf(format, args...), strings.Join(own[max(since, len(own)-30):], "\n"))
			if failures++; failures == 12 {
				t.FailNow()
			}
			history = append(history, fmt.Sprintf("%d: :redial", w.number))
			w.dialRoom(t, all)
		}
		if step == ":redial" {
			w.dialRoom(t, all)
			continue
		}
		if strings.HasPrefix(step, ":change") { // a connection is required, or the session ends
			w.makeRoom(t, all)
		}
		var got outcome
		for round := 0; ; round++ {
			if round == 4 {
				t.Fatalf("step %d, client %d, %s: no connection: open %d, idle %d, queued %d, pins %v\n%s", i, w.number, step,
					r.metric(t, "tare_pool_connections", "open", testmysql.AppUser), r.metric(t, "tare_pool_connections", "idle", testmysql.AppUser),
					r.metric(t, "tare_pool_queue", testmysql.AppUser), r.pins(t), strings.Join(history, "\n"))
			}
			got = w.run(t.Context(), 1, step)
			if !strings.Contains(got.err, noConnection) {
				break
			}
			if strings.HasPrefix(step, ":change") {
				break // MySQL has ended the session
			}
			w.makeRoom(t, all)
		}
		if strings.Contains(got.err, noConnection) {
			w.dialRoom(t, all)
			continue
		}
		if strings.Contains(got.err, "Tare shares connections") {
			refusals++
			if arg, ok := strings.CutPrefix(step, ":prepared "); ok {
				w.run(t.Context(), 0, ":unexecuted "+arg)
			}
			continue
		}
		want := w.run(t.Context(), 0, step)
		if got.String() != want.String() {
			fail("%s\n got %v\nwant %v", step, got, want)
			continue
		}
		if rnd.IntN(8) == 0 && !strings.Contains(step, "WARN") {
			compared++
			if a, b := w.room(t, all, func(at int) string { return w.run(t.Context(), at, pooledState).String() }); a != b {
				fail("after %s: state\n got %s\nwant %s", step, b, a)
				continue
			}
			if rnd.IntN(8) == 0 {
				a, b := w.room(t, all, func(at int) string {
					v, err := w.variables(t.Context(), at)
					return fmt.Sprint(strings.Join(v, "\n"), err)
				})
				if a != b {
					fail("after %s: variables\n%s", step, differences(a, b))
				}
			}
		}
	}
	t.Logf("%d steps, %d refused, %d states compared; opened %d, changed %d", steps, refusals, compared,
		r.metric(t, "tare_pool_opened_total", testmysql.AppUser), r.metric(t, "tare_pool_changes_total", testmysql.AppUser))
}

// pins returns the values of the metric.
func (r *rig) pins(t *testing.T) (all []string) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Collector())
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "tare_pool_pins" {
			for _, m := range f.GetMetric() {
				all = append(all, m.String())
			}
		}
	}
	return all
}

// lower returns s with the words of SQL in lower case: what is left in upper case are templates.
func lower(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' })
	for _, w := range words {
		if len(w) > 1 {
			s = strings.Replace(s, w, strings.ToLower(w), 1)
		}
	}
	return s
}

func differences(a, b string) string {
	var out []string
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			out = append(out, x[i]+" directly, "+y[i]+" shared")
		}
	}
	return strings.Join(out, "\n")
}

// room runs f in both worlds, in the shared one when there is a connection.
func (w *twin) room(t *testing.T, all []*twin, f func(at int) string) (direct, shared string) {
	for {
		shared = f(1)
		if !strings.Contains(shared, noConnection) {
			return f(0), shared
		}
		w.makeRoom(t, all)
	}
}

// makeRoom ends the pins of the other clients.
func (w *twin) makeRoom(t *testing.T, all []*twin) {
	for _, other := range all {
		if other == w {
			continue
		}
		for _, at := range [...]int{1, 0} {
			o := other.run(t.Context(), at, ":reset")
			if strings.Contains(o.err, noConnection) {
				break // it has none to give, and keeps its state in both worlds
			}
			if o.err != "" {
				t.Fatalf("client %d: reset: %s", other.number, o.err)
			}
		}
	}
}

func (w *twin) dialRoom(t *testing.T, all []*twin) {
	w.makeRoom(t, all)
	w.dial(t)
}
