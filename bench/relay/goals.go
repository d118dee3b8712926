package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/taredb/tare/bench/programs"
)

// Goals of ratios to HAProxy.
const (
	maxCPU    = 1.12
	maxCPUTLS = 1.15
	minQPS    = 0.98
	maxP99    = 1.05

	// minDirect is the minimum ratio of the direct way's throughput to that of the best proxy. Below it the server
	// or sysbench is saturated, all ratios approach 1, and a cell does not count.
	minDirect = 1.2

	confidence = 0.95
)

// An interval is the median of some rounds with the bounds that contain the median of all rounds with a
// probability.
type interval struct {
	median, low, high float64
	known             bool // there are enough rounds for the probability
}

// intervalOf returns the interval by order statistics, without an assumption on the distribution: the median lies
// outside the j-th least and greatest of n values if fewer than j of n fair coins show one of the sides.
func intervalOf(values []float64) interval {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	out := interval{median: programs.Median(values), low: values[0], high: values[n-1]}
	outside, ways := 0.0, 1.0 // coins that leave the interval, of 2^n; n choose j
	all := 1.0
	for range n {
		all *= 2
	}
	for j := 0; 2*j < n; j++ {
		outside += 2 * ways
		if 1-outside/all < confidence {
			break
		}
		out.low, out.high, out.known = values[j], values[n-1-j], true
		ways = ways * float64(n-j) / float64(j+1)
	}
	return out
}

// A goal is a bound on a ratio.
type goal struct {
	name  string
	of    func(*Run) float64
	bound float64 // 0: none
	least bool    // bound is the minimum
}

func (r *Report) goals() []goal {
	cpu := func(r *Run) float64 { return r.perQuery(r.CPU) }
	qps := func(r *Run) float64 { return r.QPS }
	p99 := func(r *Run) float64 { return r.P99 }
	if r.Options.TLS { // the processes that encrypt for HAProxy delay it
		return []goal{{name: "CPU", of: cpu, bound: maxCPUTLS}, {name: "throughput", of: qps}, {name: "p99", of: p99}}
	}
	return []goal{
		{name: "CPU", of: cpu, bound: maxCPU},
		{name: "throughput", of: qps, bound: minQPS, least: true},
		{name: "p99", of: p99, bound: maxP99},
	}
}

func (g *goal) heading() string {
	sign := "≤"
	if g.least {
		sign = "≥"
	}
	if g.bound == 0 {
		return g.name
	}
	return fmt.Sprintf("%s %s %.2f", g.name, sign, g.bound)
}

// verdict formats a ratio, and whether the better end of its interval is within the goal.
func (g *goal) verdict(i interval, counts bool) string {
	text := fmt.Sprintf("%.2f (%.2f–%.2f)", i.median, i.low, i.high)
	switch {
	case g.bound == 0 || !counts:
		return text
	case !i.known:
		return text + ", too few rounds"
	case g.least && i.high >= g.bound, !g.least && i.low <= g.bound:
		return text + ", met"
	}
	return text + ", missed"
}

// appendGoals appends the ratios of tare's ways to HAProxy with their intervals.
func (r *Report) appendGoals(b *strings.Builder) error {
	fmt.Fprintf(b, "\nRatios to HAProxy: median of the rounds, and the interval that contains it with %.0f %% probability. A goal is met\n"+
		"if the better end is within it. Rows whose direct throughput is below %.1f times the best proxy's do not count.\n\n", 100*confidence, minDirect)
	t := tabwriter.NewWriter(b, 0, 0, 1, ' ', 0)
	row := func(cells ...string) { fmt.Fprintf(t, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	goals := r.goals()
	head, rule := []string{"workload", "threads", "by"}, slices.Repeat([]string{"---"}, 3)
	for _, g := range goals {
		head, rule = append(head, g.heading()), append(rule, "---")
	}
	row(append(head, "direct × the best proxy")...)
	row(append(rule, "---")...)
	for _, workload := range r.Options.Workloads {
		for _, threads := range r.Options.Threads {
			base := r.cell(workload, threads, byHAProxy)
			for _, by := range r.Options.Ways {
				if !isTare(by) {
					continue
				}
				cells := []string{workload, strconv.Itoa(threads), by}
				direct := r.direct(workload, threads)
				for _, g := range goals {
					cells = append(cells, g.verdict(intervalOf(ratios(r.cell(workload, threads, by), base, g.of)), direct >= minDirect))
				}
				last := fmt.Sprintf("%.2f", direct)
				if direct < minDirect {
					last += ", does not count"
				}
				row(append(cells, last)...)
			}
		}
	}
	return t.Flush()
}

// direct returns the median over the rounds of the direct way's throughput divided by that of the best proxy.
func (r *Report) direct(workload string, threads int) float64 {
	best := make(map[int]float64)
	for _, by := range r.Options.Ways {
		for _, run := range r.cell(workload, threads, by) {
			if by != byDirect {
				best[run.Round] = max(best[run.Round], run.QPS)
			}
		}
	}
	var all []float64
	for _, run := range r.cell(workload, threads, byDirect) {
		all = append(all, run.QPS/best[run.Round])
	}
	return programs.Median(all)
}

// saturation returns a remark on a cell that does not count.
func (r *Report) saturation(workload string, threads int) string {
	if !r.Options.measures(byDirect) {
		return ""
	}
	if direct := r.direct(workload, threads); direct < minDirect {
		return fmt.Sprintf("; does not count, direct is %.2f times the best proxy", direct)
	}
	return ""
}
