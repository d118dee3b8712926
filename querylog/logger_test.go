package querylog

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/mysqlwire"
)

// sample is a record with most of its fields filled.
func sample() *Record {
	return &Record{
		Start:         time.Date(2026, 3, 4, 5, 6, 7, 8009, time.UTC),
		Total:         1234567,
		Plan:          800,
		Upstream:      1100000,
		FirstByte:     900000,
		ConnectionID:  42,
		Client:        netip.MustParseAddrPort("192.0.2.7:50123"),
		User:          "app",
		Schema:        "shop",
		Backend:       "db1:3306",
		Command:       mysqlwire.ComQuery,
		StatementType: "select",
		Digest:        [16]byte{0x12, 0x34, 15: 0xff},
		Normalized:    []byte("select `id`, `name` from `orders` where `user_id` = ? and `state` in (?)"),
		Text:          []byte("SELECT id, name FROM orders WHERE user_id = 77 AND state IN ('new', 'paid')"),
		RowsReturned:  3,
		BytesIn:       75,
		BytesOut:      312,
		PlanCached:    true,
	}
}

// TestEveryLineArrives logs from several sessions at once to a file and looks for each
// sequence number there.
func TestEveryLineArrives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "query.log")
	l, err := New(Options{Sinks: []SinkOptions{{Path: path}}, FlushBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	const sessions, each = 8, 500
	var wg sync.WaitGroup
	for id := range sessions {
		wg.Go(func() {
			r := sample()
			r.ConnectionID = uint64(id)
			for range each {
				l.Log(r)
			}
		})
	}
	wg.Wait()
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for line := range bytes.Lines(b) {
		var got struct {
			Kind string
			Seq  uint64
		}
		if err := json.Unmarshal(line, &got); err != nil || got.Kind != "statement" {
			t.Fatalf("line %q: %v", line, err)
		}
		seen[got.Seq] = true
	}
	if len(seen) != sessions*each || !seen[1] || !seen[sessions*each] {
		t.Errorf("got %d sequence numbers, want 1 to %d", len(seen), sessions*each)
	}
	if st := l.Stats(); st.Sinks[0].Written != sessions*each || st.Sinks[0].Offered != sessions*each {
		t.Errorf("stats %+v", st)
	}
}

func BenchmarkLog(b *testing.B) {
	for _, f := range []Format{JSON, Text} {
		b.Run(f.String(), func(b *testing.B) {
			l, err := New(Options{Sinks: []SinkOptions{{Path: "/dev/null", Format: f}}, RingBytes: -1})
			if err != nil {
				b.Fatal(err)
			}
			r := sample()
			b.ReportAllocs()
			for b.Loop() {
				l.Log(r)
			}
			if err := l.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
