package rowstream

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
)

func textRow(values ...any) (row mysqlwire.TextRow) {
	for _, v := range values {
		if v == nil {
			row = append(row, nil)
			continue
		}
		row = append(row, fmt.Append(nil, v))
	}
	return row
}

// TestRowSQLForms has statements of keys of one column and of two, with conditions and other heads.
func TestRowSQLForms(t *testing.T) {
	columns := []Column{{Name: "id", Type: "int"}, {Name: "n", Type: "bigint"}, {Name: "x", Type: "blob"}}
	one, err := NewRowSQL("`t`", columns, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	two, err := NewRowSQL("`t`", columns, []int{1, 0})
	if err != nil {
		t.Fatal(err)
	}
	deletes := func(s *RowSQL) string {
		text := s.AppendKey(s.AppendKey(s.AppendDeleteHead(nil), textRow(1, 2, "x"), true), textRow(3, 4, "y"), false)
		return string(s.AppendDeleteTail(text))
	}
	replaces := func(s *RowSQL) string { return string(s.AppendRow(s.AppendReplaceHead(nil), textRow(1, 2, nil), true)) }
	for want, got := range map[string]string{
		"DELETE FROM `t` WHERE `id` IN (1,3)":                                                deletes(one),
		"DELETE FROM `t` WHERE `id` IN (1,3) AND (n > 5)":                                    deletes(one.Guarded("n > 5", false)),
		"UPDATE u SET x WHERE `id` IN (1,3)":                                                 deletes(one.Headed("UPDATE u SET x WHERE ")),
		"DELETE FROM `t` WHERE (`n`=2 AND `id`=1) OR (`n`=4 AND `id`=3)":                     deletes(two),
		"DELETE FROM `t` WHERE ((`n`=2 AND `id`=1) OR (`n`=4 AND `id`=3)) AND (n > 5)":       deletes(two.Guarded("n > 5", true)),
		"REPLACE INTO `t` (`id`, `n`, `x`) VALUES (_binary'1',_binary'2',NULL)":              replaces(two.Guarded("n > 5", false)),
		"INSERT INTO `t` (`id`, `n`, `x`) VALUES (_binary'1',_binary'2',NULL)":               replaces(two.Guarded("n > 5", true)),
		"REPLACE INTO `t` (`id`, `n`, `x`) VALUES (_binary'1',_binary'2',NULL) of the other": replaces(one) + " of the other",
	} {
		if strings.ReplaceAll(got, "_binary", "") != strings.ReplaceAll(want, "_binary", "") {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	if strings.Contains(deletes(two), "n > 5") || strings.Contains(deletes(one), "n > 5") {
		t.Error("a copy changes its original")
	}
	for _, c := range []struct {
		row mysqlwire.TextRow
		has bool
	}{{textRow(1, 2, nil), true}, {textRow(nil, 2, 3), false}, {textRow(1, nil, 3), false}} {
		if two.HasKey(c.row) != c.has {
			t.Errorf("%q has a key: %t", c.row, !c.has)
		}
	}
	if got := string(two.AppendKeyBytes([]byte("k"), textRow(10, 2, "x"))); got != "k\x012\x0210" {
		t.Errorf("the key's bytes are %q", got)
	}
	for name, c := range map[string]struct {
		columns []Column
		key     []int
	}{"no key": {columns, nil}, "an ENUM": {[]Column{{Name: "e", Type: "enum", FullType: "enum('a')"}}, []int{0}}} {
		if _, err := NewRowSQL("`t`", c.columns, c.key); err == nil {
			t.Errorf("%s: there are statements", name)
		}
	}
}

// TestRowBytes has the sizes of rows, by their definition and by the server's estimate.
func TestRowBytes(t *testing.T) {
	for full, want := range map[string]int64{
		"int": 29, "decimal(65,30)": 71, "varchar(10)": 43, "char": 7, "char(0)": 7, "varbinary(10)": 13, "binary": 4, "datetime(6)": 29, "enum('a','b')": 29, "bit(1)": 29,
		"text": 0, "longblob": 0, "json": 0, "uuid": 0, "point": 0,
	} {
		typ, _, _ := strings.Cut(full, "(")
		c := Column{Name: "c", Type: typ, FullType: full}
		if got := c.maxBytes(); got != want {
			t.Errorf("%s has %d bytes, want %d", full, got, want)
		}
		both := &Table{Columns: []Column{{Type: "int", FullType: "int"}, c}}
		if want > 0 {
			want += 29
		}
		if got := both.MaxRowBytes(); got != want {
			t.Errorf("a row with %s has %d bytes, want %d", full, got, want)
		}
	}
	for _, c := range []struct{ rows, bytes, want int64 }{{0, 1000, 1024}, {-1, 1000, 1024}, {1, 1000, 1000}, {10, 1000, 100}, {100, 1000, 16}, {1, 17, 17}} {
		if got := (&Table{RowsEstimate: c.rows, BytesEstimate: c.bytes}).RowBytes(); got != c.want {
			t.Errorf("%d rows of %d bytes: %d each, want %d", c.rows, c.bytes, got, c.want)
		}
	}
	for _, c := range []struct {
		row  mysqlwire.TextRow
		want int
	}{{textRow(), 0}, {textRow(nil), 64}, {textRow("ab"), 66}, {textRow("a'"), 68}, {textRow("ab", nil, "a'"), 198}} {
		if got := LiteralSize(c.row); got != c.want {
			t.Errorf("%q: %d bytes, want %d", c.row, got, c.want)
		}
	}
}

// TestNames has names of tables, columns, shards and checksums.
func TestNames(t *testing.T) {
	for text, works := range map[string]bool{"a.b": true, "a": false, ".b": false, "a.": false, "a.b.c": false, "": false, ".": false} {
		schema, name, err := ParseTable(text)
		if (err == nil) != works || works && (schema != "a" || name != "b") {
			t.Errorf("%q: %q and %q, %v", text, schema, name, err)
		}
	}
	if err := (&Column{Name: "c", Type: "xml", FullType: "xml(1)"}).Known(); err == nil || !strings.HasPrefix(err.Error(), "column c: values of the type xml(1) ") {
		t.Errorf("an unknown type: %v", err)
	}
	for typ := range kinds {
		if err := (&Column{Type: typ}).Known(); err != nil {
			t.Error(err)
		}
	}
	if got := (Checksum{3, 0xab}).String(); got != "3 rows, 00000000000000ab" {
		t.Error(got)
	}
	if got := (Shard{2, 5}).Condition(&Column{Name: "c", Type: "set"}); got != "COALESCE(CRC32(CAST(`c` AS SIGNED)), 0) % 5 = 1" {
		t.Error(got)
	}
	set := Column{Name: "c", Type: "set", Write: Wrap{"UPPER(", ")"}}
	if list, sets := LoadColumns([]Column{set, {Name: "j", Type: "json"}, {Name: "id", Type: "int", Auto: true}, {Name: "n", Type: "int"}}); list != "(@v0, @v1, @v2, `n`)" || sets != " SET `c` = UPPER(@v0), `j` = CONVERT(@v1 USING utf8mb4), `id` = @v2" {
		t.Errorf("%s%s", list, sets)
	}
	if list, sets := LoadColumns([]Column{{Name: "id", Type: "int", Auto: true}}); list != "(`id`)" || sets != "" {
		t.Errorf("%s%s", list, sets)
	}
	table := &Table{Schema: "s", Name: "t", Columns: []Column{{Name: "a", Type: "int"}, {Name: "f", Type: "float"}}}
	if got, err := table.SelectChunk(Chunk{}, ""); err != nil || got != "SELECT `a`, `f`*1e0 FROM `s`.`t`" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := table.ChunkCondition(Chunk{}); err != nil || got != "TRUE" {
		t.Errorf("%s, %v", got, err)
	}
	table.Key, table.KeyName = []int{0}, "PRIMARY"
	if got, err := table.SelectChunk(Chunk{After: textRow(1)}, "f > 2"); err != nil || got != "SELECT `a`, `f`*1e0 FROM `s`.`t` FORCE INDEX (`PRIMARY`) WHERE (`a` > 1) AND (f > 2) ORDER BY `a`" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := table.ChunkCondition(Chunk{After: textRow(1), Upto: textRow(2)}); err != nil || got != "(`a` > 1) AND (`a` <= 2)" {
		t.Errorf("%s, %v", got, err)
	}
	for _, c := range []Chunk{{After: textRow("x")}, {Upto: textRow(1, 2)}} {
		_, selects := table.SelectChunk(c, "")
		_, condition := table.ChunkCondition(c)
		_, offset := (&chunker{t: table, next: c, end: c.Upto}).offsetSQL(1)
		if selects == nil || condition == nil || offset == nil {
			t.Errorf("%+v: %v, %v, %v", c, selects, condition, offset)
		}
	}
}

// TestForeignKeyLines refuses lists and names of foreign keys that are cut off at each place.
func TestForeignKeyLines(t *testing.T) {
	const line = "  CONSTRAINT `k` FOREIGN KEY (`a`, `b`) REFERENCES `s`.`p` (`c`,`d`) ON DELETE CASCADE"
	k, ok, err := parseForeignKey(line)
	if !ok || err != nil || k.Schema != "s" || k.Table != "p" || !slices.Equal(k.Columns, []string{"a", "b"}) || !slices.Equal(k.Referred, []string{"c", "d"}) {
		t.Fatalf("%+v, %t, %v", k, ok, err)
	}
	whole := strings.Index(line, " ON DELETE")
	for n := len("  CONSTRAINT `"); n < len(line); n++ {
		k, ok, err := parseForeignKey(line[:n])
		switch {
		case n == whole:
			if !ok || err != nil || k.OnDelete != "" {
				t.Errorf("%q: %+v, %t, %v", line[:n], k, ok, err)
			}
		case ok:
			t.Errorf("%q is %+v", line[:n], k)
		case err == nil && strings.Contains(line[:n], "FOREIGN KEY "):
			t.Errorf("%q is no foreign key", line[:n])
		}
	}
	for text, want := range map[string]string{"(`a`)x": "[a] x", "(`a`, `b`)": "[a b] ", "(`a`,`b`)": "[a b] ", "()": "", "(`a`": "", "(`a`,": "", "(`a`;`b`)": "", "`a`)": "", "(a)": "", "(`a`,)": "", "(``)": ""} {
		names, rest, ok := cutIdents(text)
		if ok != (want != "") || ok && fmt.Sprint(names, " ", rest) != want || !ok && (names != nil || rest != text) {
			t.Errorf("%q: %q and %q, %t", text, names, rest, ok)
		}
	}
	if _, _, err := parseForeignKey("  FOREIGN KEY (`a`) REFERENCES `p` (`b`)"); err == nil {
		t.Error("a key without a name is accepted")
	}
}

// TestFilterBatches filters batches, up to the first value that a lookup does not have, or to the end of a batch that is cut off.
func TestFilterBatches(t *testing.T) {
	var l Lookup
	for v, shard := range map[string]int{"a": 1, "b": 2} {
		if err := l.Add([]byte(v), shard); err != nil {
			t.Fatal(err)
		}
	}
	in := &Batch{Columns: 2}
	for i, v := range []any{"a", "b", "a", "c", "a"} {
		in.AppendRow(textRow(i, v))
	}
	p := &Plan{Where: []Condition{{Column: 1, Lookup: &l, Number: 1}}, Output: []Output{{Column: 0}}}
	if !p.LooksUp() || (&Plan{Where: []Condition{{}}}).LooksUp() || (*Plan)(nil).LooksUp() {
		t.Error("it is not known which plans have a lookup")
	}
	for _, tt := range []struct {
		rows int // of in
		cut  int // bytes
		want string
		err  string
	}{{0, 0, "", ""}, {3, 0, "\x010\x012", ""}, {5, 0, "\x010\x012", "assigns to no shard"}, {3, 1, "\x010", "ends within the value of column 1"}} {
		f, err := NewFilter(p, 2)
		if err != nil {
			t.Fatal(err)
		}
		b := &Batch{Columns: 2, Rows: tt.rows, Bytes: in.Bytes[:4*tt.rows-tt.cut]}
		out := &Batch{Columns: 1}
		err = f.AppendBatch(out, b)
		if string(out.Bytes) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || out.Rows != len(tt.want)/2 {
			t.Errorf("%d rows: %d rows %q, %v", tt.rows, out.Rows, out.Bytes, err)
		}
	}
	if _, err := NewFilter(&Plan{Output: []Output{}}, 2); err == nil {
		t.Error("an output of no columns is accepted")
	}
	visited := make(map[string]int)
	if err := l.Add(nil, 7); err != nil {
		t.Fatal(err)
	}
	for stop := range 4 {
		clear(visited)
		l.Each(func(v []byte, shard int) bool {
			visited[fmt.Sprintf("%t %s", v == nil, v)] = shard
			return len(visited) != stop
		})
		want := stop
		if stop == 0 {
			want = 3
		}
		if len(visited) != want || visited["true "] != 7 {
			t.Errorf("%d values before the end: %v", stop, visited)
		}
	}
	if visited["false a"] != 1 || visited["false b"] != 2 {
		t.Errorf("%v", visited)
	}
}

// TestOddNumbers has numbers at the edges of each notation, and texts that are none.
func TestOddNumbers(t *testing.T) {
	for _, tt := range []struct {
		v     float64
		scale int
		want  string
	}{
		{1.5, 2, "1.50"},
		{1.5, 0, "2"},
		{1.5, -1, "1.5"},
		{math.Inf(1), -1, "+Inf"},
		{math.NaN(), -1, "NaN"},
		{0, -1, "0"},
		{-1, -1, "-1"},
		{1e15, -1, "1e15"},
		{1e14, -1, "100000000000000"},
		{123456789012345678, -1, "1.2345678901234568e17"},
		{1e-15, -1, "0.000000000000001"},
		{1e-16, -1, "1e-16"},
		{-1.5e300, -1, "-1.5e300"},
		{-2e-300, -1, "-2e-300"},
	} {
		if got := string(AppendDouble([]byte("x"), tt.v, tt.scale)); got != "x"+tt.want {
			t.Errorf("%v with %d digits: %s, want x%s", tt.v, tt.scale, got, tt.want)
		}
	}
	if got := string(appendDoubleParts([]byte("x"), []byte("1e999999"))); got != "x1e999999" {
		t.Errorf("a number beyond doubles is %s", got)
	}
	for _, tt := range []struct {
		c    Comparison
		a, b string
		want bool
	}{
		{Double, "1", "1e0", true},
		{Double, "-0", "0", true},
		{Double, "1", "2", false},
		{Double, "1", "x", false},
		{Double, "x", "x", true},
		{Temporal, "2020-01-01", "2020-01-01 00:00:00.0", true},
		{Temporal, "2020-01-01", "2020-01-02", false},
		{Temporal, "x", "y", false},
		{Temporal, "00:00:00", "x", false},
		{Padded, "a ", "a", true},
		{Padded, "a", " a", false},
		{Bytes, "1", "01", false},
		{Number, "1", "01", true},
	} {
		if got := tt.c.Equal([]byte(tt.a), []byte(tt.b)); got != tt.want {
			t.Errorf("%d: %s and %s are equal: %t", tt.c, tt.a, tt.b, got)
		}
	}
	for _, tt := range []struct {
		op   Operator
		v    string
		want truth
	}{{Equal, "2", yes}, {Equal, "3", no}, {NotEqual, "2", no}, {Less, "1", yes}, {Less, "2", no}, {LessOrEqual, "2", yes}, {LessOrEqual, "3", no}, {Greater, "3", yes}, {Greater, "2", no}, {GreaterOrEqual, "2", yes}, {GreaterOrEqual, "1", no}, {Equal, "x", unknown}, {NotEqual, "x", unknown}} {
		p := Predicate{Op: tt.op, Compare: Number}
		if got := p.relate(tt.op, []byte(tt.v), []byte("2")); got != tt.want {
			t.Errorf("%s and 2 by operator %d: %d, want %d", tt.v, tt.op, got, tt.want)
		}
		if p.relate(tt.op, nil, []byte("2")) != unknown || p.relate(tt.op, []byte("2"), nil) != unknown {
			t.Errorf("NULL by operator %d is known", tt.op)
		}
	}
}

// TestBatchSummer sums up rows with each form of value: as SumRead does, and up to the end of a batch that is cut off.
func TestBatchSummer(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "b", Type: "bit", FullType: "bit(64)"}, {Name: "x", Type: "blob", FullType: "blob"}, {Name: "d", Type: "double", FullType: "double", Nullable: true}, {Name: "v", Type: "varchar", FullType: "varchar(9)", Charset: "utf8mb4"}}, Key: []int{0}}
	rows := []mysqlwire.TextRow{textRow("\x01\x00", "long", "1.5", "a"), textRow("\xff", "", nil, "b,c"), textRow("\x00\x00\x00\x00\x00\x00\x01\x02", "y", "-0", "")}
	b := &Batch{Columns: 4}
	for _, r := range rows {
		b.AppendRow(r)
	}
	var sum, want Checksum
	s := NewBatchSummer(table)
	if err := s.Add(&sum, b); err != nil {
		t.Fatal(err)
	}
	var keys []string
	sums := make(map[uint64]bool)
	for row, err := range SumRead(t.Context(), &batchReader{batches: []*Batch{b}}, table, Chunk{}, SumOptions{Columns: []int{0, 1, 2, 3}}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(row.Key[0]))
		want.Rows++
		want.Sum ^= row.Sum
		sums[row.Sum] = true
	}
	if sum != want || len(sums) != 3 || strings.Join(keys, " ") != "256 255 258" {
		t.Errorf("%v of keys %q, want %v", sum, keys, want)
	}
	changed := &Batch{Columns: 4}
	for i, r := range rows {
		r = slices.Clone(r)
		if i == 0 {
			r[1] = []byte("longer")
		}
		changed.AppendRow(r)
	}
	var other Checksum
	if err := s.Add(&other, changed); err != nil || other.Rows != 3 || other.Sum == sum.Sum {
		t.Errorf("other rows: %v, %v", other, err)
	}
	cut := &Batch{Columns: 4, Rows: 3, Bytes: b.Bytes[:len(b.Bytes)-1]}
	if err := s.Add(&other, cut); !errors.Is(err, mysqlwire.ErrShortPacket) {
		t.Errorf("a batch that is cut off: %v", err)
	}
}

// TestLoadEnds writes texts of batches that are cut off, and of ones without columns.
func TestLoadEnds(t *testing.T) {
	b := &Batch{Columns: 2}
	b.AppendRow(textRow("a\tb", nil))
	b.AppendRow(textRow("c", "d"))
	cut := &Batch{Columns: 2, Rows: 2, Bytes: b.Bytes[:len(b.Bytes)-1]}
	for name, c := range map[string]struct {
		b     *Batch
		want  string
		fails bool
	}{"whole": {b, "a\\tb\t\\N\nc\td\n", false}, "cut off": {cut, "", true}, "empty": {&Batch{Columns: 2}, "", false}, "no columns": {&Batch{}, "", false}, "rows of no columns": {&Batch{Rows: 1}, "", true}} {
		got, err := AppendLoad(nil, c.b)
		if (err != nil) != c.fails || err == nil && string(got) != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if c.b.Columns == 0 {
			continue
		}
		var text []byte
		if _, err = StreamLoad(nil, c.b, func(p []byte) error { text = append(text, p...); return nil }); (err != nil) != c.fails || err == nil && string(text) != c.want {
			t.Errorf("%s as a stream: %q, %v", name, text, err)
		}
		if _, _, rows, err := AppendInsert([]byte("x"), "INSERT INTO t VALUES ", c.b, 0, 1<<20, nil); (err != nil) != c.fails || err == nil && rows != c.b.Rows {
			t.Errorf("%s as INSERT: %d rows, %v", name, rows, err)
		}
	}
	lost := errors.New("lost")
	if _, err := StreamLoad(nil, b, func([]byte) error { return lost }); !errors.Is(err, lost) {
		t.Errorf("a writer that fails: %v", err)
	}
}

// TestHoldRanges has ranges and capacities of types.
func TestHoldRanges(t *testing.T) {
	for typ, want := range map[string]string{"tinyint": "-128 127 255", "smallint": "-32768 32767 65535", "mediumint": "-8388608 8388607 16777215", "int": "-2147483648 2147483647 4294967295", "bigint": fmt.Sprint(math.MinInt64, math.MaxInt64, uint64(math.MaxUint64)), "year": "0 0 0"} {
		low, high := integerRange(&Column{Type: typ})
		zero, most := integerRange(&Column{Type: typ, Unsigned: true})
		if got := fmt.Sprint(low, high, most); got != want || zero != 0 {
			t.Errorf("%s: %s from %d, want %s", typ, got, zero, want)
		}
	}
	for full, want := range map[string]int64{"tinytext": 255, "tinyblob": 255, "text": 65535, "blob": 65535, "mediumtext": 1<<24 - 1, "longblob": 1<<32 - 1, "varbinary(7)": 7, "varchar(30)": 30, "binary": 0} {
		typ, _, _ := strings.Cut(full, "(")
		if got := capacity(&Column{Type: typ, FullType: full}); got != want {
			t.Errorf("%s: %d, want %d", full, got, want)
		}
	}
}
