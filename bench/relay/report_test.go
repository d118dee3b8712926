package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// report returns three rounds on a machine that is twice as slow in the second.
func report() *Report {
	r := &Report{
		Time:     time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Versions: map[string]string{"mariadbd": "10.11", "haproxy": "2.6", "sysbench": "1.0", "tare": "v1"},
		Options: &Options{Workloads: []string{"oltp_point_select"}, Threads: []int{8}, Rounds: 3, Measured: 10 * time.Second,
			Ways: []string{byDirect, byHAProxy, byForwarder, byTare}},
	}
	r.Machine.Kernel, r.Machine.CPU, r.Machine.CPUs = "6.1", "a CPU", 2
	for round, slow := range []int64{1, 2, 1} {
		for i, by := range []string{byDirect, byHAProxy, byForwarder, byTare} {
			run := Run{
				Workload: "oltp_point_select", Threads: 8, Round: round + 1, By: by,
				Queries: 1000, Seconds: 10, QPS: float64((50_000 - 5000*i) / int(slow)), P50: 0.25 * float64(slow), P95: 0.5 * float64(slow), P99: 1.25 * float64(slow),
				ServerCPU: 20_000_000 * slow, Foreign: 0.01 * float64(slow),
			}
			if by != byDirect {
				run.CPU = slow * int64(i) * 10_000_000
				run.User, run.Sys = run.CPU/4, run.CPU-run.CPU/4
				run.Voluntary, run.Involuntary, run.Queued, run.PeakRSS = 500, 250, 1_000_000, 3<<20
			}
			r.Runs = append(r.Runs, run)
		}
	}
	r.Memory = []Memory{{"oltp_point_select", 8, byDirect, 90 << 20, 120 << 20}, {"oltp_point_select", 8, byTare, 90 << 20, 100 << 20}}
	return r
}

func TestTable(t *testing.T) {
	want := `2026-03-04, 2 CPUs (a CPU), Linux 6.1. mariadbd 10.11; HAProxy 2.6; sysbench 1.0; tare v1.
Medians over 3 × 10s. Other processes used 1 % of the CPUs (median; most in one run 2 %).

| workload          | threads | by        | qps   | × HAProxy | p50 ms | p95 ms | p99 ms | server CPU µs/query | CPU µs/query | × HAProxy | user | system | switches/query | of them forced | peak RSS MiB | server MiB | others' CPU |
| ---               | ---     | ---       | ---:  | ---:      | ---:   | ---:   | ---:   | ---:                | ---:         | ---:      | ---: | ---:   | ---:           | ---:           | ---:         | ---:       | ---:        |
| oltp_point_select | 8       | direct    | 50000 | 1.11      | 0.25   | 0.50   | 1.25   | 20.00               | –            | –         | –    | –      | –              | –              | –            | 120        | 1 %         |
| oltp_point_select | 8       | haproxy   | 45000 | 1.00      | 0.25   | 0.50   | 1.25   | 20.00               | 10.00        | 1.00      | 2.50 | 7.50   | 0.75           | 0.25           | 3.0          | –          | 1 %         |
| oltp_point_select | 8       | forwarder | 40000 | 0.89      | 0.25   | 0.50   | 1.25   | 20.00               | 20.00        | 2.00      | 5.00 | 15.00  | 0.75           | 0.25           | 3.0          | –          | 1 %         |
| oltp_point_select | 8       | tare      | 35000 | 0.78      | 0.25   | 0.50   | 1.25   | 20.00               | 30.00        | 3.00      | 7.50 | 22.50  | 0.75           | 0.25           | 3.0          | 100        | 1 %         |

Ratios to HAProxy: median of the rounds, and the interval that contains it with 95 % probability. A goal is met
if the better end is within it. Rows whose direct throughput is below 1.2 times the best proxy's do not count.

| workload          | threads | by   | CPU ≤ 1.12       | throughput ≥ 0.98 | p99 ≤ 1.05       | direct × the best proxy |
| ---               | ---     | ---  | ---              | ---               | ---              | ---                     |
| oltp_point_select | 8       | tare | 3.00 (3.00–3.00) | 0.78 (0.78–0.78)  | 1.00 (1.00–1.00) | 1.11, does not count    |
`
	if diff := cmp.Diff(want, written(t, writeTable, report())); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestRatios lets HAProxy and the other way drift together: each round's ratio is 2, that of the medians is
// not.
func TestRatios(t *testing.T) {
	var runs, base []Run
	for i, drift := range []int64{1, 4, 3} {
		base = append(base, Run{Round: i + 1, Queries: 1, QPS: 1, CPU: drift})
		runs = append(runs, Run{Round: i + 1, Queries: 1, QPS: 2, CPU: drift * 2})
	}
	base[2].CPU = 1 // one disturbed run
	cells := figures(runs, base, "–")
	if cells[1] != "2.00" || cells[7] != "2.00" {
		t.Errorf("ratios of qps %s and CPU %s, want 2.00 and 2.00", cells[1], cells[7])
	}
}

// TestCost uses a machine that is twice as slow in the second round: ratios are within the same round.
func TestCost(t *testing.T) {
	r := report()
	r.Options.Ways = []string{byBare, byLog, byHistory, byBoth}
	r.Runs = nil
	for round, slow := range []int64{1, 2, 1, 1} {
		for i, by := range r.Options.Ways {
			cpu := slow * (40_000_000 + int64(i)*500_000)
			if by == byBoth && round == 3 {
				cpu *= 3 // a disturbed run
			}
			r.Runs = append(r.Runs, Run{Workload: "oltp_point_select", Threads: 8, Round: round + 1, By: by, Queries: 1000, QPS: 1000, CPU: cpu})
		}
	}
	got := written(t, writeTable, r)
	for _, want := range []string{
		"| × bare |", "| both    |", "mariadbd 10.11; sysbench 1.0; tare v1.",
		"\noltp_point_select, 8 threads: with log and history a statement takes 1.038 times the CPU time (quartiles of the rounds 1.038 and 3.112; goal 1.05).\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
}

// TestGoals judges seven rounds: the better end of each interval decides, except where the server is saturated or
// the rounds are too few.
func TestGoals(t *testing.T) {
	for _, c := range []struct {
		name   string
		rounds int
		direct float64 // of HAProxy's throughput
		tls    bool
		want   string
	}{
		{"counts", 7, 1.5, false, "| 1.20 (1.05–1.35), met | 0.90 (0.75–1.05), met | 1.30 (1.15–1.45), missed | 1.50 |"},
		{"saturated", 7, 1.19, false, "| 1.20 (1.05–1.35) | 0.90 (0.75–1.05) | 1.30 (1.15–1.45) | 1.19, does not count |"},
		{"few rounds", 5, 1.5, false, "| 1.15 (1.05–1.25), too few rounds | 0.85 (0.75–0.95), too few rounds | 1.25 (1.15–1.35), too few rounds | 1.50 |"},
		{"TLS", 7, 1.5, true, "| 1.20 (1.05–1.35), met | 0.90 (0.75–1.05) | 1.30 (1.15–1.45) | 1.50 |"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Report{Options: &Options{Workloads: []string{"w"}, Threads: []int{8}, Ways: []string{byDirect, byHAProxy, byBoth}, TLS: c.tls}}
			for i := range c.rounds {
				run := func(by string, cpu int64, qps, p99 float64) {
					r.Runs = append(r.Runs, Run{Workload: "w", Threads: 8, Round: i + 1, By: by, Queries: 1, CPU: cpu, QPS: qps, P99: p99})
				}
				step := 0.05 * float64(i)
				run(byDirect, 0, 1000*c.direct, 1)
				run(byHAProxy, 1000, 1000, 10)
				run(byBoth, int64(1050+50*i), 1000*(0.75+step), 11.5+10*step)
			}
			got := strings.Join(strings.Fields(written(t, func(w io.Writer, r *Report) error {
				var b strings.Builder
				err := r.appendGoals(&b)
				_, _ = io.WriteString(w, b.String())
				return err
			}, r)), " ")
			if !strings.HasSuffix(got, c.want) {
				t.Errorf("got %s, want the row to end in %s", got, c.want)
			}
		})
	}
}

// TestInterval compares the interval's bounds with those of binomial tables.
func TestInterval(t *testing.T) {
	for n, skip := range map[int]int{1: -1, 5: -1, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 20: 5} {
		var values []float64
		for i := range n {
			values = append(values, float64((i*7)%n)) // n values in some order, if 7 does not divide n
		}
		got := intervalOf(values)
		if got.known != (skip >= 0) || skip >= 0 && (got.low != float64(skip) || got.high != float64(n-1-skip)) {
			t.Errorf("%d rounds: %+v, want %d values outside on each side", n, got, skip)
		}
	}
}

func TestBenchLines(t *testing.T) {
	r := report()
	r.Runs = r.Runs[:2]
	got := written(t, writeBench, r)
	_, got, _ = strings.Cut(got, "cpu: a CPU\n")
	want := `BenchmarkRelay/workload=oltp_point_select/threads=8/by=direct 1000 50000.0 queries/s 0.250 p50-ms 0.500 p95-ms 1.250 p99-ms 20000.0 server-cpu-ns/op
BenchmarkRelay/workload=oltp_point_select/threads=8/by=haproxy 1000 45000.0 queries/s 0.250 p50-ms 0.500 p95-ms 1.250 p99-ms 20000.0 server-cpu-ns/op 10000.0 cpu-ns/op 2500.0 user-ns/op 7500.0 sys-ns/op 0.5000 voluntary-switches/op 0.2500 involuntary-switches/op 1000.0 queued-ns/op 3145728 peak-RSS-bytes
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestJSON(t *testing.T) {
	var got Report
	if err := json.Unmarshal([]byte(written(t, writeJSON, report())), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report(), &got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func written[T any](t *testing.T, write func(io.Writer, T) error, what T) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, what); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
