package telemetry

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestEstimate copies random tables by chunks, and compares the estimates on the way with the number of rows: as many as promised are within their deviation.
func TestEstimate(t *testing.T) {
	rnd := testseed.Rand(t)
	for _, tt := range []struct {
		name string
		key  []rowstream.Column
		next func(i int) mysqlwire.TextRow // in any order
		desc bool
	}{
		{"integers", []rowstream.Column{{Type: "bigint"}}, func(i int) mysqlwire.TextRow { return key(fmt.Sprintf("%020d", 1_000_000_000+i)) }, false},
		{"integers with gaps", []rowstream.Column{{Type: "int"}}, func(int) mysqlwire.TextRow { return key(fmt.Sprintf("%09d", rnd.IntN(1e9))) }, false},
		{"descending", []rowstream.Column{{Type: "int"}}, func(int) mysqlwire.TextRow { return key(fmt.Sprintf("%09d", rnd.IntN(1e9))) }, true},
		{"times", []rowstream.Column{{Type: "datetime"}}, func(int) mysqlwire.TextRow {
			return key(fmt.Sprintf("2026-%02d-%02d %02d:%02d:%02d.%06d", 1+rnd.IntN(12), 1+rnd.IntN(28), rnd.IntN(24), rnd.IntN(60), rnd.IntN(60), rnd.IntN(1e6)))
		}, false},
		{"hashes", []rowstream.Column{{Type: "char"}}, func(int) mysqlwire.TextRow { return key(fmt.Sprintf("id-%016x", rnd.Uint64())) }, false},
		{"binary", []rowstream.Column{{Type: "binary"}}, func(int) mysqlwire.TextRow {
			return key(string([]byte{byte(rnd.IntN(256)), byte(rnd.IntN(256)), byte(rnd.IntN(256))}))
		}, false},
		{"tenants", []rowstream.Column{{Type: "int"}, {Type: "int"}}, func(int) mysqlwire.TextRow {
			return mysqlwire.TextRow{[]byte("7"), fmt.Appendf(nil, "%09d", rnd.IntN(1e9))}
		}, false},
	} {
		table := &rowstream.Table{Columns: tt.key, RowsEstimate: 17}
		for i := range tt.key {
			table.Key = append(table.Key, i)
		}
		within, estimates := 0, 0
		for range 100 {
			rows := 2000 + rnd.IntN(3000)
			keys := make([]mysqlwire.TextRow, rows)
			for i := range keys {
				keys[i] = tt.next(i)
			}
			slices.SortFunc(keys, func(a, b mysqlwire.TextRow) int { return bytes.Compare(a[len(a)-1], b[len(b)-1]) })
			if tt.desc {
				slices.Reverse(keys)
			}
			var e Estimate
			each := 50 + rnd.IntN(100)
			for from, number := 0, 0; from+each < rows; from, number = from+each, number+1 {
				c := rowstream.Chunk{Number: number, Upto: keys[from+each-1]}
				if number > 0 {
					c.After = keys[from-1]
				} else {
					e.Begin(table, c.Upto, keys[rows-1])
				}
				e.Add(c, int64(each))
				total, deviation, ok := e.Total()
				if ok != (number >= 2) {
					t.Fatalf("%s: known %v after %d chunks", tt.name, ok, number+1)
				}
				if !ok {
					continue
				}
				estimates++
				if math.Abs(float64(total)-float64(rows)) <= float64(deviation)+1 {
					within++
				}
				if from > rows/2 && math.Abs(float64(total)-float64(rows)) > float64(rows)/5 {
					t.Errorf("%s: %d ± %d rows after %d of %d", tt.name, total, deviation, from, rows)
				}
			}
		}
		if within < estimates*82/100 { // about 90 percent; those of a table are alike, so that a few tables say little
			t.Errorf("%s: %d of %d estimates are within their deviation", tt.name, within, estimates)
		}
	}
	var e Estimate
	if e.Begin(&rowstream.Table{Columns: []rowstream.Column{{Type: "enum"}}, Key: []int{0}}, key("a"), key("b")); e.width != 0 {
		t.Error("an ENUM is a number")
	}
	if c := e.Count(5, &rowstream.Table{RowsEstimate: 17}); c.Sampled || c.Estimate != 17 {
		t.Errorf("count %+v", c)
	}
}

func key(v string) mysqlwire.TextRow { return mysqlwire.TextRow{[]byte(v)} }
