package main

import (
	"strings"
	"testing"
	"time"
)

const sysbenchLine = "[ 7s ] thds: 4 tps: 812.91 qps: 13006.50 (r/w/o: 11380.68/0.00/1625.81) lat (ms,99%): 6.32 err/s: 0.00 reconn/s: 0.00"

const sysbenchEnd = `SQL statistics:
    transactions:                        8127   (812.50 per sec.)
    queries:                             130032 (13000.05 per sec.)
Latency (ms):
         99th percentile:                        6.55
`

func TestParse(t *testing.T) {
	s, ok := parseSecond(sysbenchLine)
	if want := (second{at: 7 * time.Second, transaction: 6.32}); !ok || s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
	if _, ok := parseSecond("Threads started!"); ok {
		t.Error("a line without figures is a second")
	}
	if q, p, err := parseEnd(sysbenchEnd); q != 13000.05 || p != 6.55 || err != nil {
		t.Errorf("got %v queries a second, %v ms, %v", q, p, err)
	}
	if _, _, err := parseEnd("FATAL"); err == nil {
		t.Error("a run without figures has them")
	}
}

func traced() *trace {
	t := &trace{statement: 2, transaction: 20}
	for i := range 10 {
		t.add(second{
			at: time.Duration(i+1) * time.Second, transaction: float64(12 + i), statement: 1.5, share: 0.25, bytes: int64(i) * 3e6, reason: "p99 < 2, \"raised\"",
		})
	}
	return t
}

func TestTrace(t *testing.T) {
	tr := traced()
	if got := tr.over(); got != 1 {
		t.Errorf("%d seconds are above 20 ms, want 1", got)
	}
	var b strings.Builder
	if err := tr.writeCSV(&b); err != nil {
		t.Fatal(err)
	}
	const want = `10.000,21.000,1.500,2.000,0.250,3.000,"p99 < 2, ""raised"""`
	if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); len(lines) != 11 || lines[10] != want {
		t.Errorf("got\n%s\nwhose last line should be\n%s", b.String(), want)
	}
}

// TestSVG draws four lines of ten seconds.
func TestSVG(t *testing.T) {
	var b strings.Builder
	if err := traced().writeSVG(&b); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "L"); n < 4*9 {
		t.Errorf("the drawing lacks lines:\n%s", b.String())
	}
}
