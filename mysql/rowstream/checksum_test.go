package rowstream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/rowstream"
)

// A failingReader reads one row before it fails.
type failingReader struct{ rowstream.ViewReader }

var errReading = errors.New("reading failed")

func (failingReader) Read(context.Context, *rowstream.Table, rowstream.Chunk, rowstream.ReadOptions) iter.Seq2[*rowstream.Batch, error] {
	return func(yield func(*rowstream.Batch, error) bool) {
		_ = yield(testrows.BatchOf(testrows.Row("1", "x")), nil) && yield(nil, errReading)
	}
}

// TestSumFails sums up rows by reading them, which fails.
func TestSumFails(t *testing.T) {
	table := &rowstream.Table{Columns: []rowstream.Column{{Name: "id", Type: "int"}, {Name: "v", Type: "int"}}, Key: []int{0}}
	lookup := &rowstream.Lookup{Name: "l"}
	if err := lookup.Add([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	o := rowstream.SumOptions{Columns: []int{1}, Plan: &rowstream.Plan{Where: []rowstream.Condition{{Column: 1, Lookup: lookup}}}}
	if sum, err := rowstream.SumChunk(t.Context(), failingReader{}, table, rowstream.Chunk{}, o); !errors.Is(err, errReading) {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestSumsOfNumbers sums up rows of doubles of all sizes, floats and large SETs in the server and
// here: each row has the same sum, and no other row has it.
func TestSumsOfNumbers(t *testing.T) {
	cfg := testrows.App(testmysql.Start(t))
	c := testrows.Connect(t, cfg)
	var members []string
	for i := range 64 {
		members = append(members, fmt.Sprintf("'m%d'", i))
	}
	testrows.Exec(t, c, "CREATE OR REPLACE DATABASE sums", "CREATE TABLE sums.t (id INT PRIMARY KEY, d DOUBLE, f FLOAT, n DOUBLE(20,10), s SET("+strings.Join(members, ",")+"))")
	rnd := rand.New(rand.NewPCG(1, 2))
	values := []float64{0, math.Copysign(0, -1), 1, 1e-17, 1.1e-17, 5e-324, -5e-324, math.MaxFloat64, 0x1p-1022, 0.1, -0.012345678901234567, 1e-10, 1e15, 1e22, 1234567890123456.7}
	for len(values) < 2000 {
		if v := math.Float64frombits(rnd.Uint64()); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v, math.Ldexp(rnd.Float64(), -rnd.IntN(70)))
		}
	}
	slices.SortFunc(values, func(a, b float64) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	values = slices.Compact(values) // 0 and -0 both stay, because their texts differ and they are not adjacent
	var rows []string
	for i, v := range values {
		float := strconv.FormatFloat(float64(float32(math.Remainder(v, 1e30))), 'e', -1, 64)
		rows = append(rows, fmt.Sprintf("(%d, %s, %s, %.4f, %d)", i, strconv.FormatFloat(v, 'e', -1, 64), float, rnd.NormFloat64()*1e6, rnd.Uint64()>>uint(i%60)))
	}
	testrows.Exec(t, c, "INSERT INTO sums.t VALUES "+strings.Join(rows, ","), "INSERT INTO sums.t (id) VALUES (-1)")
	table, err := rowstream.ReadTable(t.Context(), c, "sums", "t")
	if err != nil {
		t.Fatal(err)
	}
	o := rowstream.SumOptions{Columns: []int{1, 2, 3, 4}}
	list := func(sums iter.Seq2[rowstream.RowSum, error]) (all []string) {
		t.Helper()
		for row, err := range sums {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprintf("%s %016x", row.Key[0], row.Sum))
		}
		return all
	}
	there := list(rowstream.SumRowsOf(t.Context(), c, table, rowstream.Chunk{}, o))
	for range rowstream.SumRowsOf(t.Context(), c, table, rowstream.Chunk{}, o) { // stops after the first row: the connection stays usable
		break
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("after a loop that was left: %v", err)
	}
	d, err := rowstream.OpenDirect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	view, err := d.Snapshot(t.Context(), 1, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = view.Close() }()
	here := list(rowstream.SumRead(t.Context(), view.Reader(0), table, rowstream.Chunk{}, o))
	if diff := cmp.Diff(there, here); diff != "" {
		t.Errorf("in the server, and here: %s", diff)
	}
	seen := make(map[string]string)
	for _, row := range there {
		key, sum, _ := strings.Cut(row, " ")
		if seen[sum] != "" {
			t.Errorf("rows %s and %s have the same sum", seen[sum], key)
		}
		seen[sum] = key
	}
	if len(there) != len(values)+1 {
		t.Errorf("%d rows were summed up, want %d", len(there), len(values)+1)
	}
}
