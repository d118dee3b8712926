package rowstream_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

func TestFilter(t *testing.T) {
	tests := []struct {
		name string
		plan rowstream.Plan
		in   mysqlwire.TextRow
		want mysqlwire.TextRow // nil if the row does not pass
	}{
		{"everything passes as it is", rowstream.Plan{}, testrows.Row("1", nil), testrows.Row("1", nil)},
		{"an order of its own, and twice", rowstream.Plan{Output: []rowstream.Output{{Column: 1}, {Column: 0}, {Column: 1}}}, testrows.Row("1", "2"), testrows.Row("2", "1", "2")},
		{"a fixed value and NULL", rowstream.Plan{Output: []rowstream.Output{{From: rowstream.FixedValue, Value: []byte("x")}, {From: rowstream.FixedValue}}}, testrows.Row("1"), testrows.Row("x", nil)},
		{"shard keys", rowstream.Plan{Output: []rowstream.Output{{From: rowstream.ShardValue}, {From: rowstream.ShardValue, Column: 1}}}, testrows.Row("123456789", nil), testrows.Row("3421780262", "0")},
		{"equal bytes", rowstream.Plan{Where: []rowstream.Condition{{Column: 1, Equal: []byte("x")}}}, testrows.Row("1", "x"), testrows.Row("1", "x")},
		{"other bytes", rowstream.Plan{Where: []rowstream.Condition{{Column: 1, Equal: []byte("x")}}}, testrows.Row("1", "X"), nil},
		{"NULL is equal to NULL", rowstream.Plan{Where: []rowstream.Condition{{}}}, testrows.Row(nil, "x"), testrows.Row(nil, "x")},
		{"NULL is not equal to nothing", rowstream.Plan{Where: []rowstream.Condition{{}}}, testrows.Row("", "x"), nil},
		{"nothing is not NULL", rowstream.Plan{Where: []rowstream.Condition{{Equal: []byte{}}}}, testrows.Row(nil, "x"), nil},
		{"all conditions", rowstream.Plan{Where: []rowstream.Condition{{Equal: []byte("1")}, {Column: 1, Equal: []byte("2")}}}, testrows.Row("1", "3"), nil},
		{"numbers", rowstream.Plan{Where: []rowstream.Condition{{Equal: []byte("-01.50"), Compare: rowstream.Number}}}, testrows.Row("-1.5"), testrows.Row("-1.5")},
		{"spaces at the end", rowstream.Plan{Where: []rowstream.Condition{{Equal: []byte("x"), Compare: rowstream.Padded}}}, testrows.Row("x  "), testrows.Row("x  ")},
		{"its shard", rowstream.Plan{Where: []rowstream.Condition{{Shard: rowstream.Shard{3, 4}}}}, testrows.Row("123456789"), testrows.Row("123456789")},
		{"another shard", rowstream.Plan{Where: []rowstream.Condition{{Shard: rowstream.Shard{2, 4}}}}, testrows.Row("123456789"), nil},
		{"NULL is of the first shard", rowstream.Plan{Where: []rowstream.Condition{{Shard: rowstream.Shard{1, 4}}}}, testrows.Row(nil), testrows.Row(nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := rowstream.NewFilter(&tt.plan, len(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time with memory from the first
				got, ok := f.Apply(tt.in)
				if ok != (tt.want != nil) {
					t.Fatalf("the row goes on: %v", ok)
				}
				if diff := cmp.Diff(tt.want, got); ok && diff != "" {
					t.Error(diff)
				}
				if ok && len(got) != f.Columns() {
					t.Errorf("%d columns, Columns says %d", len(got), f.Columns())
				}
			}
		})
	}
}

func TestFilterRefuses(t *testing.T) {
	for want, p := range map[string]rowstream.Plan{
		"condition 1: column number 2 is out of range": {Where: []rowstream.Condition{{}, {Column: 2}}},
		"condition 0: column number -1 is out":         {Where: []rowstream.Condition{{Column: -1}}},
		"condition 0: there is no shard 5/4":           {Where: []rowstream.Condition{{Shard: rowstream.Shard{5, 4}}}},
		"output 0: column number 7 is out of range":    {Output: []rowstream.Output{{Column: 7}}},
		"output 1: column number 9 is out of range":    {Output: []rowstream.Output{{From: rowstream.FixedValue, Column: 9}, {From: rowstream.ShardValue, Column: 9}}},
	} {
		if _, err := rowstream.NewFilter(&p, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestNumber(t *testing.T) {
	equal := [][2]string{{"1", "01"}, {"1", "+1.0"}, {"-0", "0.00"}, {".5", "0.50"}, {"1e2", "100"}, {"18446744073709551615", "18446744073709551615.0"}}
	other := [][2]string{{"1", "-1"}, {"18446744073709551615", "18446744073709551614"}, {"0.1", "0.10000000000000000001"}, {"", "0"}, {"x", "y"}, {".", "0"}, {"1", "1x"}}
	for _, p := range equal {
		if !rowstream.Number.Equal([]byte(p[0]), []byte(p[1])) {
			t.Errorf("%s and %s differ", p[0], p[1])
		}
	}
	for _, p := range other {
		if rowstream.Number.Equal([]byte(p[0]), []byte(p[1])) {
			t.Errorf("%s and %s are equal", p[0], p[1])
		}
	}
}

func TestParseShard(t *testing.T) {
	if s, err := rowstream.ParseShard("2/5"); err != nil || s != (rowstream.Shard{2, 5}) || s.String() != "2/5" {
		t.Errorf("%v, %v", s, err)
	}
	for _, bad := range []string{"", "2", "0/5", "6/5", "a/5", "2/b", "-1/5", "2/5/7"} {
		if _, err := rowstream.ParseShard(bad); err == nil {
			t.Errorf("%q is a shard", bad)
		}
	}
	counts := [3]int{}
	for i := range counts {
		s := rowstream.Shard{i + 1, 3}
		for _, v := range []string{"a", "b", "c", "1", "2", "3", ""} {
			if s.Has([]byte(v)) {
				counts[i]++
			}
		}
	}
	if sum := counts[0] + counts[1] + counts[2]; sum != 7 {
		t.Errorf("7 values are in %d shards", sum)
	}
}

func TestAllocs(t *testing.T) {
	var lookup rowstream.Lookup
	if err := lookup.Add([]byte("4711"), 3); err != nil {
		t.Fatal(err)
	}
	in := testrows.Row("4711", "some text of a row", nil, "3.5", "tab\tand\nnewline")
	payload := in.AppendTo(nil)
	plan := rowstream.Plan{
		Where: []rowstream.Condition{{Column: 2}, {Column: 3, Equal: []byte("3.50"), Compare: rowstream.Number}, {Shard: rowstream.Shard{1, 1}}, {Lookup: &lookup, Number: 3}},
		Match: &rowstream.Predicate{Op: rowstream.And, Args: []rowstream.Predicate{
			{Op: rowstream.Between, Column: 0, Compare: rowstream.Number, Values: testrows.Values("1", "4711.0")},
			{Op: rowstream.In, Column: 3, Compare: rowstream.Double, Values: testrows.Values("1e0", "35e-1")},
			{Op: rowstream.Not, Args: []rowstream.Predicate{{Op: rowstream.Less, Column: 1, Compare: rowstream.Padded, Values: testrows.Values("a")}}},
		}},
		Output: []rowstream.Output{{Column: 4}, {From: rowstream.ShardValue}, {From: rowstream.FixedValue, Value: []byte("x")}, {Column: 0}},
	}
	filter, err := rowstream.NewFilter(&plan, len(in))
	if err != nil {
		t.Fatal(err)
	}
	var raw, out rowstream.Batch
	var view mysqlwire.TextRow
	var text []byte
	alloctest.Run(t, []alloctest.Case{
		{Name: "a row appended as it came", Op: func() error {
			raw.Reset(len(in))
			for range 10 {
				raw.AppendPayload(payload)
			}
			return raw.Check()
		}},
		{Name: "a row parsed, filtered, projected and appended", Op: func() error {
			if err := view.Decode(payload, len(in)); err != nil {
				return err
			}
			got, ok := filter.Apply(view)
			if !ok {
				return errFiltered
			}
			out.Reset(filter.Columns())
			out.AppendRow(got)
			return out.Check()
		}},
		{Name: "a batch as LOAD DATA", Op: func() (err error) {
			text, err = rowstream.AppendLoad(text[:0], &raw)
			return err
		}},
		{Name: "a batch as INSERT", Op: func() (err error) {
			var rows int
			text, _, rows, err = rowstream.AppendInsert(text[:0], "INSERT INTO t VALUES ", &raw, 0, 1<<20, nil)
			if rows != raw.Rows {
				return errFiltered
			}
			return err
		}},
	})
}

// BenchmarkRow measures one row on its way into a batch and to LOAD DATA. The unoptimized equivalents are in
// bench/baseline/rows.
func BenchmarkRow(b *testing.B) {
	in := testrows.Row("1234567", "998877", strings.Repeat("0123456789-", 11)[:119], strings.Repeat("0123456789-", 6)[:59])
	payload := in.AppendTo(nil)
	filter, err := rowstream.NewFilter(&rowstream.Plan{Where: []rowstream.Condition{{Shard: rowstream.Shard{1, 1}}}, Output: []rowstream.Output{{Column: 3}, {Column: 0}, {Column: 1}, {Column: 2}}}, 4)
	if err != nil {
		b.Fatal(err)
	}
	var batch rowstream.Batch
	var view mysqlwire.TextRow
	var text []byte
	one := *testrows.BatchOf(in)
	for _, tt := range []struct {
		name string
		op   func() error
	}{
		{"as it came", func() error {
			batch.Reset(4)
			batch.AppendPayload(payload)
			return nil
		}},
		{"filtered", func() error {
			batch.Reset(4)
			if err := view.Decode(payload, 4); err != nil {
				return err
			}
			out, _ := filter.Apply(view)
			batch.AppendRow(out)
			return nil
		}},
		{"checked", one.Check},
		{"as LOAD DATA", func() (err error) {
			text, err = rowstream.AppendLoad(text[:0], &one)
			return err
		}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if err := tt.op(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
