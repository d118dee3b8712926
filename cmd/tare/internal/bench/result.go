package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/taredb/tare/internal/quantity"
)

// A Metric is one measured value. Its unit is also its name, as in Go benchmark lines.
type Metric struct {
	Unit  string
	Value float64
}

// A Run is one measured period of a benchmark.
type Run struct {
	Seconds    float64
	Operations uint64
	Metrics    []Metric // in display order
}

// A Result is the result of a benchmark with all its runs.
type Result struct {
	// Name is the name of a Go benchmark without the prefix "Benchmark": "OLTP/point-select".
	Name string

	// Threads follows the name, like GOMAXPROCS in Go.
	Threads int

	Runs []Run
}

// value returns the metric of a unit and whether the run has it.
func (r *Run) value(unit string) (float64, bool) {
	for _, m := range r.Metrics {
		if m.Unit == unit {
			return m.Value, true
		}
	}
	return 0, false
}

// add appends a metric. NaN, which means not measured, is omitted.
func (r *Run) add(unit string, value float64) {
	if !math.IsNaN(value) {
		r.Metrics = append(r.Metrics, Metric{unit, value})
	}
}

func (r *Result) fullName() string { return r.Name + "-" + strconv.Itoa(r.Threads) }

// MarshalJSON implements json.Marshaler: metrics are one object, in their order.
func (r Run) MarshalJSON() ([]byte, error) {
	b := fmt.Appendf(nil, `{"seconds":%s,"operations":%d,"metrics":{`, number(r.Seconds), r.Operations)
	for i, m := range r.Metrics {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(m.Unit)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), number(m.Value)...)
	}
	return append(b, "}}"...), nil
}

// WriteJSON prints results as one JSON object.
func WriteJSON(w io.Writer, results []Result) error {
	type result struct {
		Name    string `json:"name"`
		Threads int    `json:"threads"`
		Runs    []Run  `json:"runs"`
	}
	out := struct {
		Benchmarks []result `json:"benchmarks"`
	}{make([]result, 0, len(results))}
	for _, r := range results {
		out.Benchmarks = append(out.Benchmarks, result(r))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}

// WriteLines prints results as Go benchmark lines, one per run.
func WriteLines(w io.Writer, results []Result) error {
	b := fmt.Appendf(nil, "goos: %s\ngoarch: %s\n", runtime.GOOS, runtime.GOARCH)
	for _, r := range results {
		for _, run := range r.Runs {
			b = fmt.Appendf(b, "Benchmark%s\t%8d", r.fullName(), run.Operations)
			for _, m := range run.Metrics {
				b = fmt.Appendf(b, "\t%12s %s", number(m.Value), m.Unit)
			}
			b = append(b, '\n')
		}
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}

// WriteTable prints results for people: for each metric the median over the runs and, if there are several,
// minimum and maximum.
func WriteTable(w io.Writer, results []Result) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	for i, r := range results {
		if i > 0 {
			fmt.Fprintln(tw)
		}
		runs := "1 run"
		if len(r.Runs) != 1 {
			runs = strconv.Itoa(len(r.Runs)) + " runs"
		}
		fmt.Fprintf(tw, "%s\t%s\t\t\t\n", r.fullName(), runs)
		if len(r.Runs) > 1 {
			fmt.Fprint(tw, "\tmedian\tleast\tmost\t\n")
		}
		for _, m := range r.Runs[0].Metrics {
			values := r.values(m.Unit)
			fmt.Fprintf(tw, "%s\t%s\t", m.Unit, grouped(median(values)))
			if len(r.Runs) > 1 {
				fmt.Fprintf(tw, "%s\t%s\t", grouped(values[0]), grouped(values[len(values)-1]))
			}
			fmt.Fprintln(tw)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print results: %w", err)
	}
	return nil
}

// values returns the sorted measurements of a unit.
func (r *Result) values(unit string) []float64 {
	var values []float64
	for i := range r.Runs {
		if v, ok := r.Runs[i].value(unit); ok {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

// median returns the median of sorted values, of which there is at least one.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// number formats v for machines: at least five significant digits, no exponent.
func number(v float64) string {
	if a := math.Abs(v); a >= 1e5 || a == math.Trunc(a) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	digits := 4 - int(math.Floor(math.Log10(math.Abs(v))))
	text := strconv.FormatFloat(v, 'f', max(0, min(digits, 12)), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// grouped formats v for people: four significant digits or an integer, in groups of three.
func grouped(v float64) string {
	if a := math.Abs(v); a < 1000 && a != math.Trunc(a) {
		digits := 3 - int(math.Floor(math.Log10(a)))
		return strconv.FormatFloat(v, 'f', min(digits, 6), 64)
	}
	return quantity.Grouped(strconv.FormatFloat(v, 'f', 0, 64))
}
