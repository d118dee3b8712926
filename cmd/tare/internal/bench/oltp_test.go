package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/internal/weigh"
)

// TestEveryWorkload runs each workload against a real server, with text and with prepared statements, and
// checks the invariants of its results.
func TestEveryWorkload(t *testing.T) {
	queriesPerOp := map[string][2]float64{ // minimum and maximum
		"point-select": {1, 1},
		"read-only":    {16, 16}, // 14 selects between BEGIN and COMMIT
		"read-write":   {1, 20},  // a conflict ends a transaction early
		"tpcc":         {1, 70},
	}
	for _, name := range Workloads() {
		for _, prepared := range []bool{false, true} {
			kind := "text"
			if prepared {
				kind = "prepared"
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				o := shortOLTP(t, name)
				o.Prepared, o.Count, o.Drop = prepared, 2, true
				r := runOLTP(t, o)
				if r.Name != "OLTP/"+name || r.Threads != 3 || len(r.Runs) != 2 {
					t.Errorf("got %s-%d with %d runs, want OLTP/%s-3 with 2", r.Name, r.Threads, len(r.Runs), name)
				}
				for _, run := range r.Runs {
					checkRun(t, &run)
					ops, _ := run.value("ops/s")
					queries, _ := run.value("queries/s")
					if per := queries / ops; per < queriesPerOp[name][0]-1e-9 || per > queriesPerOp[name][1]+1e-9 {
						t.Errorf("%v queries an operation, want %v", per, queriesPerOp[name])
					}
				}
				checkDropped(t, o.DSN, name)
			})
		}
	}
}

// checkRun checks that the metrics of a run are consistent.
func checkRun(t *testing.T, run *Run) {
	t.Helper()
	if run.Operations == 0 || run.Seconds < 0.15 {
		t.Errorf("%d operations in %v s, want some in at least 0.15 s", run.Operations, run.Seconds)
	}
	var last float64
	for _, unit := range []string{"p50-ns", "p99-ns", "p99.9-ns", "max-ns"} {
		v, ok := run.value(unit)
		if !ok || v < last || v <= 0 {
			t.Errorf("%s is %v, want at least %v", unit, v, last)
		}
		last = v
	}
	mean, _ := run.value("ns/op")
	ops, _ := run.value("ops/s")
	// The operations of a thread are consecutive, so those that finish in the run fill it, and the first of
	// each thread may have started before: by at most the longest, whose histogram bucket is a few percent
	// wide.
	if busy, most := mean*ops*run.Seconds/1e9, 3*(run.Seconds+1.1*last/1e9); busy > most*1.01 {
		t.Errorf("operations of 3 threads took %v s, want at most %v s in a run of %v s", busy, most, run.Seconds)
	}
}

func checkDropped(t *testing.T, dsn, workload string) {
	t.Helper()
	s := connectTest(t, dsn)
	n, err := s.runInt(t.Context(), nil, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()")
	if err != nil || n != 0 {
		t.Errorf("%d tables of %s are left, %v", n, workload, err)
	}
}

func connectTest(t *testing.T, dsn string) *connection {
	t.Helper()
	c, err := newConnector(dsn, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestOpenLoopDoesNotForgiveAStall stalls the server for a fifth of a second under a load with an operation
// due every millisecond: a closed loop would show a handful of slow operations, an open one must show all
// that were due meanwhile.
func TestOpenLoopDoesNotForgiveAStall(t *testing.T) {
	const stall = 200 * time.Millisecond
	o := shortOLTP(t, "point-select")
	r, dsn := newRelay(t, o.DSN)
	o.DSN, o.Rate, o.Duration = dsn, 1000, 2*time.Second
	o.Progress = progressWatch(t, "run 1 of 1,", func() {
		r.stalled.Lock()
		<-time.After(stall) // the stall itself
		r.stalled.Unlock()
	})
	result, err := OLTP(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	run := &result.Runs[0]
	p99, _ := run.value("p99-ns")
	longest, _ := run.value("max-ns")
	if p99 < float64(stall)/2 || longest < float64(stall)*0.8 {
		t.Errorf("p99 %v, max %v after a stall of %v: its waiting operations were forgiven",
			time.Duration(p99), time.Duration(longest), stall)
	}
}

// TestBehind checks that the delay of a load is that of the operations not started yet.
func TestBehind(t *testing.T) {
	l := &load{every: time.Millisecond, began: time.Now().Add(-time.Minute)}
	l.due.Store(59_000)
	if got := l.behind(); got < time.Second {
		t.Errorf("after a minute at 1,000 a second, with 59,000 given out, the load is %v behind, want at least 1s", got)
	}
	l.due.Store(120_000)
	if got := l.behind(); got != 0 {
		t.Errorf("a load that keeps up is %v behind", got)
	}
}

// sink keeps the last allocation of allocateUntilEnd.
var sink atomic.Pointer[[]byte]

// allocateUntilEnd allocates memory until the test ends. On a busy machine a short load may allocate less than the cost
// of a reading varies, which is subtracted.
func allocateUntilEnd(t *testing.T) {
	stop := make(chan struct{})
	var allocating sync.WaitGroup
	allocating.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond): // paces: allocations over the whole load
				b := make([]byte, 64<<10)
				sink.Store(&b)
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		testwait.Group(t, "the allocations to end", &allocating)
	})
}

// TestTargetIsWeighed uses this process as the target and checks each of its metrics, and the profiles.
func TestTargetIsWeighed(t *testing.T) {
	o := shortOLTP(t, "point-select")
	o.Target, o.Profile = weighed(t), filepath.Join(t.TempDir(), "new")
	allocateUntilEnd(t)
	result := runOLTP(t, o)
	run := &result.Runs[0]
	for _, unit := range []string{"CPU-ns/query", "GCCPU/s", "KB/s", "allocs/s", "B/query", "allocs/query", "RSS-bytes"} {
		if v, ok := run.value(unit); !ok || v <= 0 {
			t.Errorf("%s is %v, want more than 0: this process drives the load", unit, v)
		}
	}
	// User and system time divide the CPU time in the ratio of ticks of 10 ms, and one of them may be 0.
	for _, unit := range []string{"UserCPU/s", "SysCPU/s", "IdleCPU/s"} {
		if v, ok := run.value(unit); !ok || v < 0 {
			t.Errorf("%s is %v, %t; want a value of at least 0", unit, v, ok)
		}
	}
	for _, name := range []string{"cpu.pprof", "allocs.pprof"} {
		b, err := os.ReadFile(filepath.Join(o.Profile, name))
		if err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
			t.Errorf("%s: %d bytes, %v; want a compressed profile", name, len(b), err)
		}
	}
}

// TestWithoutATargetNothingIsMadeUp checks that metrics that were not measured are absent.
func TestWithoutATargetNothingIsMadeUp(t *testing.T) {
	result := runOLTP(t, shortOLTP(t, "point-select"))
	for _, unit := range []string{"UserCPU/s", "GCCPU/s", "KB/s", "RSS-bytes", "behind-ns"} {
		if v, ok := result.Runs[0].value(unit); ok {
			t.Errorf("%s is %v without a target in a closed loop", unit, v)
		}
	}
}

// TestFailuresEndTheBenchmark checks that each error names the failure.
func TestFailuresEndTheBenchmark(t *testing.T) {
	t.Run("a table that is too small", func(t *testing.T) {
		o := shortOLTP(t, "point-select")
		runOLTP(t, o)
		o.Rows = 400
		if _, err := OLTP(t.Context(), o); err == nil || !strings.Contains(err.Error(), "sbtest1 has 300 rows") {
			t.Errorf("got %v, want an error about the table's 300 rows", err)
		}
	})
	t.Run("a statement that fails", func(t *testing.T) {
		o := shortOLTP(t, "point-select")
		o.Duration = time.Hour
		s := connectTest(t, o.DSN)
		o.Progress = progressWatch(t, "run 1 of 1,", func() {
			// The benchmark may end before the response arrives.
			if err := s.run(context.WithoutCancel(t.Context()), "DROP TABLE sbtest1"); err != nil {
				t.Error(err)
			}
		})
		if _, err := OLTP(t.Context(), o); !isError(err, errNoSuchTable) {
			t.Errorf("got %v, want the server's error %d", err, errNoSuchTable)
		}
	})
	t.Run("a process that is not there", func(t *testing.T) {
		o := shortOLTP(t, "point-select")
		o.Target.PID = 1 << 30
		if _, err := OLTP(t.Context(), o); !errors.Is(err, weigh.ErrEnded) {
			t.Errorf("got %v, want ErrEnded", err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		o := shortOLTP(t, "point-select")
		o.Duration, o.Drop = time.Hour, true
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = progressWatch(t, "run 1 of 1,", cancel)
		if _, err := OLTP(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		checkDropped(t, o.DSN, o.Workload)
	})
}

// TestConflictsAreCounted has two sessions lock the same row: the transaction that cannot lock it is rolled
// back and counts as a conflict, not a failure.
func TestConflictsAreCounted(t *testing.T) {
	o := shortOLTP(t, "point-select")
	runOLTP(t, o)
	holder, s := connectTest(t, o.DSN), connectTest(t, o.DSN)
	for _, stmt := range []string{"BEGIN", "UPDATE sbtest1 SET k = 1 WHERE id = 7"} {
		if err := holder.run(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.run(t.Context(), "SET innodb_lock_wait_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	err := s.transaction(t.Context(), func() error { return s.run(t.Context(), "UPDATE sbtest1 SET k = 2 WHERE id = ?", int64(7)) })
	if !errors.Is(err, errConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if n, err := s.runInt(t.Context(), nil, "SELECT @@in_transaction"); n != 0 || err != nil {
		t.Errorf("the session is still in its transaction: %d, %v", n, err)
	}
	err = s.transaction(t.Context(), func() error { return s.run(t.Context(), "SELECT nonsense") })
	if err == nil || errors.Is(err, errConflict) {
		t.Errorf("got %v, want a failure", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := DefaultOLTPOptions()
	good.DSN = "u@tcp(127.0.0.1:1)/d"
	if err := good.Validate(); err != nil {
		t.Fatalf("the defaults with a DSN: %v", err)
	}
	for want, change := range map[string]func(*OLTPOptions){
		"--dsn is missing":          func(o *OLTPOptions) { o.DSN = "" },
		"--dsn: data":               func(o *OLTPOptions) { o.DSN = "nonsense" },
		"unknown workload":          func(o *OLTPOptions) { o.Workload = "nonsense" },
		"--threads":                 func(o *OLTPOptions) { o.Threads = 0 },
		"--rate":                    func(o *OLTPOptions) { o.Rate = -1 },
		"--duration":                func(o *OLTPOptions) { o.Duration = 0 },
		"--count":                   func(o *OLTPOptions) { o.Count = 0 },
		"--tables":                  func(o *OLTPOptions) { o.Rows = 1 },
		"--tables 999999999999":     func(o *OLTPOptions) { o.Tables = 999_999_999_999 }, // each takes memory
		"--rows 1000000001":         func(o *OLTPOptions) { o.Rows = 1_000_000_001 },
		"--warehouses 100001":       func(o *OLTPOptions) { o.Warehouses = 100_001 },
		"--count 10001: want 1 to ": func(o *OLTPOptions) { o.Count = 10_001 },
		"--speed":                   func(o *OLTPOptions) { o.Speed = -1 },
		"--pid":                     func(o *OLTPOptions) { o.Target.PID = -1 },
		"--metrics":                 func(o *OLTPOptions) { o.Target.Metrics = "127.0.0.1:1" },
		"--profile needs":           func(o *OLTPOptions) { o.Profile = "dir" },
	} {
		o := good
		change(&o)
		if _, err := OLTP(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
