package rowstream

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// checkDense cuts tables whose keys are consecutive integers, at the ends of their type too, into chunks of each size: all but the last one have that size,
// and the last one has a row.
func checkDense(t *testing.T, c *mysqlconn.Client) {
	const n = 40
	key := func(v int64) mysqlwire.TextRow { return mysqlwire.TextRow{strconv.AppendInt(nil, v, 10)} }
	for i, first := range []int64{1, -20, math.MinInt64, math.MinInt64 + 1, math.MaxInt64 - n + 1} {
		rows := make([]string, n)
		for j := range rows {
			rows[j] = fmt.Sprintf("(%d)", first+int64(j))
		}
		name := fmt.Sprintf("dense%d", i)
		for _, sql := range []string{"CREATE TABLE " + name + " (id BIGINT PRIMARY KEY)", "INSERT INTO " + name + " VALUES " + strings.Join(rows, ", ")} {
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		table, err := ReadTable(t.Context(), c, "orders", name)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{1, 3, 39, 40, 41, 1000} {
			for _, part := range []struct{ after, upto, estimate int64 }{
				{-1, -1, n}, {-1, -1, n / denseSpread}, {-1, -1, n/denseSpread - 1}, {4, -1, n}, {-1, 29, n}, {-1, 2 * n, n}, {4, 29, n}, {n - 1, -1, n}, {4, 4, n},
			} {
				if part.upto >= n && first > 0 {
					continue // there is no such integer
				}
				place := fmt.Sprintf("%d keys from %d in chunks of %d, %+v", n, first, size, part)
				table.RowsEstimate = part.estimate
				from, left := Chunk{Number: 7}, int64(n)
				if part.upto >= 0 {
					from.Upto, left = key(first+part.upto), min(n, part.upto+1)
				}
				if part.after >= 0 {
					from.After = key(first + part.after)
					left = max(0, left-part.after-1)
				}
				cutter, err := newChunker(t.Context(), c, table, size*table.RowBytes(), from)
				if err != nil {
					t.Fatal(err)
				}
				if want := part.estimate >= n/denseSpread && (first != math.MinInt64 || from.After != nil); cutter.dense != want {
					t.Errorf("%s: cut as keys that are close together: %t", place, cutter.dense)
				}
				if !cutter.dense {
					continue // see checkKeyOrder
				}
				last := first + part.after
				for number := 7; ; number++ {
					chunk, err := cutter.Next(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					want := Chunk{Number: number, After: from.After}
					if number > 7 {
						want.After = key(last)
					}
					if last += size; left > size {
						want.Upto = key(last)
					}
					if diff := cmp.Diff(want, chunk); diff != "" {
						t.Fatalf("%s: chunk %d: %s", place, number, diff)
					}
					if left -= size; chunk.Upto == nil {
						break
					}
				}
			}
		}
	}
}
