package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// sampleResults returns two runs with a target and one without.
func sampleResults() []Result {
	run := func(scale float64) Run {
		r := Run{Seconds: 10.002 * scale, Operations: 55_010}
		for _, m := range []Metric{
			{"ns/op", 1_453_871.4 * scale},
			{"p99-ns", 3_100_000},
			{"queries/s", 5500.1},
			{"UserCPU/s", 0.41231 * scale},
			{"GCCPU/s", 0.00012345},
			{"CPU-ns/query", 45_640.3},
			{"allocs/query", 0},
			{"RSS-bytes", 31_457_280},
		} {
			r.add(m.Unit, m.Value)
		}
		return r
	}
	return []Result{
		{Name: "OLTP/point-select", Threads: 8, Runs: []Run{run(1), run(1.5), run(2)}},
		{Name: "Log/file/json/readers=0", Threads: 1, Runs: []Run{{Seconds: 1, Operations: 7, Metrics: []Metric{{"ns/op", 512.25}}}}},
	}
}

// TestGolden prints the sample in each form.
func TestGolden(t *testing.T) {
	datadriven.RunTest(t, "testdata/results", func(t *testing.T, d *datadriven.TestData) string {
		var b bytes.Buffer
		var err error
		switch d.Cmd {
		case "table":
			err = WriteTable(&b, sampleResults())
		case "lines":
			err = WriteLines(&b, sampleResults())
		case "json":
			err = WriteJSON(&b, sampleResults())
			if !json.Valid(b.Bytes()) {
				t.Errorf("this is no JSON:\n%s", b.Bytes())
			}
		default:
			t.Fatalf("unknown command %q", d.Cmd)
		}
		if err != nil {
			t.Fatal(err)
		}
		// Editors remove trailing blanks.
		var out strings.Builder
		for line := range strings.Lines(b.String()) {
			out.WriteString(strings.TrimRight(line, " \n") + "\n")
		}
		return out.String()
	})
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		v             float64
		machine, read string
	}{
		{0, "0", "0"},
		{45_640.3, "45640", "45,640"},
		{1_000, "1000", "1,000"},
		{999.96, "999.96", "1000.0"},
		{0.00012345, "0.00012345", "0.000123"},
		{1.5e9, "1500000000", "1,500,000,000"},
		{-1234567, "-1234567", "-1,234,567"},
		{12.3456789, "12.346", "12.35"},
	} {
		if got := number(c.v); got != c.machine {
			t.Errorf("number(%v) is %q, want %q", c.v, got, c.machine)
		}
		if got := grouped(c.v); got != c.read {
			t.Errorf("grouped(%v) is %q, want %q", c.v, got, c.read)
		}
	}
}
