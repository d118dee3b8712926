package rowstream

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A randomKey is a primary key of random columns and directions.
type randomKey struct {
	binary []bool // a column of bytes; otherwise a number
	down   []bool
}

func newRandomKey(rnd *rand.Rand) (k randomKey) {
	for range 1 + rnd.IntN(4) {
		k.binary, k.down = append(k.binary, rnd.IntN(2) == 0), append(k.down, rnd.IntN(2) == 0)
	}
	return k
}

func (k *randomKey) create(name string) string {
	var columns, parts []string
	for i := range k.down {
		columns = append(columns, fmt.Sprintf("c%d %s NOT NULL", i, []string{"INT", "VARBINARY(3)"}[btoi(k.binary[i])]))
		parts = append(parts, fmt.Sprintf("c%d%s", i, []string{"", " DESC"}[btoi(k.down[i])]))
	}
	return "CREATE TABLE " + name + " (v INT, " + strings.Join(columns, ", ") + ", PRIMARY KEY (" + strings.Join(parts, ", ") + "))"
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// row returns a random row. Few values make many rows share the first columns.
func (k *randomKey) row(rnd *rand.Rand) string {
	values := []string{"0"}
	for i := range k.binary {
		v := strconv.Itoa(rnd.IntN(14) - 7)
		if k.binary[i] {
			v = fmt.Sprintf("x'%x'", []string{"", "a", "a\x00", "a ", "b", "\xff", "\xff\x00"}[rnd.IntN(7)])
		}
		values = append(values, v)
	}
	return "(" + strings.Join(values, ", ") + ")"
}

// compare is the model: the order of two keys in the chunks of a table, which is that of the index if the
// index has both directions.
func (k *randomKey) compare(a, b []string) int {
	mixed := slices.Contains(k.down, true) && slices.Contains(k.down, false)
	for i := range a {
		c := cmp.Compare(a[i], b[i])
		if !k.binary[i] {
			x, _ := strconv.Atoi(a[i])
			y, _ := strconv.Atoi(b[i])
			c = cmp.Compare(x, y)
		}
		if mixed && k.down[i] {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// keysOf returns the rows of a statement as texts, from a column on.
func keysOf(t *testing.T, c *mysqlconn.Client, sql string, from int) (all [][]string) {
	t.Helper()
	if _, err := c.Query(t.Context(), sql, func(row mysqlwire.TextRow) error {
		var key []string
		for _, v := range row[from:] {
			key = append(key, string(v))
		}
		all = append(all, key)
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

func sorts(t *testing.T, c *mysqlconn.Client, sql string) bool {
	t.Helper()
	return strings.Contains(fmt.Sprint(keysOf(t, c, "EXPLAIN FORMAT=TRADITIONAL "+sql, 0)), "filesort")
}

// TestKeyOrders cuts and reads tables with random keys. Chunks have the rows of the model in its order, up to
// a random end, and no statement sorts.
func TestKeyOrders(t *testing.T) {
	for name, opts := range map[string][]testmysql.Option{"MariaDB": nil, "MySQL": {testmysql.WithMySQL()}} {
		t.Run(name, func(t *testing.T) {
			seed := testseed.New(t)
			rnd := rand.New(rand.NewPCG(seed, 1))
			s := testmysql.StartOrSkip(t, opts...)
			c, err := session.Connect(t.Context(), mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			for _, sql := range []string{"CREATE DATABASE orders", "USE orders"} {
				if _, err := c.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			for round := range 12 {
				k := newRandomKey(rnd)
				if round == 0 {
					k = randomKey{binary: []bool{false, true}, down: []bool{false, true}}
				}
				checkKeyOrder(t, c, rnd, k, fmt.Sprintf("t%d", round))
			}
			checkDense(t, c)
		})
	}
}

func checkKeyOrder(t *testing.T, c *mysqlconn.Client, rnd *rand.Rand, k randomKey, name string) {
	t.Helper()
	rows := make([]string, 400)
	for i := range rows {
		rows[i] = k.row(rnd)
	}
	create := k.create(name)
	for _, sql := range []string{create, "INSERT IGNORE INTO " + name + " VALUES " + strings.Join(rows, ", "), "ANALYZE TABLE " + name} {
		if _, err := c.Query(t.Context(), sql, func(mysqlwire.TextRow) error { return nil }); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	want := keysOf(t, c, "SELECT * FROM "+name, 1)
	slices.SortFunc(want, k.compare)
	table, err := ReadTable(t.Context(), c, "orders", name)
	if err != nil {
		t.Fatal(err)
	}
	reader := &reader{s: &snapshot{clients: []*mysqlconn.Client{c}}}
	last, err := reader.LastKey(t.Context(), table)
	if err != nil || !slices.Equal(keyTexts(last), want[len(want)-1]) {
		t.Fatalf("%s: the last key is %q (%v), want %q", create, last, err, want[len(want)-1])
	}
	for _, upto := range []int{len(want), 1 + rnd.IntN(len(want))} {
		from := Chunk{}
		if upto < len(want) {
			from.Upto = keyRow(want[upto-1])
		}
		size := int64(1 + rnd.IntN(60))
		cutter, err := newChunker(t.Context(), c, table, size*table.RowBytes(), from)
		if err != nil {
			t.Fatal(err)
		}
		cutter.dense = false
		var got [][]string
		for done := false; !done; {
			sql, err := cutter.offsetSQL(cutter.rows)
			if err != nil {
				t.Fatal(err)
			}
			if sorts(t, c, sql) {
				t.Fatalf("%s: %s sorts", create, sql)
			}
			chunk, err := cutter.Next(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			done = chunk.Upto == nil
			if done {
				chunk.Upto = from.Upto
			}
			if sql, err = table.SelectChunk(chunk, ""); err != nil {
				t.Fatal(err)
			}
			if sorts(t, c, sql) {
				t.Fatalf("%s: %s sorts", create, sql)
			}
			part := keysOf(t, c, sql, 1)
			if int64(len(part)) > size || !done && int64(len(part)) != size {
				t.Fatalf("%s: chunk %d has %d rows, want %d", create, chunk.Number, len(part), size)
			}
			got = append(got, part...)
		}
		if !slices.EqualFunc(got, want[:upto], slices.Equal[[]string]) {
			t.Fatalf("%s, up to row %d:\ngot  %q\nwant %q", create, upto, got, want[:upto])
		}
	}
	if table.Descending == nil {
		return
	}
	table.Descending = nil
	if sql, err := table.SelectChunk(Chunk{}, ""); err != nil || !sorts(t, c, sql) {
		t.Errorf("%s: in ascending order it is not sorted: EXPLAIN proves nothing (%v)", create, err)
	}
}

func keyTexts(key mysqlwire.TextRow) (all []string) {
	for _, v := range key {
		all = append(all, string(v))
	}
	return all
}

func keyRow(key []string) (row mysqlwire.TextRow) {
	for _, v := range key {
		row = append(row, []byte(v))
	}
	return row
}
