package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/internal/weigh"
)

// A served is a tare serve in a separate process.
type served struct {
	listen, http string
	pid          int
}

// startServe runs tare serve in front of a backend until the test ends.
func startServe(t *testing.T, backend string, flags ...string) *served {
	t.Helper()
	return startTare(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--backend", backend, "--drain-timeout", "1s"}, flags...)...)
}

// startTare runs a command with HTTP pages until the test ends, and returns when it has logged their address.
func startTare(t *testing.T, args ...string) *served {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Args = append([]string{"tare"}, append(args, "--http", "127.0.0.1:0", "--diag-format", "json")...)
	diag, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(diag)
	var ready struct{ Msg, Listen, HTTP string }
	for ready.HTTP == "" {
		if err := lines.Decode(&ready); err != nil {
			t.Fatalf("tare %s ended before it was ready: %v", args[0], err)
		}
	}
	drained := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, diag) // until the process exits
		close(drained)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		testwait.Receive(t, "the end of the process' log", drained)
		_ = cmd.Wait() // it exits with 3 if sessions did not end, and with 130 if a copy did not
	})
	return &served{listen: ready.Listen, http: ready.HTTP, pid: cmd.Process.Pid}
}

func (s *served) get(t *testing.T, path string) []byte {
	t.Helper()
	body, err := s.fetch(path)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// fetch is get for other goroutines than the test's.
func (s *served) fetch(path string) ([]byte, error) {
	resp, err := http.Get(s.http + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s %w: %s", path, resp.Status, err, body)
	}
	return body, nil
}

func (s *served) metrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(s.get(t, "/metrics")))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// A heapState is the heap after a collection, by owner.
type heapState struct {
	live   float64 // bytes
	owners map[string]float64
	sum    float64
}

func (s *served) heap(t *testing.T) heapState {
	t.Helper()
	for range 3 {
		s.get(t, "/debug/pprof/heap?gc=1")
	}
	h := heapState{owners: make(map[string]float64)}
	families := s.metrics(t)
	h.live = families["go_gc_heap_live_bytes"].GetMetric()[0].GetGauge().GetValue()
	for _, m := range families["tare_heap_bytes"].GetMetric() {
		h.owners[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		h.sum += m.GetGauge().GetValue()
	}
	return h
}

// idleSlack is the permitted difference of an idle process of a few megabytes: the runtime's lists, and requests that have just ended.
const idleSlack = 64 << 10

// ownersAreTheHeap waits until the bytes of the owners differ from the heap in use by at most percent, or by idleSlack:
// requests, sessions and writers release memory after their last response.
func (s *served) ownersAreTheHeap(t *testing.T, when string, percent float64) (h heapState) {
	t.Helper()
	testwait.UntilState(t, when+": the owners to hold the heap in use", func() (string, bool) {
		h = s.heap(t)
		off := (h.sum - h.live) / h.live * 100
		return fmt.Sprintf("heap in use %.0f, owners %.0f: %+.2f %%, want within %g %%: %v", h.live, h.sum, off, percent, h.owners), math.Abs(off) <= percent || math.Abs(h.sum-h.live) <= idleSlack
	})
	t.Logf("%s: heap in use %.0f, owners %.0f, %+.2f %%: %v", when, h.live, h.sum, (h.sum-h.live)/h.live*100, h.owners)
	return h
}

// TestOwnersAreTheHeap loads a tare serve with thousands of plans, five hundred sessions with various states,
// and a full ring of the query log: the owners' bytes plus the base measured at start equal the heap in use
// within half a percent.
func TestOwnersAreTheHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("opens five hundred connections")
	}
	for _, k := range []struct {
		name string
		tls  string
	}{{"plain", "false"}, {"TLS", "skip-verify"}} {
		t.Run(k.name, func(t *testing.T) {
			server := testmysql.Start(t, testmysql.WithTLS(), testmysql.WithArgs("--max-connections=1000", "--max-prepared-stmt-count=100000"))
			s := startServe(t, "mysql://"+server.Addr, "--log-ring-bytes", "4MiB", "--plan-cache-bytes", "16MiB")
			s.ownersAreTheHeap(t, "idle", heapOff)
			cfg := server.Config("app")
			cfg.Addr, cfg.TLSConfig = s.listen, k.tls
			occupy(t, cfg, 500, 20)
			if n := s.metrics(t)["tare_plan_cache_entries"].GetMetric()[0].GetGauge().GetValue(); n < 5000 {
				t.Errorf("%.0f plans are in the cache, want thousands", n)
			}
			s.ownersAreTheHeap(t, "loaded", heapOff)
		})
	}
}

// historyOff is the permitted difference in percent with a history, whose head is an estimate.
const historyOff = 1

// TestOwnersAreTheHeapWithHistory has a gateway write the history of thousands of digests, and queries its
// pages and PromQL: the owners and the base equal the heap in use within historyOff percent.
func TestOwnersAreTheHeapWithHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of series")
	}
	server := testmysql.Start(t)
	s := startServe(t, "mysql://"+server.Addr, "--bucket", "file://"+t.TempDir(), "--data-dir", t.TempDir(), "--history-interval", "1s")
	s.ownersAreTheHeap(t, "idle", historyOff)
	cfg := server.Config("app")
	cfg.Addr = s.listen
	occupy(t, cfg, 100, 50)
	last := 0.0
	testwait.UntilState(t, "a settled number of series", func() (string, bool) {
		time.Sleep(3 * time.Second) // polls: three rounds
		now := s.metrics(t)["tare_history_head_series"].GetMetric()[0].GetGauge().GetValue()
		settled := now > 5000 && now == last
		last = now
		return fmt.Sprint(now), settled
	})
	s.get(t, "/")
	s.get(t, "/queries?by=p99")
	s.get(t, "/api/v1/query?query=sum(tare_queries_total)")
	s.ownersAreTheHeap(t, "loaded", historyOff) // after the pages, which are cached for a second, have been dropped
}

// occupy opens persistent connections, each of which runs and prepares distinct statements.
func occupy(t *testing.T, cfg *mysql.Config, connections, statements int) {
	t.Helper()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := w; i < connections; i += 8 {
				if err := visit(t.Context(), db, i, statements); err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
			}
		})
	}
	testwait.Group(t, "the workers", &workers)
}

// visit uses a connection and keeps it open. Most of its statements fail at the server, which lacks the
// tables; their plans are created nonetheless.
func visit(ctx context.Context, db *sql.DB, n, statements int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := db.Conn(ctx) // closed with db
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	for i := range statements {
		id := n*statements + i
		var text string
		switch i % 5 {
		case 0:
			text = fmt.Sprintf("SELECT o.id, o.total_%d, c.name FROM shop.orders_%d o JOIN shop.customers c ON c.id = o.customer WHERE o.id IN (1,2,3) ORDER BY o.id", i, id)
		case 1:
			text = fmt.Sprintf("UPDATE shop.stock_%d SET amount = amount - 1, note = 'sold' WHERE article = %d", id, i)
		case 2:
			text = "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END" + strings.Repeat(fmt.Sprintf(", column_%d AS alias_%d", id, i), i) + " FROM wide"
		case 3:
			text = fmt.Sprintf("SELECT %d AS n_%d", i, id%1000)
		case 4:
			if _, err := c.PrepareContext(ctx, fmt.Sprintf("SELECT ? + ? AS p_%d", id%1000)); err != nil {
				return fmt.Errorf("prepare: %w", err)
			}
			continue
		}
		if _, err := c.ExecContext(ctx, text); err != nil && !isServerError(err) {
			return fmt.Errorf("execute: %w", err)
		}
	}
	if n%2 == 0 {
		return nil
	}
	// Half of them read a long result and send a long statement.
	var length int
	err = c.QueryRowContext(ctx, "SELECT LENGTH('"+strings.Repeat("x", 100_000)+"')").Scan(&length)
	if err == nil {
		var long string
		err = c.QueryRowContext(ctx, "SELECT REPEAT('x', 200000)").Scan(&long)
	}
	if err != nil {
		return fmt.Errorf("long values: %w", err)
	}
	return nil
}

func isServerError(err error) bool {
	_, ok := err.(*mysql.MySQLError) //nolint:errorlint // the driver does not wrap it
	return ok
}

// TestReturnIdleMemory has sixteen connections send statements of six megabytes that are buffered whole, and
// then waits: the gateway returns that memory to the system.
func TestReturnIdleMemory(t *testing.T) {
	server := testmysql.Start(t)
	s := startServe(t, "mysql://"+server.Addr, "--return-idle-memory", "500ms", "--statement-memory", "8MiB")
	cfg := server.Config("app")
	cfg.Addr = s.listen
	process, err := weigh.Open(s.pid)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	long := "SELECT LENGTH('" + strings.Repeat("x", 6<<20) + "')"
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			var n int
			if err := db.QueryRowContext(t.Context(), long).Scan(&n); err != nil || n != 6<<20 {
				t.Errorf("a long statement: %d, %v", n, err)
			}
		})
	}
	testwait.Group(t, "the long statements", &clients)
	counter := func(name string) float64 {
		return s.metrics(t)["tare_idle_memory_"+name].GetMetric()[0].GetCounter().GetValue()
	}
	// On a busy machine an idle period may occur before the end of the long statements, which then allocate
	// the returned memory again.
	testwait.UntilState(t, "8 MiB of idle memory to be returned", func() (string, bool) {
		usage, err := process.Usage()
		if err != nil {
			t.Fatal(err)
		}
		returned := counter("returned_bytes_total")
		return fmt.Sprintf("%.0f bytes returned; resident %d, at most %d", returned, usage.RSS, usage.PeakRSS), returned >= 8<<20 && usage.RSS <= usage.PeakRSS-8<<20
	})
}

// TestPlansPage reads /api/v1/plans of a gateway with plans.
func TestPlansPage(t *testing.T) {
	server := testmysql.Start(t)
	s := startServe(t, "mysql://"+server.Addr)
	cfg := server.Config("app")
	cfg.Addr = s.listen
	occupy(t, cfg, 2, 20)
	var plans memory.Plans
	if err := json.Unmarshal(s.get(t, "/api/v1/plans?limit=3"), &plans); err != nil {
		t.Fatal(err)
	}
	if plans.Entries < 30 || plans.Bytes <= 0 || plans.Capacity != 32<<20 || len(plans.Largest) != 3 {
		t.Fatalf("plans: %+v", plans)
	}
	for i, p := range plans.Largest {
		if p.Bytes <= 0 || p.Digest.IsZero() || p.Type == "" || i > 0 && p.Bytes > plans.Largest[i-1].Bytes {
			t.Errorf("plan %d: %+v", i, p)
		}
	}
	if p := plans.Largest[0]; p.Type != "select" || !p.Parsed || !p.ReadOnly || len(p.Tables) == 0 {
		t.Errorf("the largest plan: %+v", p)
	}
}
