package wire_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/testgrpc"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/vtcodec"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// shortTable creates a table with two key columns, one of which is BIT, and 12,000 rows, more than a
// connection's window.
func shortTable(t *testing.T, cfg mysqlconn.Config) *mysqlconn.Client {
	t.Helper()
	cfg.User = testmysql.RootUser // it sees all transactions
	c := testrows.Connect(t, cfg)
	testrows.Exec(t, c, "DROP DATABASE IF EXISTS short", "CREATE DATABASE short", "USE short",
		"CREATE TABLE t (a BIT(10) NOT NULL, b VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, v INT, pad VARCHAR(300), PRIMARY KEY (a, b))")
	rnd := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < 12000; from += 1000 {
		rows := make([]string, 1000)
		for i := range rows {
			pad := make([]byte, 150) // incompressible
			for j := range pad {
				pad[j] = byte(rnd.Uint32())
			}
			rows[i] = fmt.Sprintf("(%d, 'k%d', 0, '%x')", (from+i)/12, from+i, pad)
		}
		testrows.Exec(t, c, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	}
	return c
}

// eachProduct runs a test on MariaDB, and on MySQL if it is installed, in each way to read from them.
func eachProduct(t *testing.T, test func(t *testing.T, cfg mysqlconn.Config, s rowstream.Server)) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			cfg := testrows.App(testmysql.StartOrSkip(t, opts...))
			eachServer(t, cfg, func(t *testing.T, s rowstream.Server) { test(t, cfg, s) })
		})
	}
}

// shortReader returns a reader through views of an age. patience is how long views may make no progress: on a
// busy machine consecutive views may expire before their first row.
func shortReader(t *testing.T, s rowstream.Server, age, patience time.Duration) *rowstream.ShortReader {
	t.Helper()
	first, err := s.Snapshot(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	identity := first.Identity()
	if err := first.Close(); err != nil || identity == "" {
		t.Fatalf("the server's identity is %q, %v", identity, err)
	}
	r := rowstream.NewShortReader(rowstream.ShortOptions{Server: s, Identity: identity, MaxAge: age, Patience: patience})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestShortReader reads a chunk with a pause until the view has expired: the server has no transaction then,
// earlier rows are those of the first view and later rows those of the next, and none is missing or
// duplicated.
func TestShortReader(t *testing.T) {
	eachProduct(t, func(t *testing.T, cfg mysqlconn.Config, s rowstream.Server) {
		c := shortTable(t, cfg)
		table, err := s.Describe(t.Context(), "short", "t")
		if err != nil {
			t.Fatal(err)
		}
		r := shortReader(t, s, time.Second, testwait.Limit)
		var got []string
		batches, pauses := 0, 0
		plan := &rowstream.Plan{Output: []rowstream.Output{{Column: 1, From: rowstream.ColumnValue}, {Column: 2, From: rowstream.ColumnValue}, {Column: 3, From: rowstream.ColumnValue}, {Column: 0, From: rowstream.ColumnValue}}}
		for b, err := range r.Read(t.Context(), table, rowstream.Chunk{}, rowstream.ReadOptions{Plan: plan, BatchBytes: 16 << 10}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range testrows.RowsOf(t, b) {
				got = append(got, fmt.Sprintf("%s %s", row[0], row[1]))
			}
			if batches++; batches%20 == 0 && pauses < 3 {
				pauses++
				testrows.AwaitNoTransaction(t, c)
				testrows.Exec(t, c, fmt.Sprintf("UPDATE t SET v = %d", pauses))
			}
		}
		if pauses != 3 {
			t.Errorf("it was paused %d times", pauses)
		}
		keys, versions := make(map[string]bool), make(map[string]bool)
		last := ""
		for _, row := range got {
			key, version, _ := strings.Cut(row, " ")
			if keys[key] || version < last {
				t.Fatalf("row %s comes twice, or is older than the one before (%s)", row, last)
			}
			keys[key], versions[version], last = true, true, version
		}
		if len(keys) != 12000 || len(versions) < 2 {
			t.Errorf("%d keys in %d versions, want 12000 in more than one", len(keys), len(versions))
		}
	})
}

// TestShortViewBound has a view expire while nothing is read, and while the server executes a statement: it
// has no transaction afterwards, and the table can be altered.
func TestShortViewBound(t *testing.T) {
	eachProduct(t, func(t *testing.T, cfg mysqlconn.Config, s rowstream.Server) {
		c := shortTable(t, cfg)
		table, err := s.Describe(t.Context(), "short", "t")
		if err != nil {
			t.Fatal(err)
		}
		r := shortReader(t, s, 200*time.Millisecond, testwait.Limit)
		if _, err := r.Cut(t.Context(), table, 1<<10, rowstream.Chunk{}); err != nil {
			t.Fatal(err)
		}
		testrows.Exec(t, c, "ALTER TABLE t COMMENT = 'idle'") // waits for the view
		if _, err := r.Cut(t.Context(), table, 1<<10, rowstream.Chunk{}); err != nil {
			t.Fatalf("after a comment: %v", err)
		}
		impatient := shortReader(t, s, 200*time.Millisecond, 200*time.Millisecond)
		err = whereErr(t.Context(), impatient, table, "SLEEP(3600) = 0")
		if !errors.Is(err, rowstream.ErrViewExpired) {
			t.Errorf("a statement that takes an hour: %v, want an expired view", err)
		}
		for _, r := range []*rowstream.ShortReader{r, impatient} {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		testrows.AwaitNoTransaction(t, c)
		testrows.Exec(t, c, "ALTER TABLE t COMMENT = 'busy'")
	})
}

// TestShortViewAltered alters a table between two views of it, and while a view is being taken.
func TestShortViewAltered(t *testing.T) {
	eachProduct(t, func(t *testing.T, cfg mysqlconn.Config, s rowstream.Server) {
		c := shortTable(t, cfg)
		table, err := s.Describe(t.Context(), "short", "t")
		if err != nil {
			t.Fatal(err)
		}
		r := shortReader(t, s, 200*time.Millisecond, testwait.Limit)
		read := func() (err error) {
			testwait.UntilState(t, "the table to be read within the age of a view", func() (string, bool) {
				err = readErr(t.Context(), r, table, rowstream.Chunk{})
				return fmt.Sprint(err), !errors.Is(err, rowstream.ErrViewExpired)
			})
			return err
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		testrows.Exec(t, c, "ALTER TABLE t ADD KEY v (v)") // waits for the view
		if err := read(); err != nil {
			t.Errorf("with another index: %v", err)
		}
		testrows.Exec(t, c, "ALTER TABLE t CHANGE v w INT", "ALTER TABLE t ADD COLUMN v INT DEFAULT 7")
		testrows.AwaitNoTransaction(t, c)
		testwait.Until(t, "the reader to take another view", func() bool { return read() != nil })
		if err := read(); !errors.Is(err, rowstream.ErrAltered) {
			t.Errorf("with other columns: %v, want %v", err, rowstream.ErrAltered)
		}
	})
}

// TestShortViewElsewhere checks a view with the identity of another server.
func TestShortViewElsewhere(t *testing.T) {
	eachProduct(t, func(t *testing.T, cfg mysqlconn.Config, s rowstream.Server) {
		shortTable(t, cfg)
		table, err := s.Describe(t.Context(), "short", "t")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.ShortView(t.Context(), "7 elsewhere 3306", table, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "leads to another server") {
			t.Errorf("a view of another server: %v", err)
		}
	})
}

// TestShortViewOldService requests a view from a service that does not support limits.
func TestShortViewOldService(t *testing.T) {
	g := grpc.NewServer(grpc.ForceServerCodecV2(vtcodec.Codec{}))
	rowpb.RegisterRowsServer(g, &impostor{})
	r := open(t, wire.RemoteOptions{Addr: testgrpc.Serve(t, withHealth(g))})
	_, err := r.ShortView(t.Context(), "", &rowstream.Table{Schema: "d", Name: "t"}, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("a service without limits: %v", err)
	}
}
