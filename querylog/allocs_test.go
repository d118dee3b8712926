package querylog_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

// TestAllocs measures the whole path of a record: formatting the line and delivering its batch. Allocations
// by readers and by compression are a constant for each of them, independent of the number of records.
func TestAllocs(t *testing.T) {
	var cases []alloctest.Case
	records := map[string]*querylog.Record{"query": sample(), "binds": prepared(), "error": failed(), "all fields": everything(), "error by shape": shaped()}
	for name, r := range records {
		for _, f := range []querylog.Format{querylog.JSON, querylog.Text} {
			for _, red := range []querylog.Redaction{querylog.RedactNone, querylog.RedactLiterals, querylog.RedactAll} {
				l := querylog.Line{Format: f, Redaction: red, OriginalText: true}
				var buf []byte
				cases = append(cases, alloctest.Case{
					Name: fmt.Sprintf("line/%s/%s/%s", name, f, red),
					Op: func() error {
						l.Begin(buf[:0], r.Kind())
						r.AppendFields(&l)
						if buf = l.End(); len(buf) < 100 {
							return fmt.Errorf("got %q", buf)
						}
						return nil
					},
				})
			}
		}
	}
	filter, err := querylog.ParseFilter(`user=app client~192 total_ns>1ms digest!=00 command!=Ping`)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range []struct {
		name    string
		o       querylog.Options
		readers int
		none    bool // nothing is logged
	}{
		{name: "ring", o: querylog.Options{}},
		{name: "file", o: querylog.Options{RingBytes: -1, Sinks: []querylog.SinkOptions{{Path: filepath.Join(dir, "a")}}}},
		{name: "text file and ring", o: querylog.Options{Sinks: []querylog.SinkOptions{{Path: filepath.Join(dir, "b"), Format: querylog.Text}}}},
		{name: "two files of one format", o: querylog.Options{Sinks: []querylog.SinkOptions{{Path: filepath.Join(dir, "c")}, {Path: filepath.Join(dir, "d")}}}},
		{name: "writer", o: querylog.Options{Sinks: []querylog.SinkOptions{{Writer: discard{}}}}},
		{name: "one reader", o: querylog.Options{}, readers: 1},
		{name: "three readers", o: querylog.Options{}, readers: 3},
		{name: "filter", o: querylog.Options{Filter: filter}},
		{name: "sampled out", o: querylog.Options{Sampling: querylog.Sampling{SlowerThan: 1 << 40}}, none: true},
		{name: "one in 10, 5 a digest", o: querylog.Options{Sampling: querylog.Sampling{OneIn: 10, PerDigest: 5}}, none: true},
	} {
		for i := range c.o.Sinks {
			c.o.Sinks[i].QueueBytes = 256 << 10 // soon full: then all buffers exist
		}
		c.o.FlushAfter = time.Hour // the timer of one logger must not fire while another is measured
		l := mustNew(t, c.o)
		for range c.readers {
			attachReader(t, l)
		}
		for range 5000 {
			for _, r := range records {
				l.Log(r)
			}
		}
		for name, r := range records {
			if c.o.Filter.String() != "" && name == "all fields" {
				continue // another client
			}
			cases = append(cases, alloctest.Case{Name: "log/" + c.name + "/" + name, Op: func() error {
				was := l.LastSeq()
				l.Log(r)
				if l.LastSeq() == was && !c.none {
					return errors.New("not logged")
				}
				return nil
			}})
		}
	}
	flushed := mustNew(t, querylog.Options{FlushAfter: time.Hour, Sinks: []querylog.SinkOptions{{Path: filepath.Join(dir, "e"), QueueBytes: 256 << 10}}})
	for range 5000 {
		flushed.Log(records["query"])
		flushed.Flush()
	}
	cases = append(cases, alloctest.Case{Name: "flush", Op: func() error {
		flushed.Log(records["query"])
		flushed.Flush()
		return nil
	}})
	alloctest.Run(t, cases)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// attachReader attaches a reader to l that consumes everything until the test ends.
func attachReader(t *testing.T, l *querylog.Logger) {
	t.Helper()
	ctx := t.Context()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/debug/querylog?format=text&filter=user%3Dapp", nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.ServeHTTP(&sunk{header: http.Header{}}, req)
	}()
	testwait.Until(t, "the reader", func() bool { return l.Stats().Readers > 0 })
	t.Cleanup(func() { testwait.Receive(t, "the stream to finish", done) })
}

// A sunk response writer discards its input.
type sunk struct{ header http.Header }

func (w *sunk) Header() http.Header         { return w.header }
func (w *sunk) WriteHeader(int)             {}
func (w *sunk) Write(p []byte) (int, error) { return len(p), nil }
func (w *sunk) Flush()                      {}
