package gateway_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestPooledDepth has many clients send short reads at the same time on few connections, among transactions, changes of the session's
// state, errors, warnings, statements that are killed and clients that hang up. Each client gets the rows of its own statements.
func TestPooledDepth(t *testing.T) {
	bothWithTLS(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database d1", "create database d2", "set global log_bin_trust_function_creators = 1"))
		for _, schema := range []string{"d1", "d2"} {
			must(t, s.Exec("create table "+schema+".t (id int primary key, v varchar(100))", "create table "+schema+".w (k int primary key, n int)",
				"create table "+schema+".flag (x int)", "insert into "+schema+".flag values (0)",
				"create function "+schema+".f() returns int reads sql data begin declare y int; select x into y from "+schema+".flag; if y > 0 then set @f = y; end if; return y; end",
				"create view "+schema+".vf as select id, v, "+schema+".f() as f from "+schema+".t"))
			var rows []string
			for i := range 200 {
				rows = append(rows, fmt.Sprintf("(%d, '%s-%d-%s')", i, schema, i, strings.Repeat("x", i%50)))
			}
			must(t, s.Exec("insert into "+schema+".t values "+strings.Join(rows, ",")))
		}
		t.Run("one connection", func(t *testing.T) { pooledDepth(t, s, 1, *poolSteps/2, &depthClient{}) })
		if testing.Short() && s.CA != nil { // the other kinds of clients differ in nothing that TLS affects
			return
		}
		t.Run("old clients", func(t *testing.T) { pooledDepth(t, s, 3, *poolSteps/2, &depthClient{old: true}) })
		t.Run("executions", func(t *testing.T) { pooledDepth(t, s, 1, *poolSteps/2, &depthClient{executes: true}) })
	})
}

func pooledDepth(t *testing.T, s *testmysql.Server, most, steps int, kind *depthClient) {
	r := startPooled(t, s, 1, func(o *gateway.PoolOptions) { o.Depth, o.Wait = 8, time.Minute })
	var wg sync.WaitGroup
	var done atomic.Int64
	for k := range 24 {
		rnd := testseed.Rand(t)
		wg.Go(func() {
			c := &depthClient{t: t, s: s, addr: r.addr, number: k, rnd: rnd, schema: "d1", old: kind.old, executes: kind.executes}
			c.dial()
			for i := range steps {
				if err := c.step(i); err != nil {
					t.Errorf("client %d, step %d: %v", k, i, err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	user := testmysql.AppUser
	if kind.old {
		user = testmysql.RootUser
	}
	behind, again := r.metric(t, "tare_pool_pipelined_total", user), r.metric(t, "tare_pool_pipelined_again_total", user)
	t.Logf("%d steps: %d statements behind others, %d of them sent again; opened %d", done.Load(), behind, again, r.metric(t, "tare_pool_opened_total", user))
	if behind == 0 {
		t.Error("no statement was sent behind another")
	}
}

// A depthClient is a client of TestPooledDepth, which knows what it has to see.
type depthClient struct {
	t        *testing.T
	s        *testmysql.Server
	addr     string
	number   int
	rnd      *rand.Rand
	schema   string
	old      bool // without CLIENT_DEPRECATE_EOF
	executes bool // mostly prepared statements
	c        *mysqlconn.Client

	prepared uint32
	types    [2]mysqlwire.ColumnType // that were sent; 0: none
}

func (c *depthClient) dial() {
	c.prepared = 0
	if !c.old {
		c.c = dialPooled(c.t, c.addr, c.schema, nil)
		return
	}
	c.c = openDialogue(c.t, c.addr, basicCaps).Client
	must(c.t, c.use())
}

func (c *depthClient) query(sql string) (rows []string, err error) {
	_, err = c.c.Query(c.t.Context(), sql, func(r mysqlwire.TextRow) error {
		var all []string
		for _, v := range r {
			all = append(all, string(v))
		}
		rows = append(rows, strings.Join(all, ","))
		return nil
	})
	return rows, err
}

// want executes a statement and compares its rows.
func (c *depthClient) want(sql string, want ...string) error {
	rows, err := c.query(sql)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	if fmt.Sprint(rows) != fmt.Sprint(want) {
		return fmt.Errorf("%s: got %q, want %q", sql, rows, want)
	}
	return nil
}

func (c *depthClient) row(id int) string {
	return fmt.Sprintf("%s-%d-%s", c.schema, id, strings.Repeat("x", id%50))
}

func (c *depthClient) fails(sql string, number mysqlwire.Errno) error {
	_, err := c.query(sql)
	var e *mysqlconn.ServerError
	if !errors.As(err, &e) || e.Number != number {
		return fmt.Errorf("%s: %w, want error %d", sql, err, number)
	}
	return nil
}

func (c *depthClient) step(i int) error {
	id := c.rnd.IntN(200)
	n := c.rnd.IntN(60)
	if c.executes && n > 10 {
		n = 21
	}
	switch {
	case n == 0:
		err := c.unprepare()
		_, err2 := c.query("SET sql_mode = 'ANSI_QUOTES'")
		return errors.Join(err, err2, c.want(fmt.Sprintf(`SELECT "v" FROM t WHERE id = %d`, id), c.row(id)), c.want("SELECT @@sql_mode", "ANSI_QUOTES"))
	case n == 1:
		err := c.unprepare()
		c.schema = []string{"d1", "d2"}[c.rnd.IntN(2)]
		return errors.Join(err, c.use())
	case n < 5:
		steps := []string{"BEGIN", fmt.Sprintf("REPLACE INTO w VALUES (%d, %d)", c.number, i), fmt.Sprintf("SELECT v FROM t WHERE id = %d", id), "COMMIT"}
		for _, sql := range steps {
			if _, err := c.query(sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return c.want(fmt.Sprintf("SELECT n FROM w WHERE k = %d", c.number), fmt.Sprint(i))
	case n == 5:
		return c.fails(fmt.Sprintf("SELECT nothing FROM t WHERE id = %d", id), 1054)
	case n == 6:
		_, err := c.query(fmt.Sprintf("SELECT CAST(v AS SIGNED) FROM t WHERE id = %d", id)) // with a warning
		return err
	case n == 7 && i > 20:
		c.c.Close()
		c.dial()
		return nil
	case n == 8 && i > 20: // hangs up while its statement is in flight
		_ = c.c.WriteMessage(mysqlwire.AppendQuery(nil, fmt.Appendf(nil, "SELECT v FROM t WHERE id = %d", id), c.c.Capabilities))
		c.c.Close()
		c.dial()
		return nil
	case n == 9:
		return c.want(fmt.Sprintf("SELECT SLEEP(0.02), v FROM t WHERE id = %d", id), "0,"+c.row(id))
	case n == 10:
		_, err := c.query("SET @mine = " + fmt.Sprint(i))
		return errors.Join(err, c.want("SELECT @mine", fmt.Sprint(i)), c.want(fmt.Sprintf("SELECT v FROM t WHERE id = %d", id), c.row(id)),
			c.reset())
	case n == 11 && i > 20:
		must(c.t, c.s.Exec("update "+c.schema+".flag set x = 7"))
		err := c.view(id)
		must(c.t, c.s.Exec("update "+c.schema+".flag set x = 0"))
		return err
	case n < 20:
		return c.view(id)
	case n < 30:
		return c.execute(id, i)
	case n < 40:
		return c.want(fmt.Sprintf("SELECT v, id FROM t WHERE id BETWEEN %d AND %d ORDER BY id", id, id+1), c.pair(id)...)
	}
	return c.want(fmt.Sprintf("SELECT v FROM t WHERE id = %d", id), c.row(id))
}

// execute executes a prepared statement, whose first value is a number or a text. Types are sent when they change.
func (c *depthClient) execute(id, i int) error {
	if c.prepared == 0 {
		ok, err := c.c.Prepare(c.t.Context(), []byte("SELECT CONCAT(v, '|', ?) FROM t WHERE id = ?"))
		if err != nil {
			return err
		}
		c.prepared, c.types = ok.StatementID, [2]mysqlwire.ColumnType{}
	}
	number := func(n int) mysqlwire.BinaryValue {
		return mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}, Data: binary.LittleEndian.AppendUint64(nil, uint64(n))}
	}
	first, want := number(i), fmt.Sprintf("%s|%d", c.row(id), i)
	if c.rnd.IntN(4) == 0 {
		first, want = mysqlwire.BinaryValue{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}, Data: []byte("text")}, c.row(id)+"|text"
	}
	var p mysqlwire.StmtParams
	p.Reset(2)
	p.Values = []mysqlwire.BinaryValue{first, number(id)}
	types := [2]mysqlwire.ColumnType{first.Type, mysqlwire.TypeLongLong}
	e := mysqlwire.StmtExecute{StatementID: c.prepared, Iterations: 1, Params: p.AppendTo(nil, 0, c.c.Capabilities, types != c.types)}
	c.types = types
	w := &twin{worlds: [2]world{{"none", c.addr}}, clients: [2]*mysqlconn.Client{c.c}}
	all, errno, err := w.exchange(0, e.AppendTo(nil))
	if err != nil || errno != 0 || !bytes.Contains(all, append([]byte{byte(len(want))}, want...)) {
		return fmt.Errorf("execution: %w, errno %d, got %q, want %q", err, errno, all, want)
	}
	return nil
}

func (c *depthClient) use() error {
	_, err := c.query("USE " + c.schema)
	return err
}

// unprepare closes the prepared statement: with another schema or sql_mode it would keep the connection.
func (c *depthClient) unprepare() error {
	if c.prepared == 0 {
		return nil
	}
	id := c.prepared
	c.prepared = 0
	return c.c.CloseStatement(id)
}

func (c *depthClient) reset() error {
	c.prepared = 0
	return errors.Join(c.c.Send(c.t.Context(), []byte{byte(mysqlwire.ComResetConnection)}), c.use())
}

func (c *depthClient) pair(id int) (all []string) {
	for i := id; i < min(id+2, 200); i++ {
		all = append(all, fmt.Sprintf("%s,%d", c.row(i), i))
	}
	return all
}

// view reads a view whose function assigns a user variable if a flag is set, which no statement shows.
func (c *depthClient) view(id int) error {
	rows, err := c.query(fmt.Sprintf("SELECT f, v FROM vf WHERE id = %d", id))
	if err != nil {
		return err
	}
	if len(rows) != 1 || rows[0] != "0,"+c.row(id) && rows[0] != "7,"+c.row(id) {
		return fmt.Errorf("view: %q, want row %d of %s", rows, id, c.schema)
	}
	got, err := c.query("SELECT @f")
	if err != nil || (rows[0][0] == '7') && got[0] != "7" {
		return fmt.Errorf("@f is %q after the function returned %q: %w", got, rows[0][:1], err)
	}
	if got[0] == "" && rows[0][0] == '0' {
		return nil
	}
	return errors.Join(c.reset())
}

// TestPooledBehind has statements wait on one connection behind one that waits for a lock, and takes each of them away in some way: those
// that are left get their rows.
func TestPooledBehind(t *testing.T) {
	bothWithTLS(t, func(t *testing.T, s *testmysql.Server) {
		must(t, s.Exec("create database d1", "create table d1.t (id int primary key, v varchar(20))", "insert into d1.t values (0, 'r0'), (1, 'r1'), (2, 'r2'), (3, 'r3')",
			"create table d1.flag (x int)", "insert into d1.flag values (0)", "set global log_bin_trust_function_creators = 1",
			"create function d1.f() returns int reads sql data begin declare y int; select x into y from d1.flag; if y > 0 then set @f = y; end if; return y; end",
			"create view d1.vf as select v, id, d1.f() as f from d1.t"))
		for name, c := range map[string]struct {
			do    func(l *lined)
			fails []mysqlwire.Errno // of each client; 1: the connection is lost
			again uint64
		}{
			"nothing":             {func(*lined) {}, make([]mysqlwire.Errno, 4), 0},
			"the second killed":   {func(l *lined) { l.kill(1, false) }, []mysqlwire.Errno{0, mysqlwire.ErrnoQueryInterrupted, 0, 0}, 2},
			"the last killed":     {func(l *lined) { l.kill(3, false) }, []mysqlwire.Errno{0, 0, 0, mysqlwire.ErrnoQueryInterrupted}, 0},
			"the second's end":    {func(l *lined) { l.kill(1, true) }, []mysqlwire.Errno{0, 1, 0, 0}, 2},
			"the third hangs up":  {func(l *lined) { l.hangUp(2) }, []mysqlwire.Errno{0, 0, 1, 0}, 1},
			"the first hangs up":  {func(l *lined) { l.hangUp(0) }, []mysqlwire.Errno{1, 0, 0, 0}, 3},
			"the connection lost": {func(l *lined) { l.lose() }, []mysqlwire.Errno{1, 0, 0, 0}, 3},
			"the session changes": {func(*lined) {}, make([]mysqlwire.Errno, 4), 3},
		} {
			t.Run(name, func(t *testing.T) {
				l := newLined(t, s, name == "the session changes", 5*time.Second)
				c.do(l)
				l.locker.unlock()
				for i, want := range c.fails {
					got := testwait.Receive(t, "a response", l.results[i])
					if want == 0 && got != fmt.Sprintf("r%d", i) || want == 1 && !strings.HasPrefix(got, "lost: ") || want > 1 && got != fmt.Sprint(want) {
						t.Errorf("client %d: %s, want error %d", i, got, want)
					}
					if l.changes && i == 0 { // and has the connection for itself
						if got := one(t, l.clients[0], "SELECT @f")[0]; got != "7" {
							t.Errorf("the user variable that the view's function has set: %q", got)
						}
						l.clients[0].Close()
					}
				}
				if n := l.metric(t, "tare_pool_pipelined_again_total", testmysql.AppUser); n != c.again {
					t.Errorf("%d statements were sent again, want %d", n, c.again)
				}
				if got := one(t, dialPooled(t, l.addr, "d1", nil), "SELECT v FROM t WHERE id = 2")[0]; got != "r2" {
					t.Errorf("afterwards: %s", got)
				}
			})
		}
	})
}

// TestBehindTooLong has statements wait behind one that does not end: after option pool-wait they wait for another connection, which
// there is not.
func TestBehindTooLong(t *testing.T) {
	s := testmysql.Start(t)
	must(t, s.Exec("create database d1", "create table d1.t (id int primary key, v varchar(20))", "insert into d1.t values (0, 'r0'), (1, 'r1'), (2, 'r2'), (3, 'r3')"))
	l := newLined(t, s, false, 300*time.Millisecond)
	for i, result := range l.results[1:] {
		if got := testwait.Receive(t, "an error", result); !strings.Contains(got, "server error 1203") {
			t.Errorf("client %d: %s, want error 1203", i+1, got)
		}
	}
	if n := l.metric(t, "tare_pool_pipelined_again_total", testmysql.AppUser); n != 3 {
		t.Errorf("%d statements were to be sent again, want 3", n)
	}
	l.locker.unlock()
	if got := testwait.Receive(t, "the response", l.results[0]); got != "r0" {
		t.Errorf("the first: %s", got)
	}
	if got := one(t, l.clients[2], "SELECT v FROM t WHERE id = 2")[0]; got != "r2" {
		t.Errorf("afterwards: %s", got)
	}
}

// A lined is four clients whose statements are on one connection: the first waits for a lock.
type lined struct {
	*rig
	t       *testing.T
	locker  *tableLock
	clients []*mysqlconn.Client
	results []chan string
	changes bool // the first statement changes its session
}

// A tableLock is a table that another client has locked.
type tableLock struct {
	t *testing.T
	c *mysqlconn.Client
}

func lockTable(t *testing.T, s *testmysql.Server) *tableLock {
	l := &tableLock{t, dialPooled(t, s.Addr, "d1", nil)}
	one(t, l.c, "LOCK TABLES t WRITE")
	return l
}

func (l *tableLock) unlock() {
	l.t.Helper()
	one(l.t, l.c, "UNLOCK TABLES")
}

func newLined(t *testing.T, s *testmysql.Server, changes bool, wait time.Duration) *lined {
	l := &lined{rig: startPooled(t, s, 1, func(o *gateway.PoolOptions) { o.Depth, o.Wait = 4, wait }), t: t, changes: changes}
	l.WaitBehind(time.Hour)
	for range 4 {
		l.clients = append(l.clients, dialPooled(t, l.addr, "d1", nil))
		l.results = append(l.results, make(chan string, 1))
	}
	for range 40 { // short until now
		one(t, l.clients[0], "SELECT v FROM t WHERE id = 1")
		if changes {
			one(t, l.clients[0], "SELECT v, f FROM vf WHERE id = 1")
		}
	}
	if changes {
		must(t, s.Exec("update d1.flag set x = 7"))
		t.Cleanup(func() { must(t, s.Exec("update d1.flag set x = 0")) })
	}
	l.locker = lockTable(t, s)
	for i, c := range l.clients {
		what := "SELECT v FROM t WHERE id = %d"
		if changes && i == 0 {
			what = "SELECT v, f FROM vf WHERE id = %d"
		}
		go func() { l.results[i] <- readRow(t, c, fmt.Sprintf(what, i)) }()
		testwait.Until(t, "the statement of a client", func() bool {
			return len(l.Busy(10, 0).Sessions) == i+1 && l.metric(t, "tare_pool_pipelined_total", testmysql.AppUser) == uint64(i)
		})
	}
	return l
}

// readRow returns the value, or the number of the error.
func readRow(t *testing.T, c *mysqlconn.Client, sql string) (value string) {
	_, err := c.Query(t.Context(), sql, func(r mysqlwire.TextRow) error {
		value = string(r[0])
		return nil
	})
	if e, ok := errors.AsType[*mysqlconn.ServerError](err); ok && e.Number == mysqlwire.ErrnoQueryInterrupted && !strings.Contains(e.Message, "Tare") {
		return fmt.Sprint(e.Number)
	}
	if err != nil {
		return "lost: " + err.Error()
	}
	return value
}

// session returns the session of a client: the list is in the order in which they began.
func (l *lined) session(i int) gateway.SessionInfo {
	all := l.Busy(10, 0).Sessions
	if len(all) != len(l.clients) {
		l.t.Fatalf("%d sessions are busy", len(all))
	}
	return all[i]
}

// kill kills the statement of a client, or its session.
func (l *lined) kill(i int, whole bool) {
	ses := l.session(i)
	_, err := l.Kill(gateway.Kill{Session: ses.Number, Command: ses.Command, Whole: whole})
	must(l.t, err)
	testwait.Until(l.t, "the end of the statement", func() bool { return len(l.results[i]) == 1 })
}

func (l *lined) hangUp(i int) {
	must(l.t, l.clients[i].Socket().(*net.TCPConn).SetLinger(0)) // a client that closes its sending side only may read on
	l.clients[i].Close()
	testwait.Until(l.t, "the end of the session", func() bool { return len(l.Busy(10, 0).Sessions) == 3 })
}

// lose closes the connection that the statements are on.
func (l *lined) lose() {
	one(l.t, l.locker.c, fmt.Sprintf("KILL %d", l.session(0).Connection))
	testwait.Until(l.t, "the end of the statement", func() bool { return len(l.results[0]) == 1 })
}

// TestKillQueued kills a statement that waits for a connection.
func TestKillQueued(t *testing.T) {
	s := testmysql.Start(t)
	must(t, s.Exec("create database d1", "create table d1.t (id int primary key, v varchar(20))", "insert into d1.t values (1, 'r1')"))
	r := startPooled(t, s, 1, func(o *gateway.PoolOptions) { o.Wait = time.Hour })
	holder, victim := dialPooled(t, r.addr, "d1", nil), dialPooled(t, r.addr, "d1", nil)
	one(t, holder, "BEGIN")
	result := make(chan string, 1)
	go func() { result <- readRow(t, victim, "SELECT v FROM t") }()
	testwait.Until(t, "the queue", func() bool { return r.metric(t, "tare_pool_queue", testmysql.AppUser) == 1 })
	if all := r.Busy(10, 0); all.Counts[gateway.ActivityPool] != 1 {
		t.Errorf("sessions by activity: %v", all.Counts)
	}
	_, err := holder.Exec(t.Context(), fmt.Sprintf("KILL QUERY %d", victim.ConnectionID))
	must(t, err)
	if got := testwait.Receive(t, "the error", result); got != fmt.Sprint(mysqlwire.ErrnoQueryInterrupted) {
		t.Errorf("the killed statement: %s", got)
	}
	one(t, holder, "COMMIT")
	if got := readRow(t, victim, "SELECT v FROM t"); got != "r1" {
		t.Errorf("its next statement: %s", got)
	}
}

// TestDepthAllocs is the allocation table of statements of two clients in flight on one connection. With TLS, crypto/tls allocates at
// most one small object for each record that it reads.
func TestDepthAllocs(t *testing.T) {
	const recordsRead = 2
	t.Run("without TLS", func(t *testing.T) { depthAllocs(t, testmysql.Start(t), 0) })
	t.Run("TLS", func(t *testing.T) { depthAllocs(t, testmysql.Start(t, testmysql.WithTLS()), recordsRead*1000) })
}

func depthAllocs(t *testing.T, s *testmysql.Server, perThousand float64) {
	must(t, s.Exec("create database d1", "create table d1.t (id int primary key, v varchar(20))", "insert into d1.t values (1, 'r1')"))
	r := startPooled(t, s, 1, func(o *gateway.PoolOptions) { o.Depth = 4 })
	r.WaitBehind(time.Hour)
	a, b := dialPooled(t, r.addr, "d1", nil), dialPooled(t, r.addr, "d1", nil)
	command := testscript.Packets(0, mysqlwire.AppendQuery(nil, []byte("SELECT v FROM t WHERE id = 1"), a.Capabilities))
	w := &twin{worlds: [2]world{{"none", r.addr}}, clients: [2]*mysqlconn.Client{a}}
	want, _, err := w.exchange(0, command[mysqlwire.HeaderLen:])
	must(t, err)
	both := func(commands [2][]byte, want []byte) func() error {
		return func() error {
			if _, err := a.Write(commands[0]); err != nil {
				return err
			}
			if err := testscript.RoundTrip(b.Conn, commands[1], want); err != nil {
				return err
			}
			return testscript.RoundTrip(a.Conn, nil, want)
		}
	}
	alloctest.Run(t, []alloctest.Case{{Name: "statements of two clients", PerThousand: perThousand, Op: both([2][]byte{command, command}, want)}})
	before := r.metric(t, "tare_pool_pipelined_total", testmysql.AppUser)
	var executions [2][]byte
	for i, c := range []*mysqlconn.Client{a, b} {
		w.clients[0] = c
		ok, err := c.Prepare(t.Context(), []byte("SELECT v FROM t WHERE id = ?"))
		must(t, err)
		for _, types := range []bool{true, false} { // then without types, which Tare adds where the other client's were the last
			var p mysqlwire.StmtParams
			p.Reset(1)
			p.Values = []mysqlwire.BinaryValue{{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}, Data: binary.LittleEndian.AppendUint64(nil, 1)}}
			e := mysqlwire.StmtExecute{StatementID: ok.StatementID, Iterations: 1, Params: p.AppendTo(nil, 0, c.Capabilities, types)}
			executions[i] = testscript.Packets(0, e.AppendTo(nil))
			want, _, err = w.exchange(0, e.AppendTo(nil))
			must(t, err)
		}
	}
	alloctest.Run(t, []alloctest.Case{{Name: "executions of two clients", PerThousand: perThousand, Op: both(executions, want)}})
	if n := r.metric(t, "tare_pool_pipelined_total", testmysql.AppUser); before == 0 || n == before {
		t.Errorf("%d statements and %d executions were sent behind others", before, n-before)
	}
}
