package tabledef

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestAddSplitPartition adds random parts and checks that each value, NULL included, is in exactly one of them, by the
// filters that events pass.
func TestAddSplitPartition(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	table := &rowstream.Table{Schema: "s", Name: "t", Columns: []rowstream.Column{
		{Name: "n", Type: "bigint", FullType: "bigint"}, {Name: "day", Type: "date", FullType: "date"}, {Name: "b", Type: "varbinary", FullType: "varbinary(9)"},
	}}
	random := map[string]func() string{
		"n":   func() string { return fmt.Sprint(rnd.IntN(41) - 20) },
		"day": func() string { return fmt.Sprintf("%04d-%02d-%02d", 1999+rnd.IntN(3), 1+rnd.IntN(12), 1+rnd.IntN(28)) },
		"b":   func() string { return strings.Repeat(string(rune('a'+rnd.IntN(4))), rnd.IntN(4)) },
	}
	quoted := func(column, v string) string {
		if column == "n" {
			return v
		}
		return "'" + v + "'"
	}
	for range 300 {
		n := 2 + rnd.IntN(5)
		column := []string{"n", "day", "b"}[rnd.IntN(3)]
		clause := "s.t: hash(" + column + ")"
		if rnd.IntN(3) > 0 {
			var bounds []string
			for len(bounds) < n-1 {
				if b := quoted(column, random[column]()); !slices.Contains(bounds, b) {
					bounds = append(bounds, b)
				}
			}
			slices.SortFunc(bounds, func(a, b string) int {
				order, err := compareBounds(a, b)
				if err != nil {
					t.Fatal(err)
				}
				return order
			})
			clause = "s.t: range(" + column + ", " + strings.Join(bounds, ", ") + ")"
		}
		targets := make([][]Spec, n)
		for i := range targets {
			targets[i] = []Spec{{Schema: "s", Name: "other"}, {Schema: "s", Name: "t"}}
		}
		if err := AddSplit(targets, clause); err != nil {
			t.Fatalf("%s: %v", clause, err)
		}
		var filters []*rowstream.Filter
		for i := range targets {
			spec := &targets[i][1]
			plan, _, err := spec.plan(table)
			if err != nil {
				t.Fatal(err)
			}
			if plan == nil {
				plan = &rowstream.Plan{}
			}
			if plan.Match, err = predicate(table, spec.Where); err != nil {
				t.Fatalf("%s: %v", clause, err)
			}
			f, err := rowstream.NewFilter(plan, len(table.Columns))
			if err != nil {
				t.Fatal(err)
			}
			filters = append(filters, f)
		}
		for try := range 60 {
			row := make(mysqlwire.TextRow, len(table.Columns))
			if try > 0 {
				for i := range row {
					row[i] = []byte(random[table.Columns[i].Name]())
				}
			}
			in := 0
			for _, f := range filters {
				if _, ok := f.Apply(row); ok {
					in++
				}
			}
			if in != 1 {
				t.Fatalf("%s: the row %q is in %d of %d parts", clause, row, in, n)
			}
		}
	}
}

func TestAddSplitErrors(t *testing.T) {
	for clause, want := range map[string]string{
		"s.t: hash(a, b)":                "hash has one column",
		"s.t: range(a, 1)":               "1 bounds; 3 shards need 2",
		"s.t: range(a)":                  "0 bounds",
		"s.t: range(a, 2, 1)":            "bounds must increase",
		"s.t: range(a, 1, 1.0)":          "bounds must increase",
		"s.t: range(a, 1, '2')":          "one is a number and the other text",
		"s.t: range(a, 1, b)":            "neither a number nor text",
		"s.t: range(a, '1', '2\\' OR 1)": "neither a number nor text",
		"s.t: list(a)":                   "is not of the form",
		"s.t: lookup(a)":                 "names the table that assigns values",
		"s.t: lookup(a, b)":              "names the table that assigns values",
		"s.t: lookup(, s.b)":             "names no column",
		"s.t: hash()":                    "names no column",
		"s.u: hash(a)":                   "which is not copied",
	} {
		targets := [][]Spec{{{Schema: "s", Name: "t"}}, {{Schema: "s", Name: "t"}}, {{Schema: "s", Name: "t"}}}
		if err := AddSplit(targets, clause); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", clause, err, want)
		}
	}
}

// TestMergeClauses checks the owners of rows that clauses give, and clauses that are refused.
func TestMergeClauses(t *testing.T) {
	merge := func(change func(*Spec), clauses ...string) ([][]Spec, error) {
		sources := make([][]Spec, 3)
		for i := range sources {
			sources[i] = []Spec{{Schema: "s", Name: "t", ToSchema: "to", ToName: "t"}}
			change(&sources[i][0])
		}
		for _, clause := range clauses {
			if err := AddMerge(sources, []string{"a:1", "b:2", "c:3"}, clause); err != nil {
				return nil, err
			}
		}
		return sources, nil
	}
	for clause, want := range map[string]string{
		"s.t: HASH( `a` )":         "table s.t; from source 2 of 3 by hash(a)",
		"s.t: range(a,10 , 20)":    "table s.t; from source 2 of 3 by range(a, 10, 20)",
		"s.t: range(a, 'b', 'bb')": "table s.t; from source 2 of 3 by range(a, 'b', 'bb')",
	} {
		sources, err := merge(func(*Spec) {}, clause)
		if err != nil {
			t.Fatal(err)
		}
		s := &sources[1][0]
		if got := s.Text(); got != want || s.Where != "" || s.Shard.Count != 0 {
			t.Errorf("%s: %q, where %q, shard %v", clause, got, s.Where, s.Shard)
		}
		if s.Owner.Column != "a" || s.StateTarget() != "to.t from source 2 " || s.Target() != "to.t" {
			t.Errorf("%s: column %s, state %q", clause, s.Owner.Column, s.StateTarget())
		}
	}
	for clause, want := range map[string]string{
		"s.t: all":            "does not define which rows a source has",
		"s.t: range(a, 1)":    "1 bounds; 3 shards need 2",
		"s.t: lookup(a, s.l)": "several sources could disagree about it: use hash or range",
		"s.t: hash(a, b)":     "hash has one column",
		"s.u: hash(a)":        "not copied",
		"s.t: id":             "is not of the form",
	} {
		if _, err := merge(func(*Spec) {}, clause); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", clause, err)
		}
	}
	if _, err := merge(func(s *Spec) { s.Where = "a > 1" }, "s.t: range(a, 1, 2)"); err == nil || !strings.Contains(err.Error(), "copied whole") {
		t.Errorf("a condition: %v", err)
	}
}
