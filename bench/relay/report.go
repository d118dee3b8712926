package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/bench/programs"
)

// A Report has all measurements and their environment.
type Report struct {
	Time    time.Time `json:"time"`
	Machine struct {
		Kernel  string `json:"kernel"`
		CPU     string `json:"cpu"`
		CPUs    int    `json:"cpus"`
		LoadAvg string `json:"loadavg"` // before the first run
	} `json:"machine"`
	Versions map[string]string `json:"versions"` // of the programs, as they print them
	Options  *Options          `json:"options"`
	Runs     []Run             `json:"runs"`
	Memory   []Memory          `json:"memory,omitempty"`
}

func newReport(ctx context.Context, o *Options, t tools, server int) (*Report, error) {
	r := &Report{Time: time.Now().UTC().Truncate(time.Second), Options: o, Versions: map[string]string{"go": runtime.Version()}}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, fmt.Errorf("ask for the kernel's version: %w", err)
	}
	r.Machine.Kernel = unix.ByteSliceToString(uts.Release[:])
	r.Machine.CPUs = runtime.NumCPU()
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(info), "model name")
	rest, _, _ = strings.Cut(rest, "\n")
	r.Machine.CPU = strings.Trim(rest, "\t :")
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil, err
	}
	r.Machine.LoadAvg = strings.TrimSpace(string(load))
	mariadbd, err := os.Readlink("/proc/" + strconv.Itoa(server) + "/exe")
	if err != nil {
		return nil, err
	}
	if !strings.Contains(mariadbd, "mariadb") {
		mariadbd = "mysqld" // the one in PATH, which finds its libraries
	}
	for name, command := range map[string][]string{
		"sysbench": {t.sysbench, "--version"},
		"haproxy":  {t.haproxy, "-v"},
		"router":   {t.router, "--version"},
		"tare":     {t.tare, "version"},
		"against":  {t.against, "version"},
		"mariadbd": {mariadbd, "--no-defaults", "--version"},
	} {
		if command[0] == "" {
			continue // it does not participate
		}
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
		if err != nil {
			return nil, fmt.Errorf("ask %s for its version: %w", name, err)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		// Some start with their name or path, others with a word for it.
		for _, prefix := range []string{mariadbd, name, "tare", "HAProxy version", "MySQL Router  Ver"} {
			line = strings.TrimSpace(strings.TrimPrefix(line, prefix))
		}
		r.Versions[name] = line
	}
	return r, nil
}

func writeJSON(w io.Writer, r *Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeBench writes one benchmark line per run; benchstat -col /by compares the ways.
func writeBench(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: github.com/taredb/tare/bench/relay\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, r.Machine.CPU)
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(&b, "BenchmarkRelay/workload=%s/threads=%d/by=%s %d %.1f queries/s %.3f p50-ms %.3f p95-ms %.3f p99-ms %.1f server-cpu-ns/op",
			run.Workload, run.Threads, run.By, run.Queries, run.QPS, run.P50, run.P95, run.P99, run.perQuery(run.ServerCPU))
		if !isDirect(run.By) {
			fmt.Fprintf(&b, " %.1f cpu-ns/op %.1f user-ns/op %.1f sys-ns/op %.4f voluntary-switches/op %.4f involuntary-switches/op %.1f queued-ns/op %d peak-RSS-bytes",
				run.perQuery(run.CPU), run.perQuery(run.User), run.perQuery(run.Sys),
				run.perQuery(run.Voluntary), run.perQuery(run.Involuntary), run.perQuery(run.Queued), run.PeakRSS)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes the medians as Markdown.
func writeTable(w io.Writer, r *Report) error {
	var b strings.Builder
	v := r.Versions
	base := r.Options.base()
	fmt.Fprintf(&b, "%s, %d CPUs (%s), Linux %s. mariadbd %s; ", r.Time.Format(time.DateOnly), r.Machine.CPUs, r.Machine.CPU, r.Machine.Kernel, v["mariadbd"])
	if base == byHAProxy {
		fmt.Fprintf(&b, "HAProxy %s; ", v["haproxy"])
	}
	if v["router"] != "" {
		fmt.Fprintf(&b, "MySQL Router %s; ", v["router"])
	}
	if v["against"] != "" {
		fmt.Fprintf(&b, "against tare %s; ", v["against"])
	}
	fmt.Fprintf(&b, "sysbench %s; tare %s.\n", v["sysbench"], v["tare"])
	fmt.Fprintf(&b, "Medians over %d × %v. %s\n\n", r.Options.Rounds, r.Options.Measured, r.disturbance())

	t := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	row := func(cells ...string) { fmt.Fprintf(t, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	times := "× HAProxy"
	if base != byHAProxy {
		times = "× " + base
	}
	row("workload", "threads", "by", "qps", times, "p50 ms", "p95 ms", "p99 ms", "server CPU µs/query", "CPU µs/query", times,
		"user", "system", "switches/query", "of them forced", "peak RSS MiB", "server MiB", "others' CPU")
	row(slices.Concat(slices.Repeat([]string{"---"}, 3), slices.Repeat([]string{"---:"}, 15))...)
	for _, workload := range r.Options.Workloads {
		for _, threads := range r.Options.Threads {
			of := r.cell(workload, threads, base)
			for _, by := range r.Options.Ways {
				row(slices.Concat([]string{workload, strconv.Itoa(threads), by}, figures(r.cell(workload, threads, by), of, r.memory(workload, threads, by)))...)
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Options.measures(byDirect, byHAProxy) {
		if err := r.appendGoals(&b); err != nil {
			return err
		}
	}
	if r.Options.measures(byBare, byBoth) {
		r.appendCost(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxCost is the maximum factor of the CPU time per statement with both log and history.
const maxCost = 1.05

// appendCost appends the cost of log and history per statement, by the ratios within rounds.
func (r *Report) appendCost(b *strings.Builder) {
	b.WriteByte('\n')
	for _, workload := range r.Options.Workloads {
		for _, threads := range r.Options.Threads {
			all := ratios(r.cell(workload, threads, byBoth), r.cell(workload, threads, byBare), func(r *Run) float64 { return r.perQuery(r.CPU) })
			slices.Sort(all)
			n := len(all) - 1
			fmt.Fprintf(b, "%s, %d threads: with log and history a statement takes %.3f times the CPU time (quartiles of the rounds %.3f and %.3f; goal %.2f)%s.\n",
				workload, threads, programs.Median(all), all[n/4], all[n-n/4], maxCost, r.saturation(workload, threads))
		}
	}
}

// ratios returns a value of runs divided by that of base, by round.
func ratios(runs, base []Run, f func(*Run) float64) []float64 {
	of := make(map[int]float64)
	for i := range base {
		of[base[i].Round] = f(&base[i])
	}
	var out []float64
	for i := range runs {
		out = append(out, f(&runs[i])/of[runs[i].Round])
	}
	return out
}

// disturbance reports the CPU usage of other processes.
func (r *Report) disturbance() string {
	var shares []float64
	for i := range r.Runs {
		shares = append(shares, r.Runs[i].Foreign)
	}
	return fmt.Sprintf("Other processes used %.0f %% of the CPUs (median; most in one run %.0f %%).", 100*programs.Median(shares), 100*slices.Max(shares))
}

// figures returns a row's cells after the names; base are the runs of the same rounds that ratios refer to.
func figures(runs, base []Run, server string) []string {
	of := func(f func(*Run) float64) float64 {
		var values []float64
		for i := range runs {
			values = append(values, f(&runs[i]))
		}
		return programs.Median(values)
	}
	ratio := func(f func(*Run) float64) string { return fmt.Sprintf("%.2f", programs.Median(ratios(runs, base, f))) }
	cpu := func(r *Run) float64 { return r.perQuery(r.CPU) / 1e3 }
	qps := func(r *Run) float64 { return r.QPS }
	cells := []string{
		fmt.Sprintf("%.0f", of(qps)), ratio(qps),
		fmt.Sprintf("%.2f", of(func(r *Run) float64 { return r.P50 })),
		fmt.Sprintf("%.2f", of(func(r *Run) float64 { return r.P95 })),
		fmt.Sprintf("%.2f", of(func(r *Run) float64 { return r.P99 })),
		fmt.Sprintf("%.2f", of(func(r *Run) float64 { return r.perQuery(r.ServerCPU) / 1e3 })),
	}
	foreign := fmt.Sprintf("%.0f %%", of(func(r *Run) float64 { return 100 * r.Foreign }))
	if isDirect(runs[0].By) {
		return append(append(cells, slices.Repeat([]string{"–"}, 7)...), server, foreign)
	}
	return append(cells,
		fmt.Sprintf("%.2f", of(cpu)), ratio(cpu),
		fmt.Sprintf("%.2f", of(func(r *Run) float64 { return r.perQuery(r.User) / 1e3 })),
		fmt.Sprintf("%.2f", of(func(r *Run) float64 { return r.perQuery(r.Sys) / 1e3 })),
		fmt.Sprintf("%.2f", of(func(r *Run) float64 { return r.perQuery(r.Voluntary + r.Involuntary) })),
		fmt.Sprintf("%.2f", of(func(r *Run) float64 { return r.perQuery(r.Involuntary) })),
		fmt.Sprintf("%.1f", of(func(r *Run) float64 { return float64(r.PeakRSS) / (1 << 20) })),
		server, foreign)
}
