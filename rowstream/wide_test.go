package rowstream

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// A wideTable is rows of a MiB, and then many more of a hundred bytes.
type wideTable struct{ wide, narrow int }

// make makes the table wide.t, whose rows are as good as random to a compressor.
func (w wideTable) make(t *testing.T, s *testmysql.Server) *Table {
	t.Helper()
	c := connect(t, root(s))
	exec(t, c, "CREATE DATABASE wide", "CREATE TABLE wide.t (id INT PRIMARY KEY, c LONGBLOB NOT NULL)",
		"CREATE TABLE wide.piece (n INT PRIMARY KEY, c BLOB)", "INSERT INTO wide.piece SELECT seq, RANDOM_BYTES(1024) FROM test.seq_1_to_1024",
		"SET SESSION group_concat_max_len = 4 << 20", "SET @mib = (SELECT GROUP_CONCAT(c ORDER BY n SEPARATOR '') FROM wide.piece)", "SET @hundred = LEFT(@mib, 100)",
		fmt.Sprintf("INSERT INTO wide.t SELECT seq, @mib FROM test.seq_1_to_%d", w.wide),
		fmt.Sprintf("INSERT INTO wide.t SELECT seq + %d, @hundred FROM test.seq_1_to_%d", w.wide, w.narrow))
	table, err := ReadTable(t.Context(), c, "wide", "t")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestWideRows reads rows of a MiB and then many of a hundred bytes, over one connection, directly and through
// a service, whose client takes them packed and not: afterwards no buffer has more room than for
// two batches.
func TestWideRows(t *testing.T) {
	server := testmysql.Start(t)
	table := wideRows.make(t, server)
	d := direct(t, root(server))
	const bound = 2 * DefaultBatchBytes
	within := func(what string, room []byte) {
		t.Helper()
		if cap(room) > bound {
			t.Errorf("%s: room for %d bytes is kept, want at most %d", what, cap(room), bound)
		}
	}
	for _, how := range []string{"direct", "remote", "remote packed"} {
		t.Run(how, func(t *testing.T) {
			var s Server = d
			service, addr := serve(t, ServiceOptions{Server: d})
			switch how {
			case "remote":
				s = open(t, RemoteOptions{Addr: addr})
			case "remote packed":
				s = open(t, RemoteOptions{Addr: addr, Compression: Zstd})
			}
			view, err := s.Snapshot(t.Context(), 1, []*Table{table})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = view.Close() }()
			r := view.Reader(0)
			most := 0
			rows, err := r.Read(t.Context(), table, Chunk{Number: 1}, ReadOptions{}, func(b *Batch) error {
				most = max(most, cap(b.Bytes))
				return nil
			})
			if err != nil || rows != int64(wideRows.wide+wideRows.narrow) {
				t.Fatalf("%d rows, %v", rows, err)
			}
			if most <= bound {
				t.Errorf("no batch had room for more than %d bytes: nothing is shown", most)
			}
			at := view
			if remote, ok := r.(*remoteReader); ok {
				within("the client's message", remote.message.Bytes)
				within("the client's unpacked batch", remote.room)
				within("the client's batch", remote.batch.Bytes)
				for _, served := range service.snapshots {
					w := served.workers[0]
					testwait.Receive(t, "the worker to be idle", w.turn) // what served it has let go
					within("the service's packed batch", w.packed)
					within("the service's message", w.batch.Bytes)
					within("the service's batch", w.reader.(*reader).batch.Bytes)
					w.turn <- struct{}{}
					at = served.view
				}
			} else {
				within("the batch", r.(*reader).batch.Bytes)
			}
			if size := at.(*Snapshot).clients[0].Size(); size > bound {
				t.Errorf("the connection to the source reads into %d bytes", size)
			}
		})
	}
}
