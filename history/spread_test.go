package history_test

import (
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/querylog"
)

// TestSpread uses a table with more digests than a commit, and even more called: rounds are spread over the
// interval while statements are counted and digests are evicted, and the sums equal those of all statements
// as soon as a round has visited them.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func(dir string) *stmtstats.Table {
			table, err := stmtstats.OpenTable(stmtstats.Options{MaxDigests: 3 * history.CommitKeys, Dir: dir, Turnover: 10 * time.Minute, Slog: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return table
		}
		tableDir := t.TempDir()
		table := open(tableDir)
		d := newDay(t)
		d.source = table
		d.start()
		r := rand.New(rand.NewPCG(3, 4))
		var calls uint64
		for n := range 12 {
			for range 3000 {
				var digest [16]byte
				binary.BigEndian.PutUint32(digest[:], uint32(r.ExpFloat64()*900)+uint32(n*50))
				table.Observe(&querylog.Record{
					Digest: digest, Normalized: []byte("SELECT ?"), Schema: "shop", User: "app", Backend: "db1",
					Start: time.Now(), Total: time.Duration(r.IntN(1e9)), RowsReturned: 3,
				})
				calls++
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(2 * time.Minute)
			at := time.Now()
			for _, query := range []string{"sum(tare_queries_total)", "histogram_count(sum(tare_query_duration_seconds))", "sum(tare_query_rows_sent_total) / 3"} {
				if got := d.value(query, at); got != float64(calls) {
					t.Errorf("part %d: %s is %v, counted were %d", n, query, got, calls)
				}
			}
			if n%4 == 3 { // restart both
				d.end()
				if err := d.archive.Close(); err != nil {
					t.Error(err)
				}
				if err := table.Close(); err != nil {
					t.Error(err)
				}
				table = open(tableDir)
				d.source = table
				d.start()
			}
			if t.Failed() {
				break
			}
		}
		st := table.Stats()
		if d.value(`tare_queries_total{digest="evicted"}`, time.Now()) == 0 || d.value(`tare_queries_total{digest="other"}`, time.Now()) == 0 {
			t.Errorf("nothing was evicted, or all found a place: %+v", st)
		}
		t.Logf("%d calls, %d digests, %d evicted since the last restart", calls, st.Digests, st.Evictions)
		d.end()
		if err := d.archive.Close(); err != nil {
			t.Error(err)
		}
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
}
