package gateway_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A world is one of two ways to the same server: directly, or through a gateway whose sessions share connections. Statements contain
// W for the world's letter in the names of schemas and locks.
type world struct {
	letter, addr string
}

// neutral undoes text.
func (w world) neutral(s string) string { return strings.ReplaceAll(s, w.letter, "W") }

func (w world) text(sql string) string { return strings.ReplaceAll(sql, "W", w.letter) }

// A twin is a client in both worlds.
type twin struct {
	number  int
	old     bool // as an old client logs in
	refused bool // Tare has refused its last step, an execution
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

// dialIn connects the client in one of the worlds.
func (w *twin) dialIn(t *testing.T, at int, world world) error {
	w.statements[at] = [3]slot{}
	cfg := mysqlconn.Config{
		Addr: world.addr, User: testmysql.AppUser, Password: testmysql.Password, Database: world.text("W1"), TLSMode: mysqlconn.TLSDisabled,
		ServerKey: mysqlconn.ServerKey{Request: true},
	}
	if w.change != nil {
		w.change(&cfg)
	}
	if !w.old {
		c, err := mysqlconn.Dial(t.Context(), cfg)
		if err == nil {
			w.clients[at] = c
		}
		return err
	}
	nc, err := net.Dial("tcp", world.addr)
	must(t, err)
	c, err := mysqlconn.LogIn(t.Context(), mysqlconn.New(nc), mysqlconn.Login{
		User: testmysql.RootUser, Password: testmysql.Password, Capabilities: basicCaps, Charset: 45, MaxPacket: 1 << 30,
	})
	if err == nil {
		err = c.Send(t.Context(), append([]byte{byte(mysqlwire.ComInitDB)}, world.text("W1")...))
	}
	if err != nil {
		nc.Close()
		return err
	}
	w.clients[at] = c
	return nil
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
			fmt.Fprintf(&b, "%q,", v)
		}
		o.rows = append(o.rows, world.neutral(b.String()))
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
	case ":quiet": // its rows are not compared
		_, err = c.Query(ctx, arg, func(mysqlwire.TextRow) error { return nil })
	case ":ping":
		err = c.Send(ctx, []byte{byte(mysqlwire.ComPing)})
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
	case "decimal":
		execute(0, true, mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeNewDecimal}, Data: []byte("2.50")})
	case "double":
		execute(0, true, mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeDouble}, Data: []byte{0, 0, 0, 0, 0, 0, 4, 64}})
	case "unsigned":
		execute(0, true, mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong, Unsigned: true}, Data: number.Data})
	case "null":
		execute(0, true, mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeNull}})
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
	all = bytes.ReplaceAll(all, []byte(w.worlds[at].letter), bytes.Repeat([]byte("W"), len(w.worlds[at].letter))) // within names
	switch errno {
	case 0:
		o.rows = []string{fmt.Sprintf("%q", all)}
	case 1243, 1421: // contain the statement's number
		o.err = fmt.Sprint("statement error ", errno)
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

// stateQuery compares what SHOW VARIABLES does not show.
const pooledState = "SELECT DATABASE(), CURRENT_USER(), @u, @v, @w, @n, @trg, @f, @x, @a"

func (w *twin) variables(ctx context.Context, at int) (all []string, err error) {
	_, err = w.clients[at].Query(ctx, "SHOW SESSION VARIABLES", func(r mysqlwire.TextRow) error {
		if !slices.Contains(volatile, string(r[0])) {
			all = append(all, w.worlds[at].neutral(string(r[0])+"="+string(r[1])))
		}
		return nil
	})
	return all, err
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

// A sharedRun is clients in both worlds, in their schemas.
type sharedRun struct {
	r        *rig
	worlds   [2]world
	all      map[int]*twin
	compared int // states
	refusals int
}

// A sharedKind is a kind of the runs.
type sharedKind struct {
	name     string
	lifetime time.Duration // of connections
	alike    bool          // any client may use any connection: their states differ in values of SET only
}

var sharedKinds = []sharedKind{{name: "shared"}, {name: "changed", lifetime: time.Nanosecond}, {name: "alike", alike: true}}

// randomClients are the clients of a run, on two connections.
const randomClients = 16

var runs atomic.Int64 // their number is in the names of schemas

// startRun creates the clients with numbers, whose sessions share two connections to a server. Those of the other world go to the server
// itself, as direct.
func startRun(t *testing.T, s *testmysql.Server, backend string, kind sharedKind, numbers []int) *sharedRun {
	n := runs.Add(1)
	p := &sharedRun{worlds: [2]world{{fmt.Sprintf("dq%04dq", n), s.Addr}, {fmt.Sprintf("pq%04dq", n), ""}}, all: make(map[int]*twin)}
	setup := []string{"set global log_bin_trust_function_creators = 1"}
	var drop []string
	for _, w := range p.worlds {
		for _, schema := range []string{w.letter + "1", w.letter + "2"} {
			setup, drop = append(setup, "create database "+schema), append(drop, "drop database if exists "+schema)
			for _, k := range numbers {
				in := func(format string) string {
					return strings.NewReplacer("S.", schema+".", "K", strconv.Itoa(k)).Replace(format)
				}
				setup = append(setup, in("create table S.tK (id int auto_increment primary key, v int)"))
				if k%4 != 0 {
					continue
				}
				for _, sql := range []string{
					"create table S.gK (x int)", "create trigger S.trK before insert on S.gK for each row set @trg = new.x",
					"create function S.fK() returns int no sql begin set @f = 1; return 1; end", "create view S.vfK as select S.fK()", "create view S.viK as select v from S.tK limit 2",
					"create procedure S.pK(n int) begin set @u = n; insert into S.tK (v) values (n); end",
					"create table S.t_K (a int)", "create table S.u_K (a int)", "create function S.f_K() returns int no sql return 1", "create procedure S.p_K() set @a = 1",
				} {
					setup = append(setup, in(sql))
				}
			}
		}
		for _, k := range numbers {
			drop = append(drop, fmt.Sprintf("drop database if exists %sx%d", w.letter, k))
		}
	}
	for part := range slices.Chunk(setup, 20) {
		must(t, s.Exec(part...))
	}
	t.Cleanup(func() { must(t, s.Exec(drop...)) })
	p.r = startGateway(t, backend, func(o *gateway.Options) {
		o.Loops, o.Observers = 1, nil
		o.Backend.Key = mysqlconn.ServerKey{Request: true}
		o.KillQuery = func(string, uint32) error { return errors.New("no control account") }
		o.Pool = &gateway.PoolOptions{Max: 2, Lifetime: kind.lifetime, Wait: roomWait, Depth: 4, Password: func(user string) (string, bool) {
			return testmysql.Password, user == testmysql.AppUser || user == testmysql.RootUser
		}}
	})
	t.Cleanup(func() {
		for _, w := range p.all {
			for _, c := range w.clients {
				if c != nil {
					c.Close()
				}
			}
		}
	})
	p.worlds[1].addr = p.r.addr
	for _, k := range numbers {
		w := &twin{number: k, old: k%4 == 3 && !kind.alike, worlds: p.worlds}
		if !kind.alike {
			w.change = func(c *mysqlconn.Config) {
				c.Charset = []uint8{45, 8, 33}[k%3]
				if k%4 == 1 {
					c.Capabilities = mysqlwire.CapMultiStatements | mysqlwire.CapSessionTrack
				}
				if k%4 == 2 {
					c.Capabilities = mysqlwire.CapFoundRows
				}
			}
		}
		p.all[k] = w
		p.dialRoom(t, w)
	}
	return p
}

// roomWait is how long a command waits for a connection. Only the clients of the run use them, one after the other.
const roomWait = 5 * time.Millisecond

// step executes a step in both worlds, and returns the difference.
func (p *sharedRun) step(t *testing.T, s randomStep) (difference string) {
	w, step := p.all[s.client], s.text
	switch {
	case step == ":redial":
		p.dialRoom(t, w)
		return ""
	case step == ":state":
		p.compared++
		if a, b := p.room(t, w, func(at int) string { return w.run(t.Context(), at, pooledState).String() }); a != b {
			return fmt.Sprintf("state\n got %s\nwant %s", b, a)
		}
		return ""
	case step == ":variables":
		p.compared++
		a, b := p.room(t, w, func(at int) string {
			v, err := w.variables(t.Context(), at)
			return fmt.Sprint(strings.Join(v, "\n"), err)
		})
		if a != b {
			return "variables\n" + differences(a, b)
		}
		return ""
	case strings.HasPrefix(step, ":change"): // a connection is required, or the session is closed
		p.makeRoom(t, w)
	}
	afterRefusal := w.refused
	w.refused = false
	got := w.run(t.Context(), 1, step)
	for round := 0; strings.Contains(got.err, noConnection); round++ {
		if strings.HasPrefix(step, ":change") { // MySQL has ended the session
			p.dialRoom(t, w)
			return ""
		}
		if round == 1000 {
			t.Fatalf("%v: no connection: open %d, idle %d, queued %d, pins %v", s, p.r.metric(t, "tare_pool_connections", "open", testmysql.AppUser),
				p.r.metric(t, "tare_pool_connections", "idle", testmysql.AppUser), p.r.metric(t, "tare_pool_queue", testmysql.AppUser), p.r.pins(t))
		}
		p.makeRoom(t, w)
		got = w.run(t.Context(), 1, step)
	}
	if strings.Contains(got.err, "Tare shares connections") {
		p.refusals++
		if arg, ok := strings.CutPrefix(step, ":prepared "); ok {
			w.run(t.Context(), 0, ":unexecuted "+arg)
			w.refused = true
		}
		return ""
	}
	want := w.run(t.Context(), 0, step)
	if afterRefusal && strings.Contains(step, "row_count()") { // -1, as after an error of the server
		return ""
	}
	if got.String() != want.String() {
		return fmt.Sprintf("%s\n got %v\nwant %v", step, got, want)
	}
	return ""
}

// room runs f in both worlds, in the shared one when there is a connection.
func (p *sharedRun) room(t *testing.T, w *twin, f func(at int) string) (direct, shared string) {
	for {
		shared = f(1)
		if !strings.Contains(shared, noConnection) {
			return f(0), shared
		}
		p.makeRoom(t, w)
	}
}

// makeRoom resets the sessions of other clients that keep a connection.
func (p *sharedRun) makeRoom(t *testing.T, w *twin) {
	busy := p.r.Busy(2*len(p.all), 0).Sessions
	for _, k := range slices.Sorted(maps.Keys(p.all)) {
		other := p.all[k]
		if other == w || other.clients[1] == nil || !slices.ContainsFunc(busy, func(i gateway.SessionInfo) bool {
			return i.Client.String() == other.clients[1].NetConn().LocalAddr().String()
		}) {
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

// dialRoom connects a client again.
func (p *sharedRun) dialRoom(t *testing.T, w *twin) {
	for i, world := range p.worlds {
		if w.clients[i] != nil {
			w.clients[i].Close()
			w.clients[i] = nil
		}
		for try := 0; w.clients[i] == nil; try++ {
			if err := w.dialIn(t, i, world); err != nil && (try == 1000 || !strings.Contains(err.Error(), noConnection)) {
				t.Fatalf("client %d: %v", w.number, err)
			} else if err != nil {
				p.makeRoom(t, w)
			}
		}
	}
}
