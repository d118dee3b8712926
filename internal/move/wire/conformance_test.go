package wire_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testgrpc"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// serve serves a server over gRPC until the test ends.
func serve(t testing.TB, o wire.ServiceOptions, options ...grpc.ServerOption) (*wire.Service, string) {
	t.Helper()
	s, err := wire.NewService(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, testgrpc.Serve(t, s.NewServer(options...))
}

func open(t testing.TB, o wire.RemoteOptions) *wire.Remote {
	t.Helper()
	r, err := wire.OpenRemote(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// selfSigned returns the TLS configurations of a server and of a client that trusts it.
func selfSigned(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	c, err := mysqlconn.SelfSignedCertificate()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// eachServer runs a test with each way to read from a MySQL-compatible server.
func eachServer(t *testing.T, cfg mysqlconn.Config, test func(t *testing.T, s rowstream.Server)) {
	direct := func(t *testing.T) rowstream.Server {
		d, err := binlog.OpenDirect(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	serverTLS, clientTLS := selfSigned(t)
	for name, open := range map[string]func(t *testing.T) rowstream.Server{
		"direct": direct,
		"remote": func(t *testing.T) rowstream.Server {
			_, addr := serve(t, wire.ServiceOptions{Server: direct(t)})
			return open(t, wire.RemoteOptions{Addr: addr})
		},
		"remote packed": func(t *testing.T) rowstream.Server {
			_, addr := serve(t, wire.ServiceOptions{Server: direct(t), Token: "rows"}, grpc.Creds(credentials.NewTLS(serverTLS)))
			return open(t, wire.RemoteOptions{Addr: addr, Token: "rows", TLS: clientTLS, Compression: wire.Zstd})
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// chunks cuts a table and reads each chunk; every value is returned as text.
func chunks(t *testing.T, server rowstream.Server, table *rowstream.Table, bytes int64, o rowstream.ReadOptions) (cut []rowstream.Chunk, rows []string) {
	t.Helper()
	s, err := server.Snapshot(t.Context(), 1, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	r := s.Reader(0)
	next := rowstream.Chunk{}
	for {
		c, err := r.Cut(t.Context(), table, bytes, next)
		if err != nil {
			t.Fatal(err)
		}
		if c.Number != len(cut) {
			t.Fatalf("chunk %d comes as number %d", len(cut), c.Number)
		}
		cut = append(cut, c)
		for b, err := range r.Read(t.Context(), table, c, o) {
			if err == nil {
				err = b.Check()
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range testrows.RowsOf(t, b) {
				rows = append(rows, fmt.Sprintf("%q", row))
			}
		}
		if c.Upto == nil {
			return cut, rows
		}
		next = rowstream.Chunk{Number: c.Number + 1, After: c.Upto}
	}
}

// TestChunks reads tables with keys of many kinds in small chunks: together they are the table in the order
// of its key.
func TestChunks(t *testing.T) {
	cfg := testrows.App(testmysql.Start(t))
	c := testrows.Connect(t, cfg)
	testrows.Exec(t, c, "CREATE OR REPLACE DATABASE chunks")
	const fill = " SELECT seq, CONCAT(CHAR(97 + seq % 26), IF(seq % 3 = 0, 'É', 'e'), seq % 97), seq * 7919 % 1009, CONCAT('row ', seq) FROM chunks_seq"
	testrows.Exec(t, c, "CREATE VIEW chunks.unused AS SELECT 1")
	tests := []struct{ name, columns, key string }{
		{"dense", "id INT, a VARCHAR(20), b INT, c TEXT", "PRIMARY KEY (id)"},
		{"sparse", "id BIGINT, a VARCHAR(20), b INT, c TEXT", "PRIMARY KEY (id)"},
		{"unsigned", "id BIGINT UNSIGNED, a VARCHAR(20), b INT, c TEXT", "PRIMARY KEY (id)"},
		{"collation", "id INT, a VARCHAR(20) COLLATE utf8mb4_general_ci, b INT, c TEXT", "PRIMARY KEY (a, id)"},
		{"latin1", "id INT, a VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german1_ci, b INT, c TEXT", "PRIMARY KEY (a, b, id)"},
		{"bytes", "id INT, a VARBINARY(20), b DECIMAL(10,2), c TEXT", "PRIMARY KEY (b, a, id)"},
		{"double", "id FLOAT, a VARCHAR(20), b DOUBLE, c TEXT", "PRIMARY KEY (b, id)"},
		{"unique", "id INT, a VARCHAR(20), b INT NOT NULL, c TEXT", "UNIQUE KEY u (b, id), KEY other (a)"},
		{"nokey", "id INT, a VARCHAR(20), b INT, c TEXT", "KEY other (a)"},
		{"nullable", "id INT NULL, a VARCHAR(20), b INT, c TEXT", "UNIQUE KEY u (id)"},
	}
	for _, tt := range tests {
		name := "chunks." + session.Ident(tt.name)
		columns := tt.columns
		if tt.name != "nullable" {
			columns = strings.Replace(columns, ",", " NOT NULL,", 1)
		}
		testrows.Exec(t, c, "CREATE TABLE "+name+" ("+columns+", "+tt.key+") CHARACTER SET utf8mb4")
		spread := map[string]string{"sparse": " * 1000003 - 500000", "unsigned": " + 18446744073709550000"}[tt.name]
		testrows.Exec(t, c, "INSERT INTO "+name+strings.Replace(strings.ReplaceAll(fill, "chunks_seq", "test.seq_1_to_1000"), "SELECT seq,", "SELECT seq"+spread+",", 1),
			"ANALYZE TABLE "+name)
	}
	eachServer(t, cfg, func(t *testing.T, s rowstream.Server) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				table, err := s.Describe(t.Context(), "chunks", tt.name)
				if err != nil {
					t.Fatal(err)
				}
				all, want := chunks(t, s, table, 1<<40, rowstream.ReadOptions{})
				if len(all) != 1 || len(want) != 1000 {
					t.Fatalf("%d chunks, %d rows", len(all), len(want))
				}
				cut, got := chunks(t, s, table, 40*table.RowBytes(), rowstream.ReadOptions{BatchBytes: 1 << 10})
				if keyed := len(table.Key) > 0; keyed && (len(cut) < 20 || len(cut) > 60) || !keyed && len(cut) != 1 {
					t.Errorf("%d chunks by the key %q", len(cut), table.KeyName)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	})
}

func TestReadFiltered(t *testing.T) {
	cfg := testrows.App(testmysql.Start(t))
	c := testrows.Connect(t, cfg)
	testrows.Exec(t, c, "CREATE OR REPLACE DATABASE filtered", "CREATE TABLE filtered.t (id INT PRIMARY KEY, a TEXT)",
		"INSERT INTO filtered.t SELECT seq, CONCAT('a', seq) FROM test.seq_1_to_10")
	eachServer(t, cfg, func(t *testing.T, s rowstream.Server) {
		table, err := s.Describe(t.Context(), "filtered", "t")
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for i := range 3 {
			plan := &rowstream.Plan{Where: []rowstream.Condition{{Shard: rowstream.Shard{Index: i + 1, Count: 3}}}, Output: []rowstream.Output{{Column: 1}, {From: rowstream.FixedValue}, {From: rowstream.FixedValue, Value: []byte{}}, {From: rowstream.ShardValue}}}
			_, got := chunks(t, s, table, 100, rowstream.ReadOptions{Where: "id > 3", Plan: plan})
			want := testrows.Column(t, c, fmt.Sprintf("SELECT CONCAT('[\"', a, '\" \"\" \"\" \"', CRC32(id), '\"]') FROM filtered.t WHERE id > 3 AND CRC32(id) %% 3 = %d ORDER BY id", i))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("shard %d: %s", i+1, diff)
			}
			parts = append(parts, got...)
		}
		if len(parts) != 7 {
			t.Errorf("the shards have %d rows together", len(parts))
		}
	})
}

// TestReader checks successful calls and errors with a reader of each kind.
func TestReader(t *testing.T) {
	server := testmysql.Start(t)
	cfg := testrows.App(server)
	c := testrows.Connect(t, cfg)
	// The server computes statistics again some 10 s after the rows: Describe must not return others than ReadTable.
	const fixed = " STATS_AUTO_RECALC=0"
	testrows.Exec(t, c, "CREATE OR REPLACE DATABASE readers", "CREATE TABLE readers.t (id INT PRIMARY KEY, a TEXT)"+fixed,
		"INSERT INTO readers.t SELECT seq, REPEAT('x', 100) FROM test.seq_1_to_5000",
		"CREATE TABLE readers.wide (id INT PRIMARY KEY, a LONGBLOB)"+fixed,
		"INSERT INTO readers.wide SELECT seq, IF(seq % 2, REPEAT(CHAR(seq), 100), RANDOM_BYTES(1024)) FROM test.seq_1_to_20",
		"UPDATE readers.wide SET a = REPEAT('w', 9000000) WHERE id = 10",
		"CREATE VIEW readers.v AS SELECT 1")
	eachServer(t, cfg, func(t *testing.T, s rowstream.Server) {
		ctx := t.Context()
		var table, wide *rowstream.Table
		for name, to := range map[string]**rowstream.Table{"t": &table, "wide": &wide} {
			got, err := s.Describe(ctx, "readers", name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := rowstream.ReadTable(ctx, c, "readers", name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			*to = got
		}
		view, err := s.Snapshot(ctx, 3, []*rowstream.Table{table, wide})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := view.Close(); err != nil {
				t.Error(err)
			}
			if readErr(ctx, view.Reader(0), table, rowstream.Chunk{}) == nil {
				t.Error("a view that is closed was read")
			}
		}()
		if view.How() == "" {
			t.Error("nobody knows how the view was taken")
		}
		count := func(t *testing.T, r rowstream.Reader, o rowstream.ReadOptions) (rows, sent int64) {
			t.Helper()
			o.Count = &rows
			for b, err := range r.Read(ctx, table, rowstream.Chunk{}, o) {
				if err == nil {
					err = b.Check()
				}
				if err != nil {
					t.Fatal(err)
				}
				sent += int64(b.Rows)
			}
			return rows, sent
		}
		r := view.Reader(0)

		t.Run("errors", func(t *testing.T) {
			for name, want := range map[string]string{"v": "describe table readers.v: it is a view", "nothing": rowstream.ErrNoTable.Error()} {
				if _, err := s.Describe(ctx, "readers", name); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, rowstream.ErrNoTable) != (name == "nothing") {
					t.Errorf("%s: %v", name, err)
				}
			}
			for where, number := range map[string]int{"nothing = 1": 1054, "1 +": 1064} {
				err := drop(r.Read(ctx, table, rowstream.Chunk{Number: 7}, rowstream.ReadOptions{Where: where}))
				var refused *mysqlconn.ServerError
				if !errors.As(err, &refused) || int(refused.Number) != number || refused.State == "" || !strings.Contains(err.Error(), "read chunk 7 of readers.t") {
					t.Errorf("%v", err)
				}
			}
			err := drop(r.Read(ctx, table, rowstream.Chunk{}, rowstream.ReadOptions{Plan: &rowstream.Plan{Output: []rowstream.Output{{Column: 2}}}}))
			if err == nil || !strings.Contains(err.Error(), "column number 2 is out of range: the rows have 2 columns, from 0") {
				t.Error(err)
			}
			if rows, sent := count(t, r, rowstream.ReadOptions{}); rows != 5000 || sent != 5000 { // it is unaffected
				t.Errorf("%d rows, %d sent", rows, sent)
			}
		})
		t.Run("held back", func(t *testing.T) {
			for _, v := range []string{"4", "no row"} {
				rows, sent := count(t, r, rowstream.ReadOptions{Plan: &rowstream.Plan{Where: []rowstream.Condition{{Equal: []byte(v)}}}})
				if want := int64(len(v) % 6); rows != 5000 || sent != want {
					t.Errorf("%d rows, %d sent, want %d", rows, sent, want)
				}
			}
		})
		t.Run("bounded", func(t *testing.T) {
			n := 0
			for b, err := range r.Read(ctx, table, rowstream.Chunk{}, rowstream.ReadOptions{BatchBytes: 4096}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
				if len(b.Bytes) > 4096+110 {
					t.Errorf("a batch of %d bytes", len(b.Bytes))
				}
			}
			if n < 5000*100/4096 {
				t.Error(n)
			}
		})
		t.Run("wide", func(t *testing.T) {
			var sizes []int
			for b, err := range r.Read(ctx, wide, rowstream.Chunk{}, rowstream.ReadOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range testrows.RowsOf(t, b) {
					sizes = append(sizes, len(row[1]))
				}
			}
			if len(sizes) != 20 || sizes[9] != 9_000_000 || sizes[19] != 1024 {
				t.Error(sizes)
			}
			count(t, r, rowstream.ReadOptions{})
		})
		t.Run("throttled", func(t *testing.T) {
			no := tick.NewThrottle(tick.Process(), func() bool { return false })
			defer no.Close()
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(cause)
			if err := drop(view.Reader(1).Read(ctx, table, rowstream.Chunk{}, rowstream.ReadOptions{Throttle: no})); !errors.Is(err, cause) {
				t.Error(err)
			}
		})
		t.Run("given up", func(t *testing.T) {
			n := 0
			for _, err := range view.Reader(2).Read(ctx, table, rowstream.Chunk{Number: 3}, rowstream.ReadOptions{BatchBytes: 1024}) {
				if n++; err != nil {
					t.Error(err)
				}
				break
			}
			if n != 1 {
				t.Errorf("%d batches", n)
			}
		})
		t.Run("lost", func(t *testing.T) {
			killAll(t, c)
			if readErr(ctx, r, table, rowstream.Chunk{}) == nil {
				t.Error("a connection that was killed was read")
			}
			if _, err := s.Describe(ctx, "readers", "t"); err != nil {
				t.Errorf("after its connection was killed: %v", err)
			}
		})
	})
}

// killAll kills all connections except the test's.
func killAll(t *testing.T, c *mysqlconn.Client) {
	t.Helper()
	for _, id := range testrows.Column(t, c, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER = 'app'") {
		_, _ = c.Exec(t.Context(), "KILL "+id) // it may have ended already
	}
}

// TestSameView reads with several readers of one view while rows are written.
func TestSameView(t *testing.T) {
	cfg := testrows.App(testmysql.Start(t))
	c := testrows.Connect(t, cfg)
	testrows.Exec(t, c, "CREATE OR REPLACE DATABASE same", "CREATE TABLE same.t (id INT PRIMARY KEY, n INT)", "INSERT INTO same.t SELECT seq, 0 FROM test.seq_1_to_1000")
	eachServer(t, cfg, func(t *testing.T, s rowstream.Server) {
		table, err := s.Describe(t.Context(), "same", "t")
		if err != nil {
			t.Fatal(err)
		}
		const workers = 4
		view, err := s.Snapshot(t.Context(), workers, []*rowstream.Table{table})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = view.Close() }()
		testrows.Exec(t, c, "UPDATE same.t SET n = n + 1")
		var readers sync.WaitGroup
		got := make([][]byte, workers)
		for i := range workers {
			readers.Go(func() {
				for b, err := range view.Reader(i).Read(t.Context(), table, rowstream.Chunk{}, rowstream.ReadOptions{BatchBytes: 2048}) {
					if err != nil {
						t.Error(err)
						break
					}
					got[i] = append(got[i], b.Bytes...)
				}
			})
		}
		testwait.Group(t, "the readers", &readers)
		for i := range workers {
			if len(got[i]) < 5000 || !bytes.Equal(got[i], got[0]) {
				t.Errorf("reader %d: %d bytes, reader 0: %d", i, len(got[i]), len(got[0]))
			}
		}
	})
}
