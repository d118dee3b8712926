package main

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSlowStatements counts the statements of a client: those of slow rows are one in slowEvery, of the intended digest.
func TestSlowStatements(t *testing.T) {
	for kind, want := range map[string]string{slowNone: "", slowOther: slowTexts[1], slowSame: slowTexts[0]} {
		c := &slowClient{rnd: rand.New(rand.NewPCG(1, 2)), rows: 1000, kind: kind}
		const n = 50_000
		slow := 0
		for range n {
			sql, isSlow := c.next(nil)
			text := string(sql)
			digits := strings.TrimLeft(text, "SELECTFROMWHEREcpauseidsometm,= ")
			id, err := strconv.Atoi(digits)
			if err != nil || id < 1 || id > c.rows || (id%slowEvery == 0) != isSlow {
				t.Fatalf("%s: %q, slow: %t (%v)", kind, text, isSlow, err)
			}
			if isSlow {
				slow++
			}
			if wantText := map[bool]string{false: slowTexts[0], true: want}[isSlow]; text != wantText+digits {
				t.Fatalf("%s: %q, slow: %t, want %q", kind, text, isSlow, wantText)
			}
		}
		if kind == slowNone && slow > 0 || kind != slowNone && (slow < n/slowEvery/2 || slow > 2*n/slowEvery) {
			t.Errorf("%s: %d of %d statements are slow", kind, slow, n)
		}
	}
}

func TestQuantileOf(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64((i*37)%100))
	}
	for q, want := range map[float64]float64{0: 0, 0.5: 50, 0.95: 95, 0.99: 99, 1: 99} {
		if got := quantileOf(values, q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}

func TestSlowTable(t *testing.T) {
	o := &Options{Threads: []int{8}, Ways: []string{byDirect, byPiped}, Rounds: 3, Measured: time.Second}
	var runs []slowRun
	for round := range 3 {
		for _, kind := range []string{slowNone, slowSame} {
			for i, by := range o.Ways {
				x := float64(round + 10*i)
				runs = append(runs, slowRun{threads: 8, kind: kind, by: by, perSecond: 1000 * x, fast: [3]float64{x, 2 * x, 3 * x}, slow: 20 + x})
			}
		}
	}
	var b bytes.Buffer
	if err := writeSlow(&b, o, []string{slowNone, slowSame}, runs); err != nil {
		t.Fatal(err)
	}
	want := `Medians over 3 × 1s. One statement of 100 is slow and takes 20ms; quantiles are those of the others.

| threads | slow            | by     | qps   | p50 ms | p95 ms | p99 ms | p50 of the slow |
| ---     | ---             | ---    | ---:  | ---:   | ---:   | ---:   | ---:            |
| 8       | none            | direct | 1000  | 1.00   | 2.00   | 3.00   | –               |
| 8       | none            | piped  | 11000 | 11.00  | 22.00  | 33.00  | –               |
| 8       | the same digest | direct | 1000  | 1.00   | 2.00   | 3.00   | 21.00           |
| 8       | the same digest | piped  | 11000 | 11.00  | 22.00  | 33.00  | 31.00           |
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
