package querylog_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

// discards is a sink's output that discards everything.
type discards struct{}

func (discards) Write(p []byte) (int, error) { return len(p), nil }

// heapAlloc returns the heap in use after a collection.
func heapAlloc() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHeapBytes compares the account with the heap: of a new logger, of one whose stripes, ring and reserve
// are full, and of one whose lines were long.
func TestHeapBytes(t *testing.T) {
	for _, k := range []struct {
		name string
		opts querylog.Options
		text int
	}{
		{"ring", querylog.Options{}, 100},
		{"ring and sink", querylog.Options{Sinks: []querylog.SinkOptions{{Name: "out", Writer: discards{}}}}, 300},
		{"two formats", querylog.Options{Sinks: []querylog.SinkOptions{{Name: "out", Writer: discards{}, Format: querylog.Text}}}, 300},
		{"limit per digest", querylog.Options{Sampling: querylog.Sampling{PerDigest: 5}}, 100},
		{"long lines", querylog.Options{Sinks: []querylog.SinkOptions{{Name: "out", Writer: discards{}}}}, 200 << 10},
		{"no ring", querylog.Options{RingBytes: -1, Sinks: []querylog.SinkOptions{{Name: "out", Writer: discards{}}}}, 300},
	} {
		t.Run(k.name, func(t *testing.T) {
			text := make([]byte, k.text)
			for i := range text {
				text[i] = 'a' + byte(i%26)
			}
			k.opts.FlushAfter = time.Hour
			idle := heapAlloc()
			l, err := querylog.New(k.opts)
			if err != nil {
				t.Fatal(err)
			}
			check := func(when string) {
				t.Helper()
				got, want := heapAlloc()-idle, l.HeapBytes()
				t.Logf("%s: the heap grew by %d bytes, the account says %d", when, got, want)
				if off := max(got-want, want-got); off > want/100+8<<10 {
					t.Errorf("%s: the heap grew by %d bytes, the account says %d", when, got, want)
				}
			}
			check("new")
			for i := range 2000 {
				l.Log(&querylog.Record{ConnectionID: uint64(i), Start: time.Unix(int64(i), 0), Normalized: text})
				if i%100 == 0 {
					drain(t, l)
				}
			}
			drain(t, l)
			check("used")
			if err := l.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			runtime.KeepAlive(text)
		})
	}
}

// drain waits until the sinks have written their queues.
func drain(t *testing.T, l *querylog.Logger) {
	t.Helper()
	testwait.Equal(t, "empty queues of the sinks", 0, func() (queued int) {
		for _, s := range l.Stats().Sinks {
			if s.Name == "out" {
				queued += s.QueuedBytes
			}
		}
		return queued
	})
}

// TestHeapBytesOfReaders checks that stream readers count while they are attached.
func TestHeapBytesOfReaders(t *testing.T) {
	const chunk = 64 << 10 // of lines, which a reader takes at a time
	l, err := querylog.New(querylog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := l.HeapBytes()
	server := httptest.NewServer(l)
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.HeapBytes() - before; got < 2*chunk {
		t.Errorf("a reader is accounted with %d bytes, want two chunks of %d", got, chunk)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	server.Close()
	if got := l.HeapBytes() - before; got != 0 {
		t.Errorf("%d bytes are accounted for a reader that has left", got)
	}
}
