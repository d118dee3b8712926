package querylog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
)

// tally counts the lines of a log by kind and the records reported by dropped lines. It fails on anything
// that is not a line.
func tally(t *testing.T, b []byte) (statements, dropped uint64) {
	t.Helper()
	if len(b) > 0 && b[len(b)-1] != '\n' {
		t.Fatalf("the log ends inside a line: %q", b[max(0, len(b)-80):])
	}
	for line := range bytes.Lines(b) {
		var kind, records string
		f := querylog.ParseLine(line)
		for f.Next() {
			switch string(f.Name()) {
			case "kind":
				kind = string(f.Raw())
			case "records":
				records = string(f.Raw())
			}
		}
		if f.Err() != nil {
			t.Fatalf("%v: %q", f.Err(), line)
		}
		switch kind {
		case "statement":
			statements++
		case "dropped":
			n, err := strconv.ParseUint(records, 10, 64)
			if err != nil || n == 0 {
				t.Fatalf("dropped line %q: %v", line, err)
			}
			dropped += n
		default:
			t.Fatalf("line of kind %q: %q", kind, line)
		}
	}
	return statements, dropped
}

// checkSums checks that a sink's counters agree with the logged records and with the lines in its output.
func checkSums(t *testing.T, st querylog.SinkStats, offered uint64, out []byte) {
	t.Helper()
	statements, dropped := tally(t, out)
	if st.Offered != offered || st.Written+st.Dropped != offered {
		t.Errorf("offered %d, written %d + dropped %d; want %d", st.Offered, st.Written, st.Dropped, offered)
	}
	if statements != st.Written {
		t.Errorf("%d statements in the output, %d counted as written", statements, st.Written)
	}
	if dropped > st.Dropped {
		t.Errorf("dropped lines tell of %d records, counted are %d", dropped, st.Dropped)
	}
}

// TestSinkBlocked blocks a writer for a minute under load. Log never waits; when the writer continues, the
// log reports the missing records, and no others are missing.
func TestSinkBlocked(t *testing.T) {
	for _, f := range []querylog.Format{querylog.JSON, querylog.Text} {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTap()
				l := mustNew(t, querylog.Options{Sinks: []querylog.SinkOptions{{Writer: w, Format: f, QueueBytes: 256 << 10}}})
				r := sample()
				offered := uint64(0)
				second := func() {
					for range 300 {
						l.Log(r)
						offered++
					}
					time.Sleep(time.Second)
					synctest.Wait()
				}
				for range 3 {
					second()
				}
				release := w.stick()
				for range 60 {
					second()
				}
				st := sinkStats(t, l, "writer")
				if st.Dropped == 0 || st.QueuedBytes > 256<<10+2*(64<<10) {
					t.Errorf("blocked: %+v", st)
				}
				release()
				for range 3 {
					second()
				}
				mustClose(t, l)
				checkSums(t, sinkStats(t, l, "writer"), offered, w.bytes())
				if _, dropped := tally(t, w.bytes()); dropped != sinkStats(t, l, "writer").Dropped {
					t.Errorf("dropped lines tell of %d records, want %d", dropped, sinkStats(t, l, "writer").Dropped)
				}
			})
		})
	}
}

// TestWriterFull gives a writer room for n bytes, for every n up to the length of a few lines: the output
// consists of whole lines once there is room again, wherever it was cut.
func TestWriterFull(t *testing.T) {
	for room := 0; room < 3000; room += 7 {
		w := newTap()
		w.setRoom(room)
		l, err := querylog.New(querylog.Options{RingBytes: -1, FlushBytes: 1, Slog: quiet(), Sinks: []querylog.SinkOptions{{Writer: w}}})
		if err != nil {
			t.Fatal(err)
		}
		r := sample()
		for range 5 {
			l.Log(r)
		}
		w.setRoom(-1)
		for range 5 {
			l.Log(r)
		}
		mustClose(t, l)
		checkSums(t, sinkStats(t, l, "writer"), 10, w.bytes())
	}
}

// TestNeverRoom closes a logger whose writer has stayed full: all records are dropped, including a partly
// written line.
func TestNeverRoom(t *testing.T) {
	w := newTap()
	w.setRoom(100)
	l, err := querylog.New(querylog.Options{Slog: quiet(), Sinks: []querylog.SinkOptions{{Writer: w}}})
	if err != nil {
		t.Fatal(err)
	}
	l.Log(sample())
	if err := l.Close(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("close: got %v, want %v", err, errFull)
	}
	if st := sinkStats(t, l, "writer"); st.Offered != 1 || st.Dropped != 1 || st.Written != 0 {
		t.Errorf("got %+v", st)
	}
}

// TestDevFull logs to a full disk: each record counts as dropped, and slog receives one message, not one per
// record.
func TestDevFull(t *testing.T) {
	var heard bytes.Buffer
	l, err := querylog.New(querylog.Options{
		FlushBytes: 1,
		Slog:       slog.New(slog.NewTextHandler(&heard, nil)),
		Sinks:      []querylog.SinkOptions{{Path: "/dev/full", Name: "full"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		l.Log(sample())
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := sinkStats(t, l, "full"); st.Offered != 1000 || st.Dropped != 1000 {
		t.Errorf("got %+v", st)
	}
	if n := strings.Count(heard.String(), "\n"); n != 1 || !strings.Contains(heard.String(), "no space left on device") {
		t.Errorf("slog heard %d times: %s", n, heard.String())
	}
}

// TestNamedPipe logs to a named pipe without a reader: only the writer waits, and records that exceed the
// queue are counted. A reader that connects later receives whole lines.
func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "query.pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	l := mustNew(t, querylog.Options{FlushBytes: 4 << 10, Sinks: []querylog.SinkOptions{{Path: path, QueueBytes: 64 << 10}}})
	const offered = 2000
	for range offered {
		l.Log(sample())
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if st := sinkStats(t, l, path); st.Dropped == 0 {
		t.Errorf("nobody reads, and nothing was dropped: %+v", st)
	}
	pipe, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	var out bytes.Buffer
	read := make(chan error, 1)
	go func() {
		_, err := out.ReadFrom(pipe)
		read <- err
	}()
	mustClose(t, l)
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	checkSums(t, sinkStats(t, l, path), offered, out.Bytes())
}

// TestFileRemoved removes the file repeatedly under load: a new one is created, and only batches written to
// removed files are lost.
func TestFileRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "query.log")
	l := mustNew(t, querylog.Options{FlushBytes: 1, Sinks: []querylog.SinkOptions{{Path: path}}})
	r := sample()
	var all []byte
	offered := uint64(0)
	for range 20 {
		for range 50 {
			l.Log(r)
			offered++
		}
		testwait.Until(t, "the writer to catch up", func() bool { return sinkStats(t, l, path).Written >= offered })
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	checkSums(t, sinkStats(t, l, path), offered, all)
	if st := sinkStats(t, l, path); st.Dropped != 0 {
		t.Errorf("dropped %d", st.Dropped)
	}
}

// TestReopenStorm renames the file and reopens it many times from two goroutines while others log: the files
// together contain every record.
func TestReopenStorm(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "query.log")
	l := mustNew(t, querylog.Options{FlushBytes: 2000, Sinks: []querylog.SinkOptions{{Path: path, QueueBytes: 64 << 20}}})
	const sessions, each = 4, 3000
	var logging, reopening sync.WaitGroup
	for id := range sessions {
		logging.Go(func() {
			r := sample()
			r.ConnectionID = uint64(id)
			for range each {
				l.Log(r)
			}
		})
	}
	stop := make(chan struct{})
	for k := range 2 {
		reopening.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// The other goroutine may have renamed it just before.
				_ = os.Rename(path, path+"."+strconv.Itoa(k)+"."+strconv.Itoa(i))
				if err := l.Reopen(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	logging.Wait()
	close(stop)
	reopening.Wait()
	mustClose(t, l)
	var all []byte
	names, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	st := sinkStats(t, l, path)
	checkSums(t, st, sessions*each, all)
	if st.Dropped != 0 {
		t.Errorf("dropped %d", st.Dropped)
	}
}

// TestReopenFails makes the path unusable: Reopen returns an error and the old file stays in use.
func TestReopenFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "query.log")
	l := mustNew(t, querylog.Options{Sinks: []querylog.SinkOptions{{Path: path}}})
	l.Log(sample())
	moved := dir + ".moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
	l.Log(sample())
	mustClose(t, l)
	b, err := os.ReadFile(filepath.Join(moved, "query.log"))
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, sinkStats(t, l, path), 2, b)
}

// TestCloseGivesUp closes a logger whose writer is stuck: Close returns when its context is done, and
// unwritten records count as dropped.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTap()
		l, err := querylog.New(querylog.Options{FlushBytes: 1, Sinks: []querylog.SinkOptions{{Writer: w}}})
		if err != nil {
			t.Fatal(err)
		}
		release := w.stick()
		for range 10 {
			l.Log(sample())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if st := sinkStats(t, l, "writer"); st.Offered != 10 || st.Dropped != 10 {
			t.Errorf("got %+v", st)
		}
		l.Log(sample()) // does nothing
		release()
		synctest.Wait()
		if st := sinkStats(t, l, "writer"); st.Offered != 10 || st.Dropped != 10 {
			t.Errorf("after the writer moved: %+v", st)
		}
	})
}

// TestHugeLine logs a statement of two megabytes: its line is whole, and the buffers return to their bound
// after the write.
func TestHugeLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTap()
		l := mustNew(t, querylog.Options{RingBytes: 1 << 20, OriginalText: true, MaxText: 4 << 20, Sinks: []querylog.SinkOptions{{Writer: w}}})
		r := sample()
		r.Text = bytes.Repeat([]byte("x"), 2<<20)
		l.Log(r)
		l.Log(sample())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if b := w.bytes(); len(b) < 2<<20 || bytes.Count(b, []byte("\n")) != 2 {
			t.Errorf("got %d bytes, %d lines", len(b), bytes.Count(b, []byte("\n")))
		}
		if kept, bound := l.LargestBuffer(), 4*(64<<10); kept > bound {
			t.Errorf("a buffer of %d bytes is kept, want at most %d", kept, bound)
		}
		if st := sinkStats(t, l, "ring"); st.Dropped != 1 || st.Written != 1 {
			t.Errorf("ring: %+v", st)
		}
	})
}

// TestFlushAfter checks the maximum age of buffered records, and that no timer runs while nothing is
// buffered.
func TestFlushAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTap()
		l := mustNew(t, querylog.Options{Sinks: []querylog.SinkOptions{{Writer: w}}})
		for range 3 {
			was := len(w.bytes())
			l.Log(sample())
			time.Sleep(999 * time.Millisecond)
			synctest.Wait()
			if len(w.bytes()) != was {
				t.Error("written before its second was over")
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if len(w.bytes()) == was {
				t.Error("not written after a second")
			}
			if l.TimerArmed() {
				t.Error("the timer is armed with nothing buffered")
			}
			time.Sleep(time.Hour)
		}
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
