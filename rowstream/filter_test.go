package rowstream

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysqlwire"
)

func TestFilter(t *testing.T) {
	tests := []struct {
		name string
		plan Plan
		in   mysqlwire.TextRow
		want mysqlwire.TextRow // nil if the row does not pass
	}{
		{"everything passes as it is", Plan{}, row("1", nil), row("1", nil)},
		{"an order of its own, and twice", Plan{Output: []Output{{Column: 1}, {Column: 0}, {Column: 1}}}, row("1", "2"), row("2", "1", "2")},
		{"a fixed value and NULL", Plan{Output: []Output{{From: FixedValue, Value: []byte("x")}, {From: FixedValue}}}, row("1"), row("x", nil)},
		{"shard keys", Plan{Output: []Output{{From: ShardValue}, {From: ShardValue, Column: 1}}}, row("123456789", nil), row("3421780262", "0")},
		{"equal bytes", Plan{Where: []Condition{{Column: 1, Equal: []byte("x")}}}, row("1", "x"), row("1", "x")},
		{"other bytes", Plan{Where: []Condition{{Column: 1, Equal: []byte("x")}}}, row("1", "X"), nil},
		{"NULL is equal to NULL", Plan{Where: []Condition{{}}}, row(nil, "x"), row(nil, "x")},
		{"NULL is not equal to nothing", Plan{Where: []Condition{{}}}, row("", "x"), nil},
		{"nothing is not NULL", Plan{Where: []Condition{{Equal: []byte{}}}}, row(nil, "x"), nil},
		{"all conditions", Plan{Where: []Condition{{Equal: []byte("1")}, {Column: 1, Equal: []byte("2")}}}, row("1", "3"), nil},
		{"numbers", Plan{Where: []Condition{{Equal: []byte("-01.50"), Compare: Number}}}, row("-1.5"), row("-1.5")},
		{"spaces at the end", Plan{Where: []Condition{{Equal: []byte("x"), Compare: Padded}}}, row("x  "), row("x  ")},
		{"its shard", Plan{Where: []Condition{{Shard: Shard{3, 4}}}}, row("123456789"), row("123456789")},
		{"another shard", Plan{Where: []Condition{{Shard: Shard{2, 4}}}}, row("123456789"), nil},
		{"NULL is of the first shard", Plan{Where: []Condition{{Shard: Shard{1, 4}}}}, row(nil), row(nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := NewFilter(&tt.plan, len(tt.in))
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
	for want, p := range map[string]Plan{
		"condition 1: column number 2 is out of range": {Where: []Condition{{}, {Column: 2}}},
		"condition 0: column number -1 is out":         {Where: []Condition{{Column: -1}}},
		"condition 0: there is no shard 5/4":           {Where: []Condition{{Shard: Shard{5, 4}}}},
		"output 0: column number 7 is out of range":    {Output: []Output{{Column: 7}}},
		"output 1: column number 9 is out of range":    {Output: []Output{{From: FixedValue, Column: 9}, {From: ShardValue, Column: 9}}},
	} {
		if _, err := NewFilter(&p, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestNumber(t *testing.T) {
	equal := [][2]string{{"1", "01"}, {"1", "+1.0"}, {"-0", "0.00"}, {".5", "0.50"}, {"1e2", "100"}, {"18446744073709551615", "18446744073709551615.0"}}
	other := [][2]string{{"1", "-1"}, {"18446744073709551615", "18446744073709551614"}, {"0.1", "0.10000000000000000001"}, {"", "0"}, {"x", "y"}, {".", "0"}, {"1", "1x"}}
	for _, p := range equal {
		if !Number.Equal([]byte(p[0]), []byte(p[1])) {
			t.Errorf("%s and %s differ", p[0], p[1])
		}
	}
	for _, p := range other {
		if Number.Equal([]byte(p[0]), []byte(p[1])) {
			t.Errorf("%s and %s are equal", p[0], p[1])
		}
	}
}

func TestParseShard(t *testing.T) {
	if s, err := ParseShard("2/5"); err != nil || s != (Shard{2, 5}) || s.String() != "2/5" {
		t.Errorf("%v, %v", s, err)
	}
	for _, bad := range []string{"", "2", "0/5", "6/5", "a/5", "2/b", "-1/5", "2/5/7"} {
		if _, err := ParseShard(bad); err == nil {
			t.Errorf("%q is a shard", bad)
		}
	}
	counts := [3]int{}
	for i := range counts {
		s := Shard{i + 1, 3}
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
	var lookup Lookup
	if err := lookup.Add([]byte("4711"), 3); err != nil {
		t.Fatal(err)
	}
	in := row("4711", "some text of a row", nil, "3.5", "tab\tand\nnewline")
	payload := in.AppendTo(nil)
	plan := Plan{
		Where: []Condition{{Column: 2}, {Column: 3, Equal: []byte("3.50"), Compare: Number}, {Shard: Shard{1, 1}}, {Lookup: &lookup, Number: 3}},
		Match: &Predicate{Op: And, Args: []Predicate{
			{Op: Between, Column: 0, Compare: Number, Values: values("1", "4711.0")},
			{Op: In, Column: 3, Compare: Double, Values: values("1e0", "35e-1")},
			{Op: Not, Args: []Predicate{{Op: Less, Column: 1, Compare: Padded, Values: values("a")}}},
		}},
		Output: []Output{{Column: 4}, {From: ShardValue}, {From: FixedValue, Value: []byte("x")}, {Column: 0}},
	}
	filter, err := NewFilter(&plan, len(in))
	if err != nil {
		t.Fatal(err)
	}
	var raw, out Batch
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
			text, err = AppendLoad(text[:0], &raw)
			return err
		}},
		{Name: "a batch as INSERT", Op: func() (err error) {
			var rows int
			text, _, rows, err = AppendInsert(text[:0], "INSERT INTO t VALUES ", &raw, 0, 1<<20, nil)
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
	in := row("1234567", "998877", strings.Repeat("0123456789-", 11)[:119], strings.Repeat("0123456789-", 6)[:59])
	payload := in.AppendTo(nil)
	filter, err := NewFilter(&Plan{Where: []Condition{{Shard: Shard{1, 1}}}, Output: []Output{{Column: 3}, {Column: 0}, {Column: 1}, {Column: 2}}}, 4)
	if err != nil {
		b.Fatal(err)
	}
	var batch Batch
	var view mysqlwire.TextRow
	var text []byte
	one := *batchOf(in)
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
			text, err = AppendLoad(text[:0], &one)
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
