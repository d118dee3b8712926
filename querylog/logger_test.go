package querylog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

// TestEveryLineArrives logs from several sessions concurrently to a file and searches it for each sequence
// number.
func TestEveryLineArrives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "query.log")
	l, err := querylog.New(querylog.Options{Sinks: []querylog.SinkOptions{{Path: path, QueueBytes: 64 << 20}}, FlushBytes: 4 << 10})
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
	testwait.Group(t, "the workers", &wg)
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
