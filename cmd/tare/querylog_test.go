package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// A logged is a tare serve with a query log in a separate process.
type logged struct {
	t            *testing.T
	listen, http string
	file         string // --log-file
	mysql        *mysql.Config

	cmd  *exec.Cmd
	diag *bytes.Buffer // its standard error; after done is closed
	done chan struct{} // closed when the process has exited
}

// startLogged runs tare serve with its data under dir until the test ends.
func startLogged(t *testing.T, server *testmysql.Server, dir, file string, flags ...string) *logged {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	l := &logged{t: t, file: file, mysql: server.Config(testmysql.AppUser), diag: new(bytes.Buffer), done: make(chan struct{})}
	l.cmd = exec.Command(exe)
	l.cmd.Args = append([]string{
		"tare", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backend", server.Addr,
		"--diag-format", "json", "--drain-timeout", "1s", "--log-file", file, "--data-dir", filepath.Join(dir, "data"),
	}, flags...)
	stderr, err := l.cmd.StderrPipe()
	must(t, err)
	must(t, l.cmd.Start())
	t.Cleanup(l.stop)
	said := json.NewDecoder(io.TeeReader(stderr, l.diag))
	var ready struct{ Msg, Listen, HTTP string }
	for ready.Listen == "" {
		if err := said.Decode(&ready); err != nil {
			close(l.done)
			t.Fatalf("tare serve ended before it was ready: %v\n%s", err, l.diag)
		}
	}
	l.listen, l.http, l.mysql.Addr = ready.Listen, ready.HTTP, ready.Listen
	go func() {
		_, _ = io.Copy(l.diag, stderr) // until the process exits
		_ = l.cmd.Wait()               // the exit code is checked later
		close(l.done)
	}()
	return l
}

// stop terminates the process gracefully, unless it has exited.
func (l *logged) stop() {
	_ = l.cmd.Process.Signal(syscall.SIGTERM)
	testwait.Receive(l.t, "the process to exit", l.done)
}

// load runs statements on some connections until ctx is done or each has run so many.
func (l *logged) load(ctx context.Context, connections, each int, statement func(n int) string) {
	l.t.Helper()
	connector, err := mysql.NewConnector(l.mysql)
	must(l.t, err)
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxOpenConns(connections)
	var workers sync.WaitGroup
	for w := range connections {
		workers.Go(func() {
			for i := 0; i < each && ctx.Err() == nil; i++ {
				if _, err := db.Exec(statement(w + i*connections)); err != nil {
					l.t.Errorf("statement %d: %v", i, err)
					return
				}
			}
		})
	}
	testwait.Group(l.t, "the load", &workers)
}

func plain(n int) string { return "DO " + strconv.Itoa(n) }

// counts are values of /metrics: statements run by clients, records offered to the file and their outcome,
// and the heap of the log.
type counts struct{ statements, offered, written, dropped, seq, heap uint64 }

func (l *logged) counts() (c counts) {
	l.t.Helper()
	resp, err := http.Get(l.http + "/metrics")
	must(l.t, err)
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	must(l.t, err)
	for _, m := range families["tare_statements_total"].GetMetric() {
		c.statements += uint64(m.GetCounter().GetValue())
	}
	for _, m := range families["tare_querylog_records_total"].GetMetric() {
		labels := map[string]string{}
		for _, p := range m.GetLabel() {
			labels[p.GetName()] = p.GetValue()
		}
		if labels["sink"] != l.file {
			continue
		}
		v := uint64(m.GetCounter().GetValue())
		switch labels["outcome"] {
		case "offered":
			c.offered = v
		case "written":
			c.written = v
		case "dropped":
			c.dropped = v
		}
	}
	for _, m := range families["tare_heap_bytes"].GetMetric() {
		if m.GetLabel()[0].GetValue() == "query_log" {
			c.heap = uint64(m.GetGauge().GetValue())
		}
	}
	c.seq = uint64(families["tare_querylog_seq"].GetMetric()[0].GetGauge().GetValue())
	return c
}

// until polls the counts until the condition is met.
func (l *logged) until(what string, yes func(counts) bool) counts {
	l.t.Helper()
	return testwait.Value(l.t, what, l.counts, yes)
}

// settled waits until there are as many records as statements, and each was written or dropped. The start
// line of the boot is one additional record.
func (l *logged) settled() counts {
	l.t.Helper()
	return l.until("settled", func(c counts) bool {
		return c.offered == c.statements+1 && c.seq == c.offered && c.written+c.dropped == c.offered
	})
}

// A tally is the sum of a log's lines.
type tally struct {
	statements, starts, dropped uint64 // dropped: records reported by dropped lines
	seqs                        map[uint64]bool
	texts                       map[string]bool
	boot, previousBoot          string
	previousSeq                 uint64
}

// read counts the lines of a log. An incomplete last line does not count.
func (c *tally) read(t *testing.T, log []byte) {
	t.Helper()
	if c.seqs == nil {
		c.seqs, c.texts = map[uint64]bool{}, map[string]bool{}
	}
	for line := range bytes.Lines(log[:bytes.LastIndexByte(log, '\n')+1]) {
		var l struct {
			Kind, Boot, Text string
			Seq, Records     uint64
			PreviousBoot     string `json:"previous_boot"`
			PreviousSeq      uint64 `json:"previous_seq"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		c.boot = l.Boot
		switch l.Kind {
		case "statement":
			c.statements++
			c.texts[l.Text] = true
		case "start":
			c.starts++
			c.previousBoot, c.previousSeq = l.PreviousBoot, l.PreviousSeq
		case "dropped":
			c.dropped += l.Records
			continue
		default:
			t.Fatalf("line of kind %q", l.Kind)
		}
		if c.seqs[l.Seq] {
			t.Errorf("number %d is there twice", l.Seq)
		}
		c.seqs[l.Seq] = true
	}
}

func readTally(t *testing.T, paths ...string) *tally {
	t.Helper()
	var c tally
	for _, path := range paths {
		log, err := os.ReadFile(path)
		must(t, err)
		c.read(t, log)
	}
	return &c
}

func (c *tally) check(t *testing.T, want counts) {
	t.Helper()
	if c.statements+c.starts != want.written || c.dropped != want.dropped {
		t.Errorf("the log holds %d statements, %d start lines and dropped lines for %d records; the counters say %+v",
			c.statements, c.starts, c.dropped, want)
	}
	if want.statements+1 != c.statements+c.starts+c.dropped {
		t.Errorf("%d statements ran; the log knows of %d and %d dropped", want.statements, c.statements, c.dropped)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestQueryLogFaults breaks the log of a real process under load. Statements always continue, and the lines
// written and the records dropped add up exactly to the statements.
func TestQueryLogFaults(t *testing.T) {
	server := testmysql.Start(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *testmysql.Server)
	}{
		{"blocked", testBlocked},
		{"full", testFull},
		{"removed", testRemoved},
		{"reopened", testReopened},
		{"killed", testKilled},
		{"huge", testHuge},
		{"one reader", func(t *testing.T, s *testmysql.Server) { testReaders(t, s, 1) }},
		{"three readers", func(t *testing.T, s *testmysql.Server) { testReaders(t, s, 3) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // mostly waits for the writes of each second
			c.test(t, server)
		})
	}
}

// whole returns flags for long lines, which fill queues sooner.
func whole(more ...string) []string {
	return append([]string{"--log-redact", "none", "--log-original"}, more...)
}

// padded returns a statement of four kilobytes.
func padded(n int) string { return fmt.Sprintf("DO %d, '%s'", n, strings.Repeat("x", 4<<10)) }

// testBlocked logs to a named pipe without a reader.
func testBlocked(t *testing.T, server *testmysql.Server) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "query.pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	l := startLogged(t, server, dir, pipe, whole()...)
	const connections, each = 4, 500
	l.load(t.Context(), connections, each, padded)
	l.until("dropped", func(c counts) bool { return c.dropped > 0 && c.statements == connections*each })
	r, err := os.Open(pipe)
	must(t, err)
	defer r.Close()
	var log bytes.Buffer
	read := make(chan error, 1)
	go func() {
		_, err := log.ReadFrom(r)
		read <- err
	}()
	c := l.settled()
	l.stop()
	must(t, testwait.Receive(t, "the reader to return", read))
	var lines tally
	lines.read(t, log.Bytes())
	lines.check(t, c)
}

// testFull fills the disk, and makes room again. Only root can create a disk; others log to /dev/full, which
// never has room.
func testFull(t *testing.T, server *testmysql.Server) {
	dir, disk := t.TempDir(), t.TempDir()
	file, small := filepath.Join(disk, "query.log"), true
	if unmount, err := mountSmall(disk, "size=256k"); err == nil {
		t.Cleanup(func() { must(t, unmount()) })
	} else {
		t.Logf("a disk of its own: %v", err)
		file, small = "/dev/full", false
	}
	l := startLogged(t, server, dir, file, whole()...)
	l.load(t.Context(), 2, 200, padded)
	c := l.settled()
	if c.dropped == 0 {
		t.Errorf("1.6 MB went to a disk of 256 KiB, and nothing was dropped: %+v", c)
	}
	if small {
		before := c
		first, err := os.ReadFile(file)
		must(t, err)
		must(t, os.Remove(file)) // makes room
		l.load(t.Context(), 1, 10, padded)
		c = l.settled()
		if c.written != before.written+10 {
			t.Errorf("written %d, and %d once there was room for ten more", before.written, c.written)
		}
		second, err := os.ReadFile(file)
		must(t, err)
		var lines tally
		lines.read(t, first)
		lines.read(t, second)
		lines.check(t, c)
	}
	l.stop()
	if !strings.Contains(l.diag.String(), "no space left on device") {
		t.Errorf("standard error does not tell of the full disk:\n%s", l.diag)
	}
}

// testRemoved removes the file repeatedly under load.
func testRemoved(t *testing.T, server *testmysql.Server) {
	dir := t.TempDir()
	file := filepath.Join(dir, "query.log")
	l := startLogged(t, server, dir, file)
	var files []*os.File
	for range 3 {
		l.load(t.Context(), 2, 300, plain)
		l.settled()
		f, err := os.Open(file)
		must(t, err)
		defer f.Close()
		files = append(files, f)
		must(t, os.Remove(file))
	}
	l.load(t.Context(), 2, 300, plain)
	c := l.settled()
	var lines tally
	for _, f := range files {
		log, err := io.ReadAll(f)
		must(t, err)
		lines.read(t, log)
	}
	log, err := os.ReadFile(file)
	must(t, err)
	lines.read(t, log)
	lines.check(t, c)
	if c.dropped != 0 {
		t.Errorf("%d records were dropped", c.dropped)
	}
}

// testReopened renames the file and sends SIGUSR1 many times under load.
func testReopened(t *testing.T, server *testmysql.Server) {
	dir := t.TempDir()
	file := filepath.Join(dir, "query.log")
	l := startLogged(t, server, dir, file, whole()...)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		l.load(t.Context(), 4, 150, padded) // less than the file's queue holds, however late its writer is
	}()
	renamed := 0
	for storm := true; storm; {
		select {
		case <-loaded:
			storm = renamed < 3
		default:
		}
		if err := os.Rename(file, fmt.Sprintf("%s.%d", file, renamed)); err == nil {
			renamed++
		} else if !errors.Is(err, os.ErrNotExist) { // not created again yet
			t.Error(err)
		}
		must(t, l.cmd.Process.Signal(syscall.SIGUSR1))
	}
	c := l.settled()
	if c.dropped != 0 {
		t.Errorf("%d records were dropped; the file was renamed %d times", c.dropped, renamed)
	}
	names, err := filepath.Glob(file + "*")
	must(t, err)
	readTally(t, names...).check(t, c)
}

// testKilled kills the process under load: the driver may retry the current statement, and then fails. All
// records counted as written before are in the file, and the next boot reports their number.
func testKilled(t *testing.T, server *testmysql.Server) {
	dir := t.TempDir()
	file := filepath.Join(dir, "query.log")
	l := startLogged(t, server, dir, file, whole()...)
	l.mysql.Logger = &mysql.NopLogger{} // it reports the kill
	connector, err := mysql.NewConnector(l.mysql)
	must(t, err)
	db := sql.OpenDB(connector)
	defer db.Close()
	var acked atomic.Int64 // statements, of one connection after the other
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		for {
			if _, err := db.Exec(plain(int(acked.Load()))); err != nil {
				return
			}
			acked.Add(1)
		}
	}()
	testwait.Until(t, "statements under way", func() bool { return acked.Load() >= 500 })
	sure := int(acked.Load())
	l.until("all written that was acknowledged", func(c counts) bool { return c.written > uint64(sure) }) // with the start line
	must(t, l.cmd.Process.Kill())
	testwait.Receive(t, "the load to fail", loaded)
	testwait.Receive(t, "the process to exit", l.done)

	lines := readTally(t, file)
	for n := range sure {
		if !lines.texts[plain(n)] {
			t.Errorf("statement %d is lost: it was counted as written", n)
		}
	}
	next := filepath.Join(dir, "next.log")
	l = startLogged(t, server, dir, next)
	l.settled()
	began := readTally(t, next)
	lost := began.previousSeq - uint64(len(lines.seqs))
	t.Logf("%d statements, %d lines, %d lost", acked.Load(), len(lines.seqs), lost)
	// With the start line, except the last statement: it may have been counted without a response, or the
	// reverse.
	want := uint64(acked.Load()) + 1
	if began.previousBoot != lines.boot || began.previousSeq+1 < want || began.previousSeq > want+1 {
		t.Errorf("the next boot knows of boot %s with %d records, want %s with about %d", began.previousBoot, began.previousSeq, lines.boot, want)
	}
}

// testHuge logs a statement of two megabytes: the memory of the log returns to its bound.
func testHuge(t *testing.T, server *testmysql.Server) {
	dir := t.TempDir()
	l := startLogged(t, server, dir, filepath.Join(dir, "query.log"), whole("--log-max-text", "4MiB", "--statement-memory", "4MiB")...)
	l.load(t.Context(), 1, 100, plain)
	before := l.settled().heap
	l.load(t.Context(), 1, 1, func(int) string { return "DO '" + strings.Repeat("x", 2<<20) + "'" })
	l.settled()
	l.load(t.Context(), 1, 100, plain)
	l.settled()
	if before == 0 {
		t.Error("the log holds no bytes")
	}
	l.until(fmt.Sprintf("at most 256 KiB more than the %d bytes before the statement", before), func(c counts) bool { return c.heap <= before+(256<<10) })
	info, err := os.Stat(l.file)
	must(t, err)
	if info.Size() < 2<<20 {
		t.Errorf("the log has %d bytes: the statement is not in it", info.Size())
	}
}

// testReaders runs statements while some clients read the live log: each receives every line, or the number
// it missed.
func testReaders(t *testing.T, server *testmysql.Server, readers int) {
	dir := t.TempDir()
	l := startLogged(t, server, dir, filepath.Join(dir, "query.log"), "--log-ring-bytes", "64KiB")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const connections, each = 4, 500
	var seen [3]atomic.Uint64 // statements, including those reported by dropped lines
	var reading sync.WaitGroup
	for i := range readers {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.http+"/debug/querylog", nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		reading.Go(func() {
			defer resp.Body.Close()
			lines := json.NewDecoder(resp.Body)
			for {
				var line struct {
					Kind    string
					Records uint64
				}
				if lines.Decode(&line) != nil {
					return
				}
				if line.Kind == "dropped" {
					seen[i].Add(line.Records)
				} else {
					seen[i].Add(1)
				}
			}
		})
	}
	l.load(ctx, connections, each, plain)
	c := l.settled()
	readTally(t, l.file).check(t, c)
	if c.dropped != 0 {
		t.Errorf("%d records were dropped", c.dropped)
	}
	l.until("read", func(counts) bool {
		for i := range readers {
			if seen[i].Load() < c.offered {
				return false
			}
		}
		return true
	})
	stop()
	testwait.Group(t, "the readers to stop", &reading)
	for i := range readers {
		if n := seen[i].Load(); n != c.offered {
			t.Errorf("reader %d knows of %d records, want %d", i, n, c.offered)
		}
	}
}
