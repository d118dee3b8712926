package wire_test

import (
	"testing"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestWideRows reads rows of 1 MiB and then many of 100 bytes through a service, compressed and uncompressed:
// afterwards no buffer of either side has more capacity than for two batches.
func TestWideRows(t *testing.T) {
	server := testmysql.Start(t)
	table := wideRows.Create(t, server)
	d := testrows.Direct(t, testrows.Root(server))
	const bound = 2 * rowstream.DefaultBatchBytes
	within := func(side string, rooms map[string]int) {
		t.Helper()
		for what, room := range rooms {
			if room > bound {
				t.Errorf("%s's %s: room for %d bytes is kept, want at most %d", side, what, room, bound)
			}
		}
	}
	for _, how := range []string{"remote", "remote packed"} {
		t.Run(how, func(t *testing.T) {
			service, addr := serve(t, wire.ServiceOptions{Server: d})
			o := wire.RemoteOptions{Addr: addr}
			if how == "remote packed" {
				o.Compression = wire.Zstd
			}
			s := open(t, o)
			view, err := s.Snapshot(t.Context(), 1, []*rowstream.Table{table})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = view.Close() }()
			r := view.Reader(0)
			most := 0
			rows := int64(0)
			for b, err := range r.Read(t.Context(), table, rowstream.Chunk{Number: 1}, rowstream.ReadOptions{Count: &rows}) {
				if err != nil {
					t.Fatal(err)
				}
				most = max(most, cap(b.Bytes))
			}
			if rows != int64(wideRows.Wide+wideRows.Narrow) {
				t.Fatalf("%d rows", rows)
			}
			if most <= bound {
				t.Errorf("no batch had room for more than %d bytes: nothing is shown", most)
			}
			within("the client", wire.ReaderRoom(r))
			workers := 0
			service.EachWorker(func(turn chan struct{}, room func() map[string]int) {
				workers++
				testwait.Receive(t, "the worker to be idle", turn) // its server has released it
				within("the service", room())
				turn <- struct{}{}
			})
			if workers != 1 {
				t.Errorf("the service has %d workers", workers)
			}
		})
	}
}
