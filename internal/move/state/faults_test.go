package state

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

var allFaults = flag.Bool("all-faults", false, "TestFaults has all faults at each packet, otherwise some at each statement")

// faults are a server with a source src, a target dst and a state, and the proxy of the target.
type faults struct {
	t               *testing.T
	server          *testmysql.Server
	proxy           *testproxy.Faulty
	direct, through mysqlconn.Config
	holder          *mysqlconn.Client // has the lease of st
	source          *binlog.Direct

	st      State
	a       *tabledef.Table // of one source; one chunk is copied, another one is cut
	merged  *tabledef.Table // of the first of two sources
	lookup  *tabledef.Spec
	next    rowstream.Chunk // of a, after those that are cut
	retries int             // events of writers
	note    int             // characters of the last column of the rows that copyChunk writes
}

// An operation is a use of the package whose packets to the target have faults.
type operation struct {
	name   string   // of the functions, separated by spaces
	before []string // statements before it

	// One of the two is set. The first has a connection to the target, and returns an error for each fault; the second has a writer, which
	// recovers from all but a refusal. Their results are equal to those without a fault.
	call  func(ctx context.Context, c *mysqlconn.Client) (any, error)
	write func(ctx context.Context, w *Writer) (any, error)

	want     any    // the result; nil: that without a fault
	once     bool   // not to be repeated after an error
	partly   bool   // a part of it may have been done after an error
	tolerant string // why it may succeed in spite of a fault
}

func newFaults(t *testing.T) *faults {
	f := &faults{t: t, server: testmysql.Start(t)}
	f.exec("CREATE DATABASE src", "CREATE DATABASE dst",
		"CREATE TABLE src.a (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, note LONGTEXT) AUTO_INCREMENT = 500", "CREATE TABLE dst.a (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, note LONGTEXT)",
		"CREATE TABLE src.m (id INT PRIMARY KEY, n INT NOT NULL, UNIQUE KEY n (n))", "CREATE TABLE dst.m (id INT PRIMARY KEY, n INT NOT NULL, UNIQUE KEY n (n))",
		"CREATE TABLE src.l (v INT PRIMARY KEY, shard INT NOT NULL)", "INSERT INTO src.l VALUES (1, 0), (2, 0)",
		"CREATE TABLE dst.b (id INT PRIMARY KEY)", "CREATE TABLE dst.c (id INT PRIMARY KEY)")
	f.proxy = testproxy.StartFaulty(t, f.server.Addr)
	f.direct = mysqlconn.Config{Addr: f.server.Addr, User: testmysql.RootUser, Password: testmysql.Password, TLSMode: mysqlconn.TLSDisabled}
	f.through = f.direct
	f.through.Addr = f.proxy.Addr
	f.holder, f.source = testrows.Connect(t, f.direct), testrows.Direct(t, f.direct)
	f.a = f.describe(&tabledef.Spec{Schema: "src", Name: "a", ToSchema: "dst", ToName: "a"})
	parts := [][]tabledef.Spec{{{Schema: "src", Name: "m", ToSchema: "dst", ToName: "m"}}, {{Schema: "src", Name: "m", ToSchema: "dst", ToName: "m"}}}
	f.must(tabledef.AddMerge(parts, []string{"one:1", "two:2"}, "src.m: range(id, 1000)"))
	f.merged = f.describe(&parts[0][0])
	f.lookup = &tabledef.Spec{Schema: "src", Name: "a", ToSchema: "dst", ToName: "a", Lookup: &tabledef.Lookup{Column: "n", Schema: "src", Table: "l", Count: 1}}
	f.must(f.lookup.Lookup.Load(t.Context(), f.holder))

	f.st = State{Schema: "_tare"}
	ctx, c := t.Context(), f.holder
	f.must(f.st.Create(ctx, c))
	f.must(f.st.CreateFollow(ctx, c))
	f.must(f.st.CreateCutover(ctx, c))
	var err error
	f.st.Lease, err = AcquireLease(ctx, c, f.st, []*tabledef.Spec{f.a.Spec, f.merged.Spec}, time.Second)
	f.must(err)
	keys := []tabledef.ForeignKey{{Name: "fk", Definition: "CONSTRAINT fk", Referred: "dst.b"}}
	f.must(f.st.Begin(ctx, c, f.a.Spec, "all", "source", position(4).String(), []tabledef.Index{"KEY n (n)", "KEY m (n, id)"}, keys))
	f.must(f.st.Begin(ctx, c, f.merged.Spec, "some", "source", position(4).String(), nil, nil))
	f.must(f.st.Cut(ctx, c, f.merged.Spec, rowstream.Chunk{}))
	first := rowstream.Chunk{Upto: testrows.Row("10")}
	second := rowstream.Chunk{Number: 1, After: first.Upto, Upto: testrows.Row("20")}
	f.next = rowstream.Chunk{Number: 2, After: second.Upto}
	f.must(f.st.Cut(ctx, c, f.a.Spec, first))
	f.must(f.st.Cut(ctx, c, f.a.Spec, second))
	w := f.writer(f.direct)
	defer w.Close()
	f.must(f.copyChunk(ctx, w, f.a, first, 1, 5, 9))
	f.must(f.st.Define(ctx, c, f.a.Spec, tabledef.Definition{Table: f.a.Source, Layout: []int{0, 1}, Upto: position(5)}))
	f.must(f.st.Verified(ctx, c, f.a.Spec, first))
	f.must(f.following().Record(ctx, c, position(6)))
	return f
}

func position(n int) binlog.Position { return binlog.Position{File: "log.000001", Offset: uint64(n)} }

func (f *faults) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *faults) exec(statements ...string) {
	f.t.Helper()
	f.must(f.server.Exec(statements...))
}

func (f *faults) describe(spec *tabledef.Spec) *tabledef.Table {
	f.t.Helper()
	table, err := tabledef.Describe(f.t.Context(), f.source, f.holder, tabledef.DescribeOptions{Follow: true}, spec)
	f.must(err)
	return table
}

func (f *faults) following() *Following { return f.st.Followed("source", []tabledef.Spec{*f.a.Spec}) }

func (f *faults) writer(cfg mysqlconn.Config) *Writer {
	return &Writer{Cfg: cfg, State: f.st, Patience: time.Minute, Follows: true, Observe: func(e telemetry.Event) {
		if e.Kind == telemetry.EventRetry {
			f.retries++
		}
	}}
}

// copyChunk copies rows as a worker does.
func (f *faults) copyChunk(ctx context.Context, w *Writer, t *tabledef.Table, k rowstream.Chunk, ids ...int) error {
	for try, done := 1, false; !done; try++ {
		err := f.tryChunk(ctx, w, t, k, ids)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrDuplicate) && !w.Careful {
			w.Careful = true
			w.Close()
			continue
		}
		if done, err = w.Recover(ctx, &t.Target, k, err, try); err != nil {
			return err
		}
	}
	return nil
}

// tryChunk writes each row as a batch, and settles after the first.
func (f *faults) tryChunk(ctx context.Context, w *Writer, t *tabledef.Table, k rowstream.Chunk, ids []int) error {
	c, err := w.Begin(ctx, &t.Target)
	if err != nil {
		return err
	}
	defer c.Abort()
	for i, id := range ids {
		row := []any{fmt.Sprint(id), fmt.Sprint(10 * id), strings.Repeat("n", f.note)}
		if err := c.Write(ctx, testrows.BatchOf(testrows.Row(row[:len(t.Target.Columns)]...))); err != nil {
			return err
		}
		if i == 0 {
			if err := c.Settle(ctx); err != nil {
				return err
			}
		}
	}
	if err := c.Settle(ctx); err != nil {
		return err
	}
	if int(c.Rows) != len(ids) {
		return fmt.Errorf("BUG: %d rows were written, %d counted", len(ids), c.Rows)
	}
	return c.Commit(ctx, k)
}

// content returns the rows of the target and of the state as the values of an INSERT, by table.
func (f *faults) content() map[string][]string {
	f.t.Helper()
	all := make(map[string][]string)
	for _, table := range testrows.Column(f.t, f.holder, "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('_tare', 'dst', '_other')") {
		all[table] = []string{}
		_, err := f.holder.Query(f.t.Context(), "SELECT * FROM "+table, func(row mysqlwire.TextRow) error {
			values := make([]string, len(row))
			for i, v := range row {
				if values[i] = "x'" + hex.EncodeToString(v) + "'"; v == nil {
					values[i] = "NULL"
				}
			}
			all[table] = append(all[table], strings.Join(values, ", "))
			return nil
		})
		f.must(err)
		slices.Sort(all[table])
	}
	return all
}

// compared replaces points in time and epochs of other leases by constants.
func (f *faults) compared(content map[string][]string) map[string][]string {
	all := make(map[string][]string)
	for table, rows := range content {
		all[table] = []string{}
		for _, row := range rows {
			values := strings.Split(row, ", ")
			for i, v := range values {
				b, _ := hex.DecodeString(strings.Trim(v, "x'"))
				text := string(b)
				if _, err := time.Parse(time.DateTime, text); err == nil { // with a fraction too
					text = "a time"
				} else if strings.HasSuffix(table, "copy_epoch") && len(text) == len(f.st.Lease.epoch) && text != f.st.Lease.epoch {
					text = "an epoch"
				}
				if v != "NULL" {
					values[i] = fmt.Sprintf("%q", text)
				}
			}
			all[table] = append(all[table], strings.Join(values, ", "))
		}
	}
	return all
}

// restore restores the rows of the target and of the state.
func (f *faults) restore(content map[string][]string) {
	f.t.Helper()
	now := f.content()
	var statements []string
	for table, rows := range content {
		if _, ok := now[table]; ok && slices.Equal(rows, now[table]) {
			continue
		}
		statements = append(statements, "DELETE FROM "+table)
		if len(rows) > 0 {
			statements = append(statements, "INSERT INTO "+table+" VALUES ("+strings.Join(rows, "), (")+")")
		}
	}
	for table := range now {
		if _, ok := content[table]; !ok {
			statements = append(statements, "DROP TABLE "+table)
		}
	}
	testrows.Exec(f.t, f.holder, statements...)
}

// run executes an operation without a fault, over its own connection.
func (f *faults) run(o *operation, cfg mysqlconn.Config) (any, error) {
	if o.write != nil {
		w := f.writer(cfg)
		defer w.Close()
		return o.write(f.t.Context(), w)
	}
	c := f.connect(cfg)
	defer CloseLease(c)
	return o.call(f.t.Context(), c)
}

// connect opens a connection that the caller closes.
func (f *faults) connect(cfg mysqlconn.Config) *mysqlconn.Client {
	f.t.Helper()
	c, err := session.Connect(f.t.Context(), cfg)
	f.must(err)
	return c
}

// test has faults at the packets of an operation.
func (f *faults) test(o *operation, rnd *rand.Rand, statements map[string]bool, seen map[string]int) {
	t := f.t
	start := f.content()
	f.exec(o.before...)
	before := f.content()
	defer func() { f.restore(start) }()
	want, err := f.run(o, f.direct)
	if err != nil {
		t.Fatalf("%s without a fault: %v", o.name, err)
	}
	if o.want != nil && !reflect.DeepEqual(want, o.want) {
		t.Errorf("%s: %+v, want %+v", o.name, want, o.want)
	}
	unchanged, after := f.compared(before), f.compared(f.content())
	var c *mysqlconn.Client
	var w *Writer
	var got any
	closeLast := func() {
		if c != nil {
			CloseLease(c)
		}
		c = nil
	}
	defer closeLast()
	prepare := func() {
		closeLast()
		f.restore(before)
		f.exec(o.before...)
		if o.write != nil {
			w = f.writer(f.through)
		} else {
			c = f.connect(f.through)
		}
	}
	do := func() (err error) {
		f.retries = 0
		if w != nil {
			defer w.Close()
			got, err = o.write(t.Context(), w)
		} else {
			got, err = o.call(t.Context(), c)
		}
		return err
	}
	prepare()
	f.proxy.Set(0, "")
	f.must(do())
	cells := testproxy.AllFaults(f.proxy.Packets(), 1)
	if !*allFaults {
		cells = testproxy.SomeFaults(rnd, f.proxy.Packets(), statements)
	}
	if testing.Short() { // TestStatementsFail and TestReadsFail refuse each statement
		cells = slices.DeleteFunc(cells, func(c testproxy.Cell) bool { return c.Fault == testproxy.Refused })
	}
	f.proxy.Each(cells, prepare, do, func(cell testproxy.Cell, err error) {
		place := o.name + ", " + cell.String()
		if c != nil {
			if in, err := session.QueryValue(t.Context(), c, "SELECT @@in_transaction"); err == nil && in != "0" {
				t.Errorf("%s: a transaction is left open", place)
			}
			closeLast()
		}
		now := f.compared(f.content())
		switch {
		case err == nil:
			seen[string(cell.Fault)+": done"]++
			fewer := strings.Contains(cell.Sent, "max_error_count") // which not all accounts may set: see Writer.prepare
			if !reflect.DeepEqual(got, want) && !fewer && o.tolerant == "" {
				t.Errorf("%s: it returned %v, without a fault %v", place, got, want)
			}
			if !reflect.DeepEqual(now, after) {
				t.Errorf("%s: it succeeded with %s", place, differences(after, now))
			}
			lost := cell.Fault != testproxy.Delayed && cell.Fault != testproxy.Deadlock
			if w != nil && lost && cell.Fault != testproxy.Refused && f.retries == 0 {
				t.Errorf("%s: no event reports that it was repeated", place)
			}
			tolerated := o.tolerant != "" || fewer || strings.HasPrefix(cell.Sent, "SELECT VERSION(), ") // with a SET of a variable that MariaDB does not have, and which is repeated
			if !tolerated && lost && (w == nil || cell.Fault == testproxy.Refused) {
				t.Errorf("%s: it returned no error", place)
			}
			return
		case cell.Fault == testproxy.Delayed || w != nil && cell.Fault != testproxy.Refused:
			t.Errorf("%s: %v", place, err)
		case cell.Fault == testproxy.Refused && !strings.Contains(err.Error(), testproxy.RefusedText),
			cell.Fault == testproxy.Deadlock && !strings.Contains(err.Error(), "the proxy reports a deadlock"),
			cell.Fault != testproxy.Refused && cell.Fault != testproxy.Deadlock && !IsUnreachable(err):
			t.Errorf("%s: it failed without the cause: %v", place, err)
		}
		seen[string(cell.Fault)+": failed"]++
		if !o.partly && !reflect.DeepEqual(now, unchanged) && !reflect.DeepEqual(now, after) {
			t.Errorf("%s: it failed, and left %s", place, differences(unchanged, now))
		}
		if !o.once {
			if got, err := f.run(o, f.direct); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, repeated: %v, %v, want %v", place, got, err, want)
			}
			if now := f.compared(f.content()); !reflect.DeepEqual(now, after) {
				t.Errorf("%s, repeated: %s", place, differences(after, now))
			}
		}
	})
}

// differences returns the tables in which two contents differ.
func differences(want, got map[string][]string) string {
	var texts []string
	for table := range maps.Keys(want) {
		if !slices.Equal(want[table], got[table]) {
			texts = append(texts, fmt.Sprintf("%s %q instead of %q", table, got[table], want[table]))
		}
	}
	for table := range got {
		if _, ok := want[table]; !ok {
			texts = append(texts, "another table "+table)
		}
	}
	return strings.Join(texts, "; ")
}

// operationsOf returns the exported functions of the package that may wait for a server.
func operationsOf(t *testing.T) (names []string) {
	t.Helper()
	files, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0) //nolint:staticcheck // without build tags, every file is meant
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range files["state"].Files {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() || strings.HasSuffix(name, "_test.go") || len(fn.Type.Params.List) == 0 {
				continue
			}
			if first, ok := fn.Type.Params.List[0].Type.(*ast.SelectorExpr); !ok || first.Sel.Name != "Context" {
				continue
			}
			full := fn.Name.Name
			if fn.Recv != nil {
				of := fn.Recv.List[0].Type
				if pointer, ok := of.(*ast.StarExpr); ok {
					of = pointer.X
				}
				full = of.(*ast.Ident).Name + "." + full
			}
			names = append(names, full)
		}
	}
	return names
}

// TestFaults has a fault of each kind at each packet that a function sends to the target, in turn: it returns an error with the cause, and has
// changed nothing or everything; or its result and the rows are those without a fault. Repeated, it yields the latter. Each exported function
// that has a context is an operation.
func TestFaults(t *testing.T) {
	f := newFaults(t)
	operations := f.operations()
	known := make(map[string]bool)
	for i := range operations {
		for name := range strings.FieldsSeq(operations[i].name) {
			known[name] = true
		}
	}
	for _, name := range operationsOf(t) {
		if !known[name] {
			t.Errorf("%s has no faults", name)
		}
	}
	rnd, statements := testseed.Rand(t), make(map[string]bool)
	seen := make(map[string]int)
	for i := range operations {
		f.test(&operations[i], rnd, statements, seen)
	}
	t.Log(seen)
	outcomes := []string{"refused: failed"}
	if testing.Short() {
		outcomes = nil
	}
	if *allFaults {
		outcomes = append(outcomes, "a deadlock: done", "a deadlock: failed", "lost after it ran: done", "lost before it ran: failed", "delayed: done")
	}
	for _, s := range outcomes {
		if seen[s] == 0 {
			t.Errorf("no fault was %s", s)
		}
	}
}

// TestReadsFail has the server fail to execute each statement of operations that change nothing: they return the error.
func TestReadsFail(t *testing.T) {
	f := newFaults(t)
	before, n := f.content(), 0
	operations := f.operations()
	for i := range operations {
		o := &operations[i]
		if o.call == nil || len(o.before) > 0 || o.tolerant != "" {
			continue
		}
		if _, err := f.run(o, f.direct); err != nil || !reflect.DeepEqual(f.compared(f.content()), f.compared(before)) {
			f.restore(before)
			continue
		}
		n++
		t.Run(o.name, func(t *testing.T) {
			c := f.connect(f.through)
			defer CloseLease(c)
			f.proxy.EachFails(t, func() error {
				_, err := o.call(t.Context(), c)
				return err
			}, "ROLLBACK")
		})
		f.restore(before)
	}
	if n < 14 {
		t.Errorf("%d operations change nothing", n)
	}
}

// TestDamaged has records that a run must not continue from, and a lease that is lost: each is refused, and nothing is changed.
func TestDamaged(t *testing.T) {
	f := newFaults(t)
	ctx, c, a := t.Context(), f.holder, f.a.Spec
	load := func() error {
		_, err := f.st.Load(ctx, c, a, 1)
		return err
	}
	position := func() error {
		_, err := f.following().Position(ctx, c)
		return err
	}
	first := rowstream.Chunk{Upto: testrows.Row("10")}
	for _, tt := range []struct {
		sql  string
		do   func() error
		want string
		is   error
	}{
		{"DELETE FROM _tare.copy_chunk WHERE chunk = 0 AND target_table = 'a'", load, "chunk 0 is missing", ErrState},
		{"UPDATE _tare.copy_chunk SET after_key = NULL WHERE chunk = 1", load, "chunk 1 does not start where the one before it ends", ErrState},
		{"UPDATE _tare.copy_chunk SET after_key = upto_key WHERE chunk = 1", load, "chunk 1 does not start where", ErrState},
		{"UPDATE _tare.copy_chunk SET after_key = upto_key WHERE chunk = 0", load, "chunk 0 does not start where", ErrState},
		{"UPDATE _tare.copy_table SET phase = 'finished'", load, "chunk 1 is not copied", ErrState},
		{"UPDATE _tare.copy_table t JOIN _tare.copy_chunk k SET t.phase = 'finished', k.copied = 1", load, "2 chunks do not reach the end of the table", ErrState},
		{"UPDATE _tare.copy_table SET version = 99", load, "another version of Tare (form 99", nil},
		{"UPDATE _tare.copy_table SET phase = 'emptying'", load, "option restart was stopped", nil},
		{"UPDATE _tare.copy_chunk SET after_key = 'x' WHERE chunk = 1", load, "chunk 1: ", nil},
		{"UPDATE _tare.copy_follow SET version = 99", position, "another version of Tare (form 99", nil},
		{"UPDATE _tare.copy_follow SET position = 'x'", position, "how far the copy has followed", nil},
		{"UPDATE _tare.copy_chunk SET copied = 1", func() error { return f.st.SetPhase(ctx, c, a, tabledef.Finished, 1) }, "do not reach the end", ErrState},
		{"UPDATE _tare.copy_chunk SET upto_key = NULL", func() error {
			return f.st.Cut(ctx, c, a, rowstream.Chunk{Number: 1, After: first.Upto, Upto: testrows.Row("20")})
		}, "chunk 1 is recorded with other bounds", ErrState},
		{"DO 0", func() error { return f.st.Cut(ctx, c, a, first) }, "or as copied", ErrState},
		{"UPDATE _tare.copy_epoch SET epoch = 'another run'", func() error { return f.st.Verified(ctx, c, a, first) }, "", ErrLeaseLost},
		{"DELETE FROM _tare.copy_epoch", func() error { return f.following().Record(ctx, c, binlog.Position{}) }, "", ErrLeaseLost},
		{"UPDATE _tare.copy_epoch SET epoch = ''", func() error {
			w := f.writer(f.direct)
			defer w.Close()
			return f.copyChunk(ctx, w, f.a, rowstream.Chunk{Number: 1, After: first.Upto, Upto: testrows.Row("20")}, 12)
		}, "", ErrLeaseLost},
	} {
		start := f.content()
		f.exec(tt.sql)
		before := f.content()
		if err := tt.do(); err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v, want %q", tt.sql, err, tt.want)
		}
		if now := f.content(); !reflect.DeepEqual(now, before) {
			t.Errorf("%s: it changed %s", tt.sql, differences(before, now))
		}
		f.restore(start)
	}
	other := *f.st.Lease
	other.session = "0"
	if err := other.Confirm(ctx, c); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("a lease whose session is gone: %v", err)
	}
	another := f.connect(f.direct)
	defer another.Close()
	if _, err := AcquireLease(ctx, another, f.st, []*tabledef.Spec{a}, time.Second); !errors.Is(err, ErrLocked) {
		t.Errorf("a lease that another session has: %v", err)
	}
}
