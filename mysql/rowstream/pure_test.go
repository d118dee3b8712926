package rowstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestLoadSpecial finds characters at each place of random texts.
func TestLoadSpecial(t *testing.T) {
	rnd := testseed.Rand(t)
	for range 3000 {
		v := make([]byte, rnd.IntN(40))
		for i := range v {
			v[i] = "ab\x00\xff\x08\x0a\x0b\x5c\x5d\x88\x89\x8a\xdc"[rnd.IntN(13)]
			if rnd.IntN(6) > 0 && strings.IndexByte("\t\n\\", v[i]) >= 0 {
				v[i] = 'x'
			}
		}
		if len(v) > 0 && rnd.IntN(4) == 0 {
			v[rnd.IntN(len(v))] = '\t'
		}
		if got, want := loadSpecial(v), bytes.IndexAny(v, "\t\n\\"); got != want {
			t.Fatalf("%q: %d, want %d", v, got, want)
		}
	}
}

// TestTemporalOrder compares random times as numbers and as times, and refuses texts with a wrong character at each place.
func TestTemporalOrder(t *testing.T) {
	rnd := testseed.Rand(t)
	type moment struct {
		n  int64
		at time.Time
	}
	var last []moment
	for range 2000 {
		at := time.Date(1+rnd.IntN(9998), time.Month(1+rnd.IntN(12)), 1+rnd.IntN(31), rnd.IntN(24), rnd.IntN(60), rnd.IntN(60), 1000*rnd.IntN(1e6), time.UTC)
		if len(last) > 0 && rnd.IntN(3) == 0 {
			at = last[rnd.IntN(len(last))].at.Add([]time.Duration{0, time.Microsecond, -time.Microsecond, time.Second, time.Hour, 24 * time.Hour}[rnd.IntN(6)])
		}
		text := at.Format("2006-01-02 15:04:05.000000")
		n, ok := parseTemporal([]byte(text))
		if !ok {
			t.Fatalf("%s is not parsed", text)
		}
		if short := strings.TrimRight(strings.TrimRight(text, "0"), "."); strings.Count(short, ":") == 2 && len(short) >= len("2006-01-02 15:04:05") {
			if m, ok := parseTemporal([]byte(short)); !ok || m != n {
				t.Fatalf("%s: %d, %t, want %d", short, m, ok, n)
			}
		}
		if day, ok := strings.CutSuffix(text, " 00:00:00.000000"); ok {
			if m, ok := parseTemporal([]byte(day)); !ok || m != n {
				t.Fatalf("%s: %d, %t, want %d", day, m, ok, n)
			}
		}
		for _, other := range last {
			if (n < other.n) != at.Before(other.at) || (n == other.n) != at.Equal(other.at) {
				t.Fatalf("%v and %v: %d and %d", at, other.at, n, other.n)
			}
		}
		if last = append(last, moment{n, at}); len(last) > 20 {
			last = last[1:]
		}
	}
	for _, text := range []string{"2026-11-30 12:34:56.123456", "2026-11-30 12:34:56", "2026-11-30", "112:34:56.5", "12:34:56", "-12:34:56"} {
		if _, ok := parseTemporal([]byte(text)); !ok {
			t.Errorf("%s is not parsed", text)
		}
		for i := range text {
			for _, c := range "x/" {
				wrong := text[:i] + string(c) + text[i+1:]
				if n, ok := parseTemporal([]byte(wrong)); ok {
					t.Errorf("%s is %d", wrong, n)
				}
			}
		}
	}
	hours := func(text string) int64 {
		n, ok := parseTemporal([]byte(text))
		if !ok {
			t.Errorf("%s is not parsed", text)
		}
		return n
	}
	order := []string{"-838:59:59", "-12:34:57", "-12:34:56", "00:00:00", "00:00:00.000001", "00:00:59", "00:59:59", "23:59:59", "100:00:00", "838:59:59"}
	if !slices.IsSortedFunc(order, func(a, b string) int {
		if hours(a) < hours(b) {
			return -1
		}
		return 1
	}) {
		t.Error("times of day are not in order")
	}
	for _, wrong := range []string{"", "-", "-2026-11-30", "2026-13-01", "2026-11-32", "2026-11-30 ", "2026-11-30 112:34:56", "1:02:03", "1234:02:03", "12:34", "12:34:5"} {
		if n, ok := parseTemporal([]byte(wrong)); ok {
			t.Errorf("%q is %d", wrong, n)
		}
	}
}

// TestMembers reads the members of types with each kind of end.
func TestMembers(t *testing.T) {
	for text, want := range map[string]string{
		"enum('a','b''c','')": `["a" "b'c" ""]`, "set('a')": `["a"]`, "enum('a,b','c)d')": `["a,b" "c)d"]`, "set('a') /* mariadb-5.3 */": `["a"]`,
		"enum('a',b)": "", "enum(a,'b')": "", `enum('a\\','b')`: "", "enum('a'": "", "enum('a')x": "", "enum(')": "", "enum": "", "int(11)": "",
	} {
		members, err := membersOf(text)
		if (err == nil) != (want != "") || err == nil && fmt.Sprintf("%q", members) != want {
			t.Errorf("%s: %q, %v", text, members, err)
		}
	}
	for bytes, want := range map[int]int{0: 2 * DefaultBatchBytes, 1: 2, 1000: 2000} {
		if got := RoomKept(bytes); got != want {
			t.Errorf("%d: %d, want %d", bytes, got, want)
		}
	}
}

// A batchReader returns batches, then an error.
type batchReader struct {
	Reader
	batches []*Batch
	err     error
	asked   ReadOptions
}

func (r *batchReader) Read(_ context.Context, _ *Table, _ Chunk, o ReadOptions) iter.Seq2[*Batch, error] {
	r.asked = o
	return func(yield func(*Batch, error) bool) {
		for _, b := range r.batches {
			if !yield(b, nil) {
				return
			}
		}
		if r.err != nil {
			yield(nil, r.err)
		}
	}
}

// TestSumReadEnds sums up rows of readers that fail, and of rows that cannot be summed up: the error is the last element.
func TestSumReadEnds(t *testing.T) {
	lost := errors.New("lost")
	table := &Table{Schema: "d", Name: "t", Columns: []Column{{Name: "id", Type: "int"}, {Name: "n", Type: "int", Nullable: true}}, Generated: []Column{{Name: "g", Type: "int"}}, Key: []int{0}}
	batch := func(ids ...string) *Batch {
		b := &Batch{Columns: 2}
		for _, id := range ids {
			row := mysqlwire.TextRow{[]byte(id), nil}
			if id == "NULL" {
				row[0] = nil
			}
			b.AppendRow(row)
		}
		return b
	}
	cut := batch("7", "8")
	cut.Bytes = cut.Bytes[:len(cut.Bytes)-1]
	plan := &Plan{Where: []Condition{{Column: 0, Equal: []byte("1")}}, Output: []Output{{Column: 1}}}
	for _, tt := range []struct {
		name    string
		o       SumOptions
		batches []*Batch
		err     error
		keys    string
		fails   string
	}{
		{"nothing", SumOptions{Columns: []int{0, 1}}, nil, nil, "", ""},
		{"rows", SumOptions{Columns: []int{0, 1}, Where: "n = 1", Plan: plan}, []*Batch{batch("1", "2"), batch("3")}, nil, "1 2 3", ""},
		{"an error", SumOptions{Columns: []int{0}}, nil, lost, "", "lost"},
		{"an error after rows", SumOptions{Columns: []int{0}}, []*Batch{batch("1")}, lost, "1", "lost"},
		{"a row without its end", SumOptions{Columns: []int{0}}, []*Batch{batch("1"), cut, batch("9")}, nil, "1 7", "ends within the value"},
		{"no key", SumOptions{Columns: []int{0}}, []*Batch{batch("1", "NULL", "2")}, nil, "1", ErrNullKey.Error()},
		{"an expression", SumOptions{Columns: []int{0}, Exprs: []string{"n + 1"}}, []*Batch{batch("1")}, nil, "", "n + 1 is computed by servers alone"},
		{"a generated column", SumOptions{Columns: []int{0, 2}}, []*Batch{batch("1")}, nil, "", "its generated column g is not read"},
	} {
		r := &batchReader{batches: tt.batches, err: tt.err}
		var keys []string
		var failed error
		for row, err := range SumRead(t.Context(), r, table, Chunk{Number: 3}, tt.o) {
			if failed != nil {
				t.Errorf("%s: it goes on after %v", tt.name, failed)
			}
			if failed = err; err == nil {
				keys = append(keys, string(row.Key[0]))
			}
		}
		if strings.Join(keys, " ") != tt.keys || (failed == nil) != (tt.fails == "") || failed != nil && !strings.Contains(failed.Error(), tt.fails) {
			t.Errorf("%s: keys %q, %v", tt.name, keys, failed)
		}
		if tt.name == "rows" && (r.asked.Where != "n = 1" || r.asked.Plan == nil || len(r.asked.Plan.Where) != 1 || r.asked.Plan.Output != nil) {
			t.Errorf("%s: read with %+v", tt.name, r.asked)
		}
	}
	n := 0
	for range SumRead(t.Context(), &batchReader{batches: []*Batch{batch("1", "2"), batch("3")}}, table, Chunk{}, SumOptions{Columns: []int{0}}) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d rows before the end", n)
	}
}

// TestBounds has chunks of keys of one to three columns, in ascending and descending order: a row is in exactly one of two neighbors.
func TestBounds(t *testing.T) {
	table := func(descending ...bool) *Table {
		one := &Table{Schema: "d", Name: "t", KeyName: "PRIMARY", Descending: descending}
		for i := range descending {
			one.Columns, one.Key = append(one.Columns, Column{Name: string(rune('a' + i)), Type: "int", FullType: "int"}), append(one.Key, i)
		}
		return one
	}
	tuple := func(values ...string) (row mysqlwire.TextRow) {
		for _, v := range values {
			row = append(row, []byte(v))
		}
		return row
	}
	for _, tt := range []struct {
		t     *Table
		c     Chunk
		where string
		want  string
	}{
		{table(false), Chunk{}, "", ""},
		{table(false), Chunk{}, "x = 1", " WHERE (x = 1)"},
		{table(false), Chunk{After: tuple("1"), Upto: tuple("5")}, "", " WHERE (`a` > 1) AND (`a` <= 5)"},
		{table(true), Chunk{After: tuple("5"), Upto: tuple("1")}, "x = 1", " WHERE (`a` < 5) AND (`a` >= 1) AND (x = 1)"},
		{table(false, false), Chunk{After: tuple("1", "2")}, "", " WHERE (`a` >= 1 AND (`a` > 1 OR `a` = 1 AND `b` > 2))"},
		{table(false, true), Chunk{Upto: tuple("1", "2")}, "", " WHERE (`a` <= 1 AND (`a` < 1 OR `a` = 1 AND `b` >= 2))"},
		{table(false, false, false), Chunk{Upto: tuple("1", "2", "3")}, "", " WHERE (`a` <= 1 AND (`a` < 1 OR `a` = 1 AND `b` < 2 OR `a` = 1 AND `b` = 2 AND `c` <= 3))"},
	} {
		got, err := tt.t.conditions(tt.c, tt.where)
		if err != nil || got != tt.want {
			t.Errorf("%+v: %s, %v, want %s", tt.c, got, err, tt.want)
		}
	}
	two := table(false, false)
	if got, err := two.KeyIs(tuple("1", "2")); err != nil || got != "`a` = 1 AND `b` = 2" {
		t.Errorf("%s, %v", got, err)
	}
	for _, wrong := range []mysqlwire.TextRow{tuple("1"), tuple("1", "2", "3"), {nil, []byte("1")}, {[]byte("1"), nil}, tuple("1", "x")} {
		if got, err := two.KeyIs(wrong); err == nil {
			t.Errorf("%q is %s", wrong, got)
		}
		for _, c := range []Chunk{{Number: 7, After: wrong}, {Number: 7, Upto: wrong}} {
			if got, err := two.conditions(c, ""); err == nil || !strings.HasPrefix(err.Error(), "chunk 7 of d.t: ") {
				t.Errorf("%q is %s, %v", wrong, got, err)
			}
		}
	}
}
