package rowstream_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// passes reports whether a row passes a filter.
func passes(t testing.TB, p *rowstream.Predicate, row mysqlwire.TextRow) bool {
	t.Helper()
	f, err := rowstream.NewFilter(&rowstream.Plan{Match: p}, len(row))
	if err != nil {
		t.Fatal(err)
	}
	_, ok := f.Apply(row)
	return ok
}

func TestPredicateNull(t *testing.T) {
	between := rowstream.Predicate{Op: rowstream.Between, Compare: rowstream.Number, Values: [][]byte{nil, []byte("3")}}
	not := rowstream.Predicate{Op: rowstream.Not, Args: []rowstream.Predicate{between}}
	for value, want := range map[string]bool{"5": true, "3": false, "1": false} {
		if passes(t, &between, testrows.Row(value)) || passes(t, &not, testrows.Row(value)) != want {
			t.Errorf("%s between NULL and 3", value)
		}
	}
	if in := (rowstream.Predicate{Op: rowstream.In}); passes(t, &in, testrows.Row(nil)) || passes(t, &in, testrows.Row("x")) {
		t.Error("something is in nothing")
	}
}

func TestPredicateRefuses(t *testing.T) {
	deep := rowstream.Predicate{Op: rowstream.IsNull}
	for range rowstream.MaxPredicateDepth + 1 {
		deep = rowstream.Predicate{Op: rowstream.Not, Args: []rowstream.Predicate{deep}}
	}
	for want, p := range map[string]rowstream.Predicate{
		"there is no operator 0":          {},
		"there is no operator 99":         {Op: rowstream.And, Args: []rowstream.Predicate{{Op: 99}}},
		"a NOT of 0 conditions":           {Op: rowstream.Not},
		"a NOT of 2 conditions":           {Op: rowstream.Not, Args: make([]rowstream.Predicate, 2)},
		"a BETWEEN of 1 values":           {Op: rowstream.Between, Values: testrows.Values("1")},
		"a comparison with 0 values":      {Op: rowstream.Less},
		"column number 2 is out of range": {Op: rowstream.Or, Args: []rowstream.Predicate{{Op: rowstream.IsNull, Column: 2}}},
		`"x" of a condition is not a num`: {Op: rowstream.Equal, Compare: rowstream.Number, Values: testrows.Values("x")},
		`"inf" of a condition is not a `:  {Op: rowstream.Equal, Compare: rowstream.Double, Values: testrows.Values("inf")},
		"is no date or time":              {Op: rowstream.In, Compare: rowstream.Temporal, Values: testrows.Values("2020-01-01", "2020-1-1")},
		"nested deeper than":              deep,
	} {
		if _, err := rowstream.NewFilter(&rowstream.Plan{Match: &p}, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A columnSample is a column of TestPredicate: its comparison, values and constants.
type columnSample struct {
	definition string
	compare    rowstream.Comparison
	values     []string // SQL literals
	constants  []string // texts
}

var columnSamples = []columnSample{
	{"BIGINT", rowstream.Number, []string{"NULL", "0", "-1", "9007199254740993", "9007199254740992", "-9223372036854775808"}, []string{"0", "-1.5", "9007199254740992", "9007199254740993", "+1", "00"}},
	{"BIGINT UNSIGNED", rowstream.Number, []string{"NULL", "0", "18446744073709551615"}, []string{"-1", "18446744073709551615", "18446744073709551614.5"}},
	{"DECIMAL(30,10)", rowstream.Number, []string{"NULL", "0", "-0.5", "0.5", "12345678901234567890.0123456789"}, []string{"0.50", "-.5", "12345678901234567890.0123456788", "0"}},
	{"DOUBLE", rowstream.Double, []string{"NULL", "0", "-0.0", "0.1", "1e300", "-1e-300"}, []string{"0.1", "1e300", "0", "-1"}},
	{"FLOAT", rowstream.Double, []string{"NULL", "0.1", "16777216", "-1e30"}, []string{"0.1", "0.10000000149011612", "16777217"}},
	{"YEAR", rowstream.Number, []string{"NULL", "1999", "2024"}, []string{"2000", "2024"}},
	{"DATE", rowstream.Temporal, []string{"NULL", "'0000-00-00'", "'2024-02-29'", "'2024-00-00'", "'9999-12-31'"}, []string{"2024-02-29", "2024-02-29 00:00:00", "2024-02-28 23:59:59.9", "2024-03-01"}},
	{"DATETIME(6)", rowstream.Temporal, []string{"NULL", "'2024-02-29 00:00:00'", "'2024-02-29 12:30:00.000001'", "'0000-00-00'"}, []string{"2024-02-29", "2024-02-29 12:30:00", "2024-02-29 12:30:00.000001"}},
	{"TIMESTAMP(3) NULL", rowstream.Temporal, []string{"NULL", "'2024-02-29 00:00:00'", "'2038-01-19 03:14:07.999'"}, []string{"2024-02-29 00:00:00", "2038-01-19 03:14:07.999"}},
	{"TIME(6)", rowstream.Temporal, []string{"NULL", "'-838:59:59'", "'-00:00:00.5'", "'00:00:00'", "'100:00:00'", "'99:59:59.999999'"}, []string{"-00:00:00.5", "00:00:00", "100:00:00", "-838:59:59"}},
	{"VARBINARY(20)", rowstream.Bytes, []string{"NULL", "''", "'a'", "'a '", "'A'", "x'00ff'"}, []string{"", "a", "a ", "\x00\xff", "B"}},
	{"VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", rowstream.Padded, []string{"NULL", "''", "'a'", "'a '", "'a\\t'", "'é'", "'ab'"}, []string{"", "a", "a  ", "a\t", "é", "A"}},
}

// literal returns a constant as SQL.
func (c *columnSample) literal(v []byte) string {
	switch {
	case v == nil:
		return "NULL"
	case c.compare == rowstream.Number:
		return string(v)
	case c.compare == rowstream.Double:
		return string(v) + "+0e0"
	case c.compare == rowstream.Bytes:
		return fmt.Sprintf("x'%x'", v)
	}
	return fmt.Sprintf("_utf8mb4 x'%x' COLLATE utf8mb4_bin", v)
}

// randomPredicate returns a predicate over the columns c1, c2, … and its SQL.
func randomPredicate(r *rand.Rand, depth int) (rowstream.Predicate, string) {
	if depth > 0 && r.IntN(3) > 0 {
		op := rowstream.And + rowstream.Operator(r.IntN(3))
		if op == rowstream.Not {
			arg, sql := randomPredicate(r, depth-1)
			return rowstream.Predicate{Op: rowstream.Not, Args: []rowstream.Predicate{arg}}, "NOT (" + sql + ")"
		}
		p, texts := rowstream.Predicate{Op: op}, []string(nil)
		for range 2 + r.IntN(2) {
			arg, sql := randomPredicate(r, depth-1)
			p.Args, texts = append(p.Args, arg), append(texts, "("+sql+")")
		}
		return p, strings.Join(texts, map[rowstream.Operator]string{rowstream.And: " AND ", rowstream.Or: " OR "}[op])
	}
	column := r.IntN(len(columnSamples))
	c := &columnSamples[column]
	p := rowstream.Predicate{Op: rowstream.Equal + rowstream.Operator(r.IntN(int(rowstream.NullSafeEqual-rowstream.Equal)+1)), Column: column + 1, Compare: c.compare}
	value := func() string {
		var v []byte
		// For a value above the high bound, MariaDB 10.11 evaluates BETWEEN NULL AND the bound differently in
		// different parts of a statement.
		if p.Op == rowstream.Between || r.IntN(8) > 0 {
			v = []byte(c.constants[r.IntN(len(c.constants))])
		}
		p.Values = append(p.Values, v)
		return c.literal(v)
	}
	name := fmt.Sprintf("c%d", column+1)
	switch p.Op {
	case rowstream.IsNull:
		return p, name + " IS NULL"
	case rowstream.Between:
		low := value()
		return p, name + " BETWEEN " + low + " AND " + value()
	case rowstream.In:
		texts := []string{value()}
		for range r.IntN(4) {
			texts = append(texts, value())
		}
		return p, name + " IN (" + strings.Join(texts, ", ") + ")"
	}
	sign := map[rowstream.Operator]string{rowstream.Equal: "=", rowstream.NotEqual: "<>", rowstream.Less: "<", rowstream.LessOrEqual: "<=", rowstream.Greater: ">", rowstream.GreaterOrEqual: ">=", rowstream.NullSafeEqual: "<=>"}[p.Op]
	return p, name + " " + sign + " " + value()
}

// TestPredicate selects random rows by random conditions on a server and with predicates: the selections are
// equal.
func TestPredicate(t *testing.T) {
	c := testrows.Connect(t, testrows.App(testmysql.Start(t)))
	r := testseed.Rand(t)
	columns := []string{"id INT PRIMARY KEY"}
	for i, s := range columnSamples {
		columns = append(columns, fmt.Sprintf("c%d %s", i+1, s.definition))
	}
	testrows.Exec(t, c, "CREATE OR REPLACE DATABASE predicates", "CREATE TABLE predicates.t ("+strings.Join(columns, ", ")+")")
	for id := range 60 {
		row := []string{fmt.Sprint(id)}
		for _, s := range columnSamples {
			row = append(row, s.values[r.IntN(len(s.values))])
		}
		testrows.Exec(t, c, "INSERT INTO predicates.t VALUES ("+strings.Join(row, ", ")+")")
	}
	table, err := rowstream.ReadTable(t.Context(), c, "predicates", "t")
	if err != nil {
		t.Fatal(err)
	}
	var rows []mysqlwire.TextRow
	sql, err := table.SelectChunk(rowstream.Chunk{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Query(t.Context(), sql, func(row mysqlwire.TextRow) error {
		var kept mysqlwire.TextRow
		err := kept.Decode(row.AppendTo(nil), len(row))
		rows = append(rows, kept)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	chosen := 0
	for range 1500 {
		p, condition := randomPredicate(r, 3)
		var got []string
		for _, row := range rows {
			if passes(t, &p, row) {
				got = append(got, string(row[0]))
			}
		}
		chosen += len(got)
		want := testrows.Column(t, c, "SELECT id FROM predicates.t WHERE "+condition+" ORDER BY id")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("WHERE %s: the server chooses %v, the predicate %v", condition, want, got)
		}
	}
	if chosen < 1500 {
		t.Errorf("all conditions together chose %d rows", chosen)
	}
}
