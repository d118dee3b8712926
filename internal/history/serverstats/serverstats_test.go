package serverstats

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testmysql.Main(m)) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A bench is a Reader over a server, driven by the test.
type bench struct {
	*Reader
	now  time.Time
	mode sqldigest.Mode
	db   *sql.DB
}

func newBench(t *testing.T, s *testmysql.Server, user string) *bench {
	t.Helper()
	b := &bench{now: noon}
	r, err := New(Options{
		Login: func() mysqlconn.Config {
			return mysqlconn.Config{Addr: s.Addr, User: user, Password: testmysql.Password}
		},
		Now: func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	b.Reader = r
	t.Cleanup(r.client.Close)
	cfg := s.Config(testmysql.RootUser)
	cfg.DBName = testmysql.DefaultSchema
	b.db, err = sql.Open("mysql", cfg.FormatDSN())
	must(t, err)
	t.Cleanup(func() { must(t, b.db.Close()) })
	var version string
	must(t, b.db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version))
	b.mode = sqldigest.Mode(0).WithServer(sqldigest.ParseServer(version))
	return b
}

// read reads the counts a minute later.
func (b *bench) read(t *testing.T) {
	t.Helper()
	b.now = b.now.Add(time.Minute)
	b.readStatements(t.Context(), b.now)
}

// run executes a statement n times and reads its rows.
func (b *bench) run(t *testing.T, n int, text string, args ...any) {
	t.Helper()
	for range n {
		rows, err := b.db.QueryContext(t.Context(), text, args...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for rows.Next() {
		}
		must(t, errors.Join(rows.Err(), rows.Close()))
	}
	must(t, b.db.PingContext(t.Context())) // a server counts a statement after its response, at the latest before the next
}

func (b *bench) normalized(text string) string {
	var d sqldigest.Digester
	d.Digest([]byte(text), b.mode)
	return string(d.Text())
}

// onServers runs a test on MariaDB and MySQL with the performance schema.
func onServers(t *testing.T, test func(t *testing.T, s *testmysql.Server), args ...string) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			s := testmysql.StartOrSkip(t, append(opts, testmysql.WithPerformanceSchema(), testmysql.WithArgs(args...))...)
			createTables(t, s)
			test(t, s)
		})
	}
}

// createTables creates the tables of an application, without those of another test.
func createTables(t *testing.T, s *testmysql.Server) {
	t.Helper()
	must(t, s.Exec("DROP TABLE IF EXISTS orders, items",
		"CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, customer INT, status VARCHAR(10), created DATETIME, `na``me` INT, KEY k (customer, status))",
		"INSERT INTO orders (customer, status) SELECT n % 10, 'new' FROM (WITH RECURSIVE x AS (SELECT 1 n UNION ALL SELECT n + 1 FROM x WHERE n < 500) SELECT n FROM x) y",
		"CREATE TABLE items (id INT PRIMARY KEY, n INT)", "ANALYZE TABLE orders"))
}

// TestReader reads from servers that count.
func TestReader(t *testing.T) {
	onServers(t, func(t *testing.T, s *testmysql.Server) {
		for _, c := range []struct {
			name string
			test func(t *testing.T, s *testmysql.Server)
		}{{"statements", testJoined}, {"counts", testCounts}, {"premises", testPremises}, {"long statements", testWhole}, {"rights", testRights}, {"tables", testTables}} {
			t.Run(c.name, func(t *testing.T) {
				createTables(t, s)
				c.test(t, s)
			})
		}
	})
}

// statements are of the kinds that applications send.
var statements = []string{
	"SELECT * FROM orders WHERE customer = 7",
	"select o.id, o.`status` from orders as o where o.customer in (1, 2, 3) and o.status = 'new' order by o.created desc limit 10",
	"SELECT COUNT(*), max(id), CONCAT(status, 'x'), IFNULL(status, 'y') FROM orders WHERE id BETWEEN 3 AND 5 GROUP BY status HAVING COUNT(*) > 1",
	"INSERT INTO orders (customer, status) VALUES (1, 'a')",
	"INSERT INTO orders (customer, status) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
	"REPLACE INTO items (id) VALUES (1), (2)",
	"UPDATE orders SET status = 'old', created = NOW() WHERE id = 5 AND status <> 'x'",
	"DELETE FROM items WHERE id = -1 OR id IN (1) OR n IS NULL",
	"SELECT o.id FROM orders o LEFT JOIN items i ON i.id = o.id WHERE i.n IS NOT NULL AND (o.customer, o.id) IN ((1, 2), (3, 4))",
	"SELECT DISTINCT status FROM orders WHERE status LIKE 'n%' AND NOT EXISTS (SELECT 1 FROM items WHERE items.id = orders.id)",
	"SELECT 1, 2, 'x' FROM orders LIMIT 1",
	"SELECT CASE WHEN customer > 3 THEN 'a' ELSE 'b' END, CAST(id AS CHAR), DATE_ADD(created, INTERVAL 1 DAY) FROM orders WHERE `na``me` = 0 OR test.orders.id = 2 FOR UPDATE",
	"SELECT /* a comment */ id, @x FROM orders WHERE id=+1 && customer<=>2 || status REGEXP '^a'",
	"REPLACE INTO items SET id = 3, n = NULL",
	"SELECT date(created), count(distinct customer) c FROM orders GROUP BY 1 UNION ALL SELECT n, id FROM items WHERE n > 0x1F",
}

// testJoined runs statements of many kinds, as texts and prepared: each has the counts of its calls.
func testJoined(t *testing.T, s *testmysql.Server) {
	b := newBench(t, s, testmysql.RootUser)
	b.read(t)
	for i, text := range statements {
		if i == 0 {
			continue
		}
		b.run(t, 3, text)
	}
	b.run(t, 5, "SELECT * FROM orders WHERE customer = ?", 7) // prepared
	b.run(t, 4, "SELECT * FROM orders WHERE customer = 7")
	b.read(t)
	for i, text := range statements {
		want := uint64(3)
		if i == 0 {
			want = 4
			if b.client.Server().Kind == sqldigest.ServerMySQL { // MariaDB does not count executions of prepared ones
				want += 5
			}
		}
		got, status, ok := b.Statement(sqldigest.Digest{}, b.normalized(text))
		if !ok || len(got.Intervals) != 1 || got.Intervals[0].Counts.Calls != want {
			t.Errorf("%s: %+v, %+v", text, got, status)
		}
	}
	if b.client.Server().Kind == sqldigest.ServerMariaDB { // has no samples
		return
	}
	for _, text := range statements[1:] {
		var d sqldigest.Digester
		digest := d.Digest([]byte(text), sqldigest.Mode(0).WithServer(b.client.Server()))
		if got, _, ok := b.Statement(digest, ""); !ok || len(got.Intervals) != 1 || got.Intervals[0].Counts.Calls != 3 {
			t.Errorf("by its digest: %s: %+v", text, got)
		}
	}
	if got, _, ok := b.Statement(sqldigest.Digest{}, ""); ok {
		t.Errorf("without digest and text: %+v", got)
	}
}

// testCounts drops an index: rows examined per call rise, and the statistics of the table have no such index any more. Then
// the counters are reset.
func testCounts(t *testing.T, s *testmysql.Server) {
	b := newBench(t, s, testmysql.RootUser)
	text := "SELECT COUNT(*) FROM orders WHERE customer = 7"
	b.run(t, 3, text)
	b.read(t)
	if _, _, ok := b.Statement(sqldigest.Digest{}, b.normalized(text)); ok {
		t.Error("calls before the first reading have an interval")
	}
	b.run(t, 4, text)
	b.read(t)
	indexes := func() (names []string) {
		for _, i := range b.table(t, "test.orders").Indexes {
			names = append(names, i.Name+" "+strings.Join(i.Columns, ","))
		}
		return names
	}
	if got := indexes(); !slices.Equal(got, []string{"PRIMARY id", "k customer,status"}) {
		t.Errorf("indexes %q", got)
	}
	b.now = b.now.Add(tableAge)
	b.run(t, 1, "ALTER TABLE orders DROP INDEX k")
	b.run(t, 5, text)
	b.read(t)
	got, _, _ := b.Statement(sqldigest.Digest{}, b.normalized(text))
	if len(got.Intervals) != 2 {
		t.Fatalf("%+v", got)
	}
	before, after := got.Intervals[0], got.Intervals[1]
	if c := before.Counts; c.Calls != 4 || c.RowsExamined < 4*50 || c.RowsExamined > 4*51 || c.RowsSent != 4 || c.NoIndex != 0 || c.Time == 0 {
		t.Errorf("before: %+v", c)
	}
	if c := after.Counts; c.Calls != 5 || c.RowsExamined < 5*500 || c.NoIndex != 5 || !after.From.Equal(before.To) || !after.To.Equal(b.now) {
		t.Errorf("after: %+v", after)
	}
	if got := indexes(); !slices.Equal(got, []string{"PRIMARY id"}) {
		t.Errorf("indexes %q", got)
	}
	if table := b.table(t, "test.orders"); table.Rows < 400 || table.DataBytes == 0 || table.Engine != "InnoDB" {
		t.Errorf("%+v", table)
	}
	if !b.table(t, "test.missing").Missing {
		t.Error("a table that does not exist has statistics")
	}

	b.run(t, 1, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
	b.run(t, 2, text)
	b.read(t)
	got, _, _ = b.Statement(sqldigest.Digest{}, b.normalized(text))
	if len(got.Intervals) != 0 || !got.Reset.Equal(b.now) {
		t.Errorf("after the reset: %+v", got)
	}
	b.run(t, 6, text)
	b.read(t)
	if got, _, _ = b.Statement(sqldigest.Digest{}, b.normalized(text)); len(got.Intervals) != 1 || got.Intervals[0].Counts.Calls != 6 {
		t.Errorf("after the reset: %+v", got)
	}
}

// table reads the statistics of a table as Run does.
func (b *bench) table(t *testing.T, name string) Table {
	t.Helper()
	b.serve(t.Context(), tableRequest{names: []string{name}, done: make(chan struct{})})
	all, err := b.Tables(t.Context(), []string{name})
	must(t, err)
	return all[0]
}

// testPremises turns off what the counts depend on: each is reported while it is off.
func testPremises(t *testing.T, s *testmysql.Server) {
	b := newBench(t, s, testmysql.RootUser)
	status := func() Status {
		b.read(t)
		_, status, _ := b.Statement(sqldigest.Digest{}, "SELECT ?")
		return status
	}
	if got := status(); got.Problem != "" || !got.At.Equal(b.now) {
		t.Fatalf("%+v", got)
	}
	for _, c := range []struct{ off, on, want string }{
		{"UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'statements_digest'", "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'statements_digest'", "counts no digests"},
		{"UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'thread_instrumentation'", "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'thread_instrumentation'", "threads are not instrumented"},
		{"UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME LIKE 'statement/%'", "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME LIKE 'statement/%'", "no statement is instrumented"},
		{"UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME = 'statement/sql/update'", "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'statement/sql/update'", "Some types"},
		{"INSERT INTO performance_schema.setup_actors (HOST, USER, ROLE, ENABLED, HISTORY) VALUES ('%', 'app', '%', 'NO', 'NO')", "DELETE FROM performance_schema.setup_actors WHERE USER = 'app'", "some accounts only"},
	} {
		must(t, s.Exec(c.off))
		got := status()
		if !strings.Contains(got.Problem+strings.Join(got.Notes, " "), c.want) {
			t.Errorf("%s: %+v", c.off, got)
		}
		must(t, s.Exec(c.on))
		if got := status(); got.Problem != "" || strings.Contains(strings.Join(got.Notes, " "), c.want) {
			t.Errorf("%s: %+v", c.on, got)
		}
	}
	b.resume = b.now.Add(time.Hour)
	if at := b.status.At; !status().At.Equal(at) {
		t.Error("read although the server has failed just now")
	}
}

// TestWithoutSchema reads from a server without a performance schema.
func TestWithoutSchema(t *testing.T) {
	testmysql.SkipIfOff(t)
	off := newBench(t, testmysql.Start(t), testmysql.RootUser)
	off.read(t)
	if _, got, _ := off.Statement(sqldigest.Digest{}, "SELECT ?"); !strings.Contains(got.Problem, "performance_schema = ON") {
		t.Errorf("without a performance schema: %+v", got)
	}
}

// testWhole runs two statements of an ORM that differ after their columns on a server that keeps whole normalized texts: it has the counts of each.
func testWhole(t *testing.T, s *testmysql.Server) { testLongStatements(t, s, true) }

// TestTruncated runs them on one with the default lengths, which counts both together: neither is joined.
func TestTruncated(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithPerformanceSchema(), testmysql.WithArgs("--performance-schema-max-digest-length=1024", "--max-digest-length=1024"))
	must(t, s.Exec("CREATE TABLE orders (id INT PRIMARY KEY, customer INT, status VARCHAR(10))"))
	testLongStatements(t, s, false)
}

func testLongStatements(t *testing.T, s *testmysql.Server, whole bool) {
	var columns []string
	for n := range 60 {
		columns = append(columns, fmt.Sprintf("orders.customer AS orders_customer_%02d", n))
	}
	all := "SELECT " + strings.Join(columns, ", ") + " FROM orders WHERE orders."
	long := []string{all + "id = 3", all + "status = 'new' ORDER BY id LIMIT 1"}
	b := newBench(t, s, testmysql.RootUser)
	b.read(t)
	b.run(t, 3, long[0])
	b.run(t, 5, long[1])
	b.read(t)
	for i, text := range long {
		found, got, ok := b.Statement(sqldigest.Digest{}, b.normalized(text))
		if ok != whole || whole && found.Intervals[0].Counts.Calls != uint64(3+2*i) || !whole && !strings.Contains(strings.Join(got.Notes, " "), "truncated") {
			t.Errorf("statement %d: %t, %+v, %+v", i, ok, found, got)
		}
	}
}

// TestFullTable has room for few digests at the server, and texts of few bytes: both are reported.
func TestFullTable(t *testing.T) {
	onServers(t, func(t *testing.T, s *testmysql.Server) {
		b := newBench(t, s, testmysql.RootUser)
		b.run(t, 1, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
		b.read(t)
		long := "SELECT id FROM orders WHERE " + strings.Repeat("id = 1 OR ", 90) + "id = 2"
		b.run(t, 2, long)
		b.read(t)
		if _, got, ok := b.Statement(sqldigest.Digest{}, b.normalized(long)); ok || !strings.Contains(strings.Join(got.Notes, " "), "missing or truncated") {
			t.Errorf("truncated: %+v", got)
		}
		for n := range 70 {
			b.run(t, 1, "SELECT id AS x"+strings.Repeat("x", n)+" FROM orders WHERE id = 1")
		}
		b.read(t)
		b.run(t, 7, "SELECT id AS z FROM orders WHERE id = 1")
		b.read(t)
		if _, got, ok := b.Statement(sqldigest.Digest{}, "SELECT `id` AS `z` FROM `orders` WHERE `id` = ?"); ok || !strings.Contains(strings.Join(got.Notes, " "), "table of digests is full") {
			t.Errorf("full: %t, %+v", ok, got)
		}
	}, "--performance-schema-digests-size=60", "--performance-schema-max-digest-length=400", "--max-digest-length=400")
}

// testRights reads with an account that may not: the reason has no text of the server.
func testRights(t *testing.T, s *testmysql.Server) {
	must(t, s.Exec("CREATE USER poor@'%' IDENTIFIED BY '"+testmysql.Password+"'"))
	b := newBench(t, s, "poor")
	b.read(t)
	if _, got, _ := b.Statement(sqldigest.Digest{}, "SELECT ?"); !strings.Contains(got.Problem, "lacks a right") {
		t.Errorf("%+v", got)
	}
	if !b.resume.After(b.now) {
		t.Error("no pause after the failure")
	}
}

// testTables requests statistics while Run reads them, and more of them than may wait.
func testTables(t *testing.T, s *testmysql.Server) {
	r, err := New(Options{
		Login: func() mysqlconn.Config {
			return mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password}
		},
		Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxRequests { // Run does not read yet
		if _, err := r.Tables(late, []string{"test.orders"}); err == nil || errors.Is(err, errBusy) {
			t.Error(err)
		}
	}
	if _, err := r.Tables(late, []string{"test.orders"}); !errors.Is(err, errBusy) {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	testwait.Until(t, "the statistics", func() bool {
		all, err := r.Tables(t.Context(), []string{"test.orders", "test.items"})
		return err == nil && len(all) == 2 && len(all[0].Indexes) == 2
	})
	if r.HeapBytes() == 0 {
		t.Error("no bytes are charged")
	}
	stop()
	testwait.Group(t, "the end of Run", &running)
}

// TestBounds reads more rows than are kept.
func TestBounds(t *testing.T) {
	d := newDigests()
	read := func(at time.Time, from, n int, calls uint64) {
		r := &reading{at: at, server: at, addr: "a"}
		for i := range n {
			r.rows = append(r.rows, readRow{rowID{"s", strconv.Itoa(from + i)}, at, Counts{Calls: calls, Time: uint64(i)}})
		}
		unknown, _ := d.update(r)
		found := make(texts)
		for _, digest := range unknown {
			found[digest] = struct{ sample, normalized string }{"", "SELECT `" + digest + "`"}
		}
		d.resolve(found, 0, limits{digest: 1024})
		d.join()
	}
	for i := range 10 {
		read(noon.Add(time.Duration(i)*time.Minute), 1000*i, 1000, 1)
	}
	if len(d.rows) != keptRows || len(d.statements) != maxStatements {
		t.Errorf("%d rows, %d statements", len(d.rows), len(d.statements))
	}
	for i := range 2 * maxIntervals {
		read(noon.Add(time.Hour+time.Duration(i)*time.Minute), 9999, 1, uint64(i)+2)
	}
	s := d.statements[keyOf("SELECT `9999`")]
	if s == nil || len(s.Intervals) != maxIntervals || s.last().Counts.Calls != 1 {
		t.Errorf("%+v", s)
	}
	r := &reading{at: noon.Add(3 * time.Hour), addr: "b"} // after a switch
	if d.update(r); len(d.rows) != 0 || len(d.statements) != 0 {
		t.Error("counts of another server are compared")
	}
}

func TestKeys(t *testing.T) {
	var d sqldigest.Digester
	bounds := limits{digest: 300, sample: 50}
	for _, c := range []struct {
		name               string
		sample, normalized string
		want               string // normalized text of the statement
		called, joined     bool
	}{
		{"a sample", "SELECT 1", "SELECT ?", "SELECT ?", true, true},
		{"a sample of the bound's length", strings.Repeat("x", 47), "SELECT ?", "SELECT ?", true, true},
		{"a sample of a truncated text", "SELECT 1", "SELECT `" + strings.Repeat("a", 95) + "`", "", true, false},
		{"a sample of one that may be whole", "SELECT 1", "SELECT `" + strings.Repeat("a", 94) + "`", "SELECT ?", true, true},
		{"nothing", "", "", "", true, false},
		{"a truncated text", "", "SELECT ?" + strings.Repeat(" + ?", 25), "", true, false},
		{"a list at the end", "", "SELECT ?, ...", "SELECT ?, ...", true, true},
		{"the protocol's EXECUTE", "SELECT ?", "EXECUTE SELECT ?", "SELECT ?", true, true},
		{"the same without a sample", "", "EXECUTE SELECT ?", "SELECT ?", true, true},
		{"the protocol's PREPARE", "SELECT ?", "PREPARE SELECT ?", "", false, false},
		{"EXECUTE in SQL", "EXECUTE a USING @b", "EXECUTE `a` USING @?", "EXECUTE `a` USING @`b`", true, true},
		{"a name with a list in it", "", "SELECT `a (...)` FROM `b`", "SELECT `a (...)` FROM `b`", true, true},
	} {
		k, _, called, joined := keyOfRow(&d, 0, c.sample, c.normalized, bounds)
		if called != c.called || joined != c.joined || joined && k != keyOf(c.want) {
			t.Errorf("%s: %x, %t, %t", c.name, k, called, joined)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, text := range statements {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d sqldigest.Digester
		d.Digest([]byte(text), 0)
		normalized := string(d.Text())
		if folded := fold(normalized); len(folded) > 2*len(normalized)+8 {
			t.Errorf("%q became %q", normalized, folded)
		}
		if _, _, called, joined := keyOfRow(&d, 0, "", text, limits{digest: 1024}); joined && (!called || len(text) > 8*1024) {
			t.Errorf("%q is joined", text)
		}
	})
}
