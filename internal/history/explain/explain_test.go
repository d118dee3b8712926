package explain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testmysql.Main(m), goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // sqlparser's log
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// candidateOf returns a candidate for a statement in schema test.
func candidateOf(text string, mode sqldigest.Mode) Candidate {
	var d sqldigest.Digester
	c := Candidate{Digest: d.Digest([]byte(text), mode), Schema: testmysql.DefaultSchema}
	c.Text = string(d.Text())
	return c
}

// executed returns the record of a query or, with values, of the execution of a prepared statement.
func executed(c Candidate, text string, took time.Duration, values ...mysqlwire.BinaryValue) *querylog.Record {
	r := teststmt.Record(1, took)
	r.Start, r.Digest, r.Schema, r.Normalized = noon, c.Digest, c.Schema, []byte(c.Text)
	r.Command, r.Text, r.TextBytes = mysqlwire.ComQuery, []byte(text), len(text)
	if len(values) > 0 {
		r.Command, r.Text, r.TextBytes, r.Binds = mysqlwire.ComStmtExecute, nil, 0, values
	}
	return r
}

func longlong(n byte) mysqlwire.BinaryValue {
	return mysqlwire.BinaryValue{Data: []byte{n, 0, 0, 0, 0, 0, 0, 0}, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLongLong}}
}

// A bench is a Prober over a server, driven by the test.
type bench struct {
	*Prober
	now     time.Time
	all     []Candidate
	changes []Change
}

func newBench(t *testing.T, addr, user string) *bench {
	t.Helper()
	b := &bench{now: noon}
	p, err := New(Options{
		Login:      func() mysqlconn.Config { return mysqlconn.Config{Addr: addr, User: user, Password: testmysql.Password} },
		Candidates: func(context.Context) ([]Candidate, error) { return b.all, nil },
		Changed:    func(_ sqldigest.Digest, c Change) { b.changes = append(b.changes, c) },
		Now:        func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	b.Prober = p
	t.Cleanup(p.server.close)
	return b
}

// only has one candidate, executes it and returns its state after an EXPLAIN.
func (b *bench) only(t *testing.T, text string, mode sqldigest.Mode, values ...mysqlwire.BinaryValue) State {
	t.Helper()
	c := candidateOf(text, mode)
	b.all = []Candidate{c}
	b.candidates.Store(nil)
	b.refresh(t.Context())
	b.Observe(executed(c, text, time.Second, values...))
	b.now = b.now.Add(time.Minute)
	b.step(t.Context(), b.now)
	s, ok := b.State(c.Digest)
	if !ok {
		t.Fatalf("%s is no candidate", text)
	}
	return s
}

// TestOnServers runs the tests that need a real server on MariaDB and MySQL.
func TestOnServers(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, opts...)
			rows := func(of string) string {
				return "INSERT INTO " + of + " SELECT n, n % 100, n % 7 FROM (WITH RECURSIVE x AS (SELECT 1 n UNION ALL SELECT n + 1 FROM x WHERE n < 900) SELECT n FROM x) y"
			}
			must(t, s.Exec(
				"CREATE TABLE orders (id INT PRIMARY KEY, customer INT, state INT, KEY k (customer))", rows("orders"),
				"CREATE TABLE items (id INT PRIMARY KEY, order_id INT, n INT, KEY o (order_id))", rows("items"),
				"ANALYZE TABLE orders, items", "CREATE TABLE log (x INT)", "CREATE VIEW v AS SELECT id, customer FROM orders",
				"CREATE FUNCTION test.f() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO log VALUES (1); RETURN 1; END",
				"CREATE VIEW called AS SELECT f() AS one", "CREATE USER poor@'%' IDENTIFIED BY '"+testmysql.Password+"'",
				"CREATE TRIGGER trig BEFORE UPDATE ON orders FOR EACH ROW INSERT INTO log VALUES (2)",
			))
			db, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
			must(t, err)
			defer db.Close()
			var version string
			must(t, db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version))
			mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer(version))
			t.Run("nothing is executed", func(t *testing.T) { testNothingIsExecuted(t, s, mode) })
			t.Run("plans", func(t *testing.T) { testPlans(t, s, mode) })
			t.Run("problems", func(t *testing.T) { testServerProblems(t, s, mode) })
		})
	}
}

// testPlans explains statements of each kind on real servers, and checks that a dropped index changes the
// plan.
func testPlans(t *testing.T, s *testmysql.Server, mode sqldigest.Mode) {
	t.Helper()
	b := newBench(t, s.Addr, testmysql.RootUser)
	for text, want := range map[string]string{
		"SELECT * FROM orders WHERE customer = 7":                                               "orders ref by k",
		"SELECT * FROM test.orders WHERE state = 3":                                             "orders full scan",
		"SELECT * FROM orders o JOIN items i ON i.order_id = o.id WHERE o.customer = 7 LIMIT 3": "o ref by k,i ref by o",
		"UPDATE orders SET state = 1 WHERE customer = 7":                                        "orders range by k",
		"DELETE FROM orders WHERE customer = 7":                                                 "orders range by k",
		"INSERT INTO items SELECT id + 1000, 1, 1 FROM orders WHERE customer = 7":               "items full scan,orders ref by k",
	} {
		got := b.only(t, text, mode)
		if len(got.Plans) != 1 || got.Why != "" {
			t.Errorf("%s: %+v", text, got)
			continue
		}
		var steps []string
		for _, step := range got.Plans[0].Steps {
			steps = append(steps, strings.TrimSpace(step.Table+" "+accessText(step.Access)+" by "+step.Key))
		}
		line := strings.ReplaceAll(strings.Join(steps, ",")+",", " by,", ",")
		line = strings.TrimSuffix(line, ",")
		if line != want && !strings.HasPrefix(text, "INSERT") || strings.HasPrefix(text, "INSERT") && !strings.Contains(line, "orders ref by k") {
			t.Errorf("%s: plan %q, want %q", text, line, want)
		}
	}
	prepared := "SELECT * FROM orders WHERE customer = ? AND state > ?"
	if got := b.only(t, prepared, mode, longlong(7), longlong(1)); len(got.Plans) != 1 || got.Plans[0].Steps[0].Key != "k" {
		t.Errorf("a prepared statement: %+v", got)
	}
	testCut(t, b, mode)
	c := candidateOf(prepared, mode)
	b.only(t, prepared, mode, longlong(7), longlong(1))
	before, _ := b.State(c.Digest)
	must(t, s.Exec("ALTER TABLE orders DROP INDEX k"))
	b.SchemaChanged([]string{"other.orders"})
	b.now = b.now.Add(time.Minute)
	b.step(t.Context(), b.now)
	if len(b.changes) != 0 {
		t.Errorf("a change of another table: %+v", b.changes)
	}
	b.SchemaChanged([]string{"test.Orders"})
	b.now = b.now.Add(3 * time.Second)
	b.step(t.Context(), b.now)
	after, _ := b.State(c.Digest)
	if len(b.changes) != 1 || len(after.Changes) != 1 || after.Plans[0].ID == before.Plans[0].ID || after.Plans[0].Steps[0].Access != "ALL" ||
		b.changes[0].Before.ID != before.Plans[0].ID || after.Plans[0].Steps[0].Rows < 800 {
		t.Errorf("after DROP INDEX %+v, changes %+v", after, b.changes)
	}
	must(t, s.Exec("ALTER TABLE orders ADD INDEX k (customer)"))
	b.SchemaChanged([]string{"test.*"})
	b.now = b.now.Add(3 * time.Second)
	b.step(t.Context(), b.now)
	if healed, _ := b.State(c.Digest); len(b.changes) != 2 || b.changes[1].After.ID != before.Plans[0].ID || healed.Plans[0].ID != before.Plans[0].ID || len(healed.Plans) != 2 {
		t.Errorf("after ADD INDEX %+v, changes %+v", healed, b.changes)
	}
	must(t, s.Exec("ALTER TABLE orders DROP INDEX k"))
	b.SchemaChanged([]string{"test.orders"})
	b.now = b.now.Add(3 * time.Second)
	b.step(t.Context(), b.now)
	if again, _ := b.State(c.Digest); len(b.changes) != 3 || again.Plans[0].ID != after.Plans[0].ID || len(again.Plans) != 2 {
		t.Errorf("after the second DROP INDEX %+v, changes %+v", again, b.changes)
	}
	must(t, s.Exec("ALTER TABLE orders ADD INDEX k (customer)"))
}

// testCut explains statements whose stored text is cut, before the first table: their executions have the whole text.
func testCut(t *testing.T, b *bench, mode sqldigest.Mode) {
	t.Helper()
	for text, why := range map[string]error{
		"SELECT customer, state, id, customer FROM orders WHERE customer = 8 AND state < 9": nil,
		"SELECT customer, state, id, customer FROM called":                                  errView,
		"SELECT customer, state, id, customer FROM orders WHERE id = SLEEP(9)":              errWaits,
		"SELECT customer, state, id, customer FROM orders WHERE id = f()":                   errEffects,
	} {
		c := candidateOf(text, mode)
		c.Text, c.TextCut = c.Text[:12], true
		b.all = []Candidate{c}
		b.candidates.Store(nil)
		b.refresh(t.Context())
		b.Observe(executed(c, text, time.Second))
		b.now = b.now.Add(time.Minute)
		b.step(t.Context(), b.now)
		got, _ := b.State(c.Digest)
		if why == nil && (len(got.Plans) != 1 || got.Plans[0].Steps[0].Key != "k") || why != nil && (got.Why != why.Error() || len(got.Plans) != 0) {
			t.Errorf("%s: %+v, want %v", text, got, why)
		}
		if tables := (*b.candidates.Load())[c.Digest].tables; why == nil && !reflect.DeepEqual(tables, []string{"test.orders"}) {
			t.Errorf("%s: the tables are %v", text, tables)
		}
	}
}

// testNothingIsExecuted checks that statements whose parts EXPLAIN could execute are refused, or limited by
// the server. None of them writes a row.
func testNothingIsExecuted(t *testing.T, s *testmysql.Server, mode sqldigest.Mode) {
	t.Helper()
	b := newBench(t, s.Addr, testmysql.RootUser)
	for text, why := range map[string]error{
		"SELECT * FROM orders WHERE id = f()":                                         errEffects,
		"SELECT * FROM orders WHERE id = test.f()":                                    errEffects,
		"SELECT * FROM orders WHERE id = (SELECT f())":                                errEffects,
		"SELECT * FROM called":                                                        errView,
		"SELECT * FROM v JOIN orders USING (id)":                                      errView,
		"SELECT * FROM orders WHERE id = SLEEP(9)":                                    errWaits,
		"SELECT * FROM orders WHERE id = (SELECT `sleep`(9) FROM items WHERE id = 1)": errEffects,
		"SELECT BENCHMARK (1000000000, 1) FROM orders":                                errWaits,
		"SELECT GET_LOCK('a', 9) FROM orders":                                         errEffects,
		"SELECT * FROM orders WHERE id = 1 FOR UPDATE":                                errEffects,
		"SELECT * FROM orders WHERE id = @a":                                          errEffects,
		"SELECT * FROM orders INTO OUTFILE '/tmp/x'":                                  errEffects,
		"SELECT 1":                   errNoTable,
		"SELECT * FROM missing":      errGone,
		"INSERT INTO log VALUES (7)": errType,
		"CALL p()":                   errType,
		"DROP TABLE log":             errType,
		"SELECT * FROM information_schema.tables": errView,
	} {
		got := b.only(t, text, mode)
		if len(got.Plans) != 0 || got.Why != why.Error() && !(errors.Is(why, errEffects) && (got.Why == errWaits.Error() || got.Why == errUnparsed.Error()) && !(errors.Is(why, errView) && got.Why == errGone.Error())) {
			t.Errorf("%s: %+v, want %v", text, got, why)
		}
	}
	// The transaction and the time limit stop statements that pass the checks.
	for _, text := range []string{
		"SELECT * FROM orders WHERE id = f()", "SELECT * FROM (SELECT f() AS x FROM orders LIMIT 100) d WHERE x = 1",
		"SELECT * FROM orders WHERE id = (SELECT SLEEP(9) FROM items WHERE id = 1)", "SELECT * FROM called",
		"SELECT * FROM orders WHERE id = BENCHMARK(10000000000, SHA2('x', 512))",
	} {
		c := newCandidate(candidateOf(text, mode), subject{tables: []string{"test.orders"}}, nil)
		c.execution.keep(executed(c.Candidate, text, time.Second))
		_, err := b.server.explain(t.Context(), c, b.judge)
		if err != nil {
			if why, ofServer := reason(err); ofServer || why != errReadOnly && why != errTooLong { //nolint:errorlint // sentinels
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if got := b.only(t, "UPDATE orders SET state = 2 WHERE id = 1", mode); len(got.Plans) != 1 {
		t.Errorf("an UPDATE: %+v", got)
	}
	db, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	var written, changed int
	must(t, db.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM log), (SELECT COUNT(*) FROM orders WHERE state <> id % 7)").Scan(&written, &changed))
	if written != 0 || changed != 0 {
		t.Errorf("%d rows were written, %d changed", written, changed)
	}
}

// testServerProblems checks that an account without privileges, a lock, and an unreachable server each give a
// reason without the server's text, and that the Prober backs off.
func testServerProblems(t *testing.T, s *testmysql.Server, mode sqldigest.Mode) {
	t.Helper()
	text := "SELECT * FROM orders WHERE customer = 7"
	poor := newBench(t, s.Addr, "poor")
	if got := poor.only(t, text, mode); len(got.Plans) != 0 || got.Why == "" || strings.Contains(got.Why, "orders") {
		t.Errorf("without rights: %+v", got)
	}
	b := newBench(t, s.Addr, testmysql.RootUser)
	db, err := sql.Open("mysql", s.DSN(testmysql.RootUser))
	must(t, err)
	defer db.Close()
	conn, err := db.Conn(t.Context())
	must(t, err)
	_, err = conn.ExecContext(t.Context(), "LOCK TABLES orders WRITE")
	must(t, err)
	if got := b.only(t, text, mode); got.Why != errLocked.Error() {
		t.Errorf("of a locked table: %+v", got)
	}
	must(t, conn.Close())
	_, err = db.ExecContext(t.Context(), "UNLOCK TABLES")
	must(t, err)
	b.now = b.now.Add(3 * time.Second)
	b.step(t.Context(), b.now)
	if got, _ := b.State(candidateOf(text, mode).Digest); len(got.Plans) != 1 || got.Why != "" {
		t.Errorf("after the lock: %+v", got)
	}
	away := newBench(t, "127.0.0.1:1", testmysql.RootUser)
	if got := away.only(t, text, mode); !strings.Contains(got.Why, "cannot be reached") {
		t.Errorf("without a server: %+v", got)
	}
	away.now = away.now.Add(5 * time.Second)
	away.step(t.Context(), away.now)
	if away.counts[resultFailed] != 1 {
		t.Errorf("%d attempts within 5 s, want 1", away.counts[resultFailed])
	}
	wrong := newBench(t, s.Addr, testmysql.RootUser)
	wrong.server.client = serverstats.NewClient(func() mysqlconn.Config {
		return mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: "wrong"}
	})
	if got := wrong.only(t, text, mode); !strings.Contains(got.Why, "1045") {
		t.Errorf("with a wrong password: %+v", got)
	}
}

// TestSchedule checks that candidates are explained in order of urgency, within the budget.
func TestSchedule(t *testing.T) {
	b := newBench(t, "127.0.0.1:1", "")
	for i := range MaxCandidates + 5 {
		b.all = append(b.all, candidateOf(fmt.Sprintf("SELECT * FROM t%d", i), 0))
	}
	b.refresh(t.Context())
	if n := len(*b.candidates.Load()); n != MaxCandidates {
		t.Fatalf("%d candidates", n)
	}
	if b.due(b.now) != nil {
		t.Error("a statement without an execution is explained")
	}
	for i, c := range b.all {
		b.Observe(executed(c, fmt.Sprintf("SELECT * FROM t%d", i), time.Duration(i)))
	}
	plan := func(access string) *Plan { return &Plan{ID: access, Steps: []Step{{Table: "t", Access: access}}} }
	explained := 0
	for c := b.due(b.now); c != nil; c = b.due(b.now) {
		b.record(c, plan("ref"), nil, b.now, 0)
		explained++
	}
	if explained != MaxPerMinute {
		t.Errorf("%d EXPLAINs at once, want %d", explained, MaxPerMinute)
	}
	for b.now = b.now.Add(time.Minute); ; b.now = b.now.Add(5 * time.Second) {
		c := b.due(b.now)
		if c == nil {
			break
		}
		b.record(c, plan("ref"), nil, b.now, 0)
	}
	first := b.all[0]
	b.SchemaChanged([]string{"test.t3"})
	c := b.due(b.now)
	if c == nil || c.Digest != b.all[3].Digest {
		t.Fatalf("after a schema change %+v is due", c)
	}
	b.record(c, plan("ALL"), nil, b.now, 0)
	if len(b.changes) != 1 || b.changes[0].Before.ID != "ref" || b.changes[0].After.ID != "ALL" {
		t.Errorf("changes %+v", b.changes)
	}
	b.record(c, plan("ref"), nil, b.now, 0)
	if len(b.changes) != 1 {
		t.Errorf("a plan that returns without a schema change: %+v", b.changes)
	}
	for _, took := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond} {
		for range leastCalls {
			b.Observe(executed(first, "SELECT * FROM t0", took))
		}
		b.now = b.now.Add(time.Minute)
		c = (*b.candidates.Load())[first.Digest]
		if took == 10*time.Millisecond {
			c.roll(b.now)
			b.record(c, plan("ref"), nil, b.now, 0)
			c.tried = b.now
		}
	}
	if c := b.due(b.now); c == nil || c.Digest != first.Digest {
		t.Errorf("a statement that takes longer is not due, but %+v", c)
	}
	if b.HeapBytes() < MaxCandidates*maxText {
		t.Errorf("%d bytes", b.HeapBytes())
	}
	b.all = b.all[:1]
	b.refresh(t.Context())
	if s, ok := b.State(first.Digest); !ok || len(s.Plans) != 1 {
		t.Errorf("after a refresh %+v", s)
	}
	if _, ok := b.State(candidateOf("SELECT * FROM t9", 0).Digest); ok {
		t.Error("a statement without load is still a candidate")
	}
}

// TestExecutions checks that the slowest execution of a minute is kept, with its values; those that cannot be
// explained have a reason.
func TestExecutions(t *testing.T) {
	b := newBench(t, "127.0.0.1:1", "")
	text := "SELECT * FROM t WHERE a = ? AND b = ?"
	c := candidateOf(text, 0)
	b.all = []Candidate{c}
	b.refresh(t.Context())
	of := (*b.candidates.Load())[c.Digest]
	want := func(why error, args ...mysqlwire.BinaryValue) {
		t.Helper()
		got, err := of.statement(0)
		if err != why || !reflect.DeepEqual(got.values, args) || why == nil && (got.text != string(c.Text) && got.text != text || got.normalized != c.Text) { //nolint:errorlint // a sentinel
			t.Errorf("%+v, %v, want %v, %v", got, err, args, why)
		}
	}
	b.Observe(executed(c, "", time.Second, longlong(1), mysqlwire.BinaryValue{}))
	want(nil, longlong(1), mysqlwire.BinaryValue{})
	b.Observe(executed(c, "", time.Millisecond, longlong(2), longlong(3)))
	want(nil, longlong(1), mysqlwire.BinaryValue{})
	b.Observe(executed(c, "", 2*time.Second, longlong(4), longlong(5)))
	want(nil, longlong(4), longlong(5))
	later := executed(c, "", time.Millisecond, longlong(6), longlong(7))
	later.Start = noon.Add(recent)
	b.Observe(later)
	want(nil, longlong(6), longlong(7))
	slow := func(values ...mysqlwire.BinaryValue) {
		b.Observe(executed(c, "", of.duration()+time.Second, values...))
	}
	slow(longlong(1))
	want(errCollapsed)
	slow(longlong(1), mysqlwire.BinaryValue{Long: true})
	want(errNoValues)
	slow(longlong(1), mysqlwire.BinaryValue{Data: make([]byte, maxValues)})
	want(errNoValues)
	b.Observe(executed(c, "SELECT * FROM t WHERE a = 1 AND b = \"x\"", of.duration()+time.Second))
	if _, err := of.statement(sqldigest.ANSIQuotes); err != errMode { //nolint:errorlint // a sentinel
		t.Errorf("in another mode %v", err)
	}
	b.Observe(executed(c, strings.Repeat("x", maxText+1), of.duration()+time.Second))
	want(errLong)
	failed := executed(c, "SELECT 1", time.Hour)
	failed.ErrorNumber = 1
	b.Observe(failed)
	want(errLong)
	prepare := executed(c, text, 0)
	prepare.Command = mysqlwire.ComStmtPrepare
	b.Observe(prepare)
	slow(longlong(8), longlong(9))
	want(nil, longlong(8), longlong(9))
}

func (c *candidate) duration() time.Duration { return time.Duration(c.slowest.Load()) }

func TestPlaceholders(t *testing.T) {
	for text, want := range map[string]int{"SELECT ?": 1, "a = ? AND `b?` = ?": 2, "SELECT 1": 0, "a IN (...)": -1, "VALUES (?), ...": -1} {
		n, ok := placeholders(text)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%s: %d, want %d", text, n, want)
		}
	}
}

// TestReasonsHideTexts checks that a server's text about a statement is not exposed.
func TestReasonsHideTexts(t *testing.T) {
	for number := range uint16(4000) {
		why, _ := reason(&mysqlconn.ServerError{Number: mysqlwire.Errno(number), Message: "near 'secret'"})
		if why == nil || strings.Contains(why.Error(), "secret") {
			t.Fatalf("%d: %v", number, why)
		}
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add([]byte(`{"query_block": {"nested_loop": [{"table": {"table_name": "a", "access_type": "ref", "key": "k", "rows": 9}}]}}`))
	f.Add([]byte(`{"query_block": {"message": "no matching row in const table"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer alloctest.Bounded(t, 32<<20)()
		p, err := parsePlan(text, sqldigest.ServerMySQL)
		if err != nil {
			return
		}
		again, err := parsePlan(text, sqldigest.ServerMySQL)
		must(t, err)
		if p.ID != again.ID || len(p.Steps) == 0 || len(p.Steps) > maxSteps {
			t.Errorf("%+v, %+v", p, again)
		}
	})
}

func TestAllocs(t *testing.T) {
	b := newBench(t, "127.0.0.1:1", "")
	query, prepared := candidateOf("SELECT * FROM t WHERE a = 1", 0), candidateOf("SELECT * FROM t WHERE a = ? AND b = ?", 0)
	b.all = []Candidate{query, prepared}
	b.refresh(t.Context())
	other := executed(candidateOf("SELECT * FROM u", 0), "SELECT * FROM u", time.Second)
	text, execution := executed(query, "SELECT * FROM t WHERE a = 7", 1), executed(prepared, "", 1, longlong(1), longlong(2))
	kept := func(r *querylog.Record) func() error {
		return func() error {
			r.Total++ // slower than ever
			b.Observe(r)
			if c := (*b.candidates.Load())[r.Digest]; c.duration() != r.Total {
				return fmt.Errorf("not kept")
			}
			return nil
		}
	}
	alloctest.Run(t, []alloctest.Case{
		{Name: "Observe another statement", Op: func() error { b.Observe(other); return nil }},
		{Name: "Observe a query", Op: kept(text)},
		{Name: "Observe an execution", Op: kept(execution)},
	})
}
