package binlog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// fuzzColumns are the columns from which FuzzRows builds tables, with their types in the log.
var fuzzColumns = []struct {
	column rowstream.Column
	log    mysqlwire.ColumnType
	meta   []byte
}{
	{rowstream.Column{Type: "tinyint", FullType: "tinyint(4)"}, mysqlwire.TypeTiny, nil},
	{rowstream.Column{Type: "smallint", FullType: "smallint(6)"}, mysqlwire.TypeShort, nil},
	{rowstream.Column{Type: "mediumint", FullType: "mediumint(9)"}, mysqlwire.TypeInt24, nil},
	{rowstream.Column{Type: "int", FullType: "int(11)"}, mysqlwire.TypeLong, nil},
	{rowstream.Column{Type: "bigint", FullType: "bigint(20)"}, mysqlwire.TypeLongLong, nil},
	{rowstream.Column{Type: "float", FullType: "float"}, mysqlwire.TypeFloat, []byte{4}},
	{rowstream.Column{Type: "double", FullType: "double"}, mysqlwire.TypeDouble, []byte{8}},
	{rowstream.Column{Type: "decimal", FullType: "decimal(10,0)"}, mysqlwire.TypeNewDecimal, []byte{10, 0}},
	{rowstream.Column{Type: "decimal", FullType: "decimal(65,30)"}, mysqlwire.TypeNewDecimal, []byte{65, 30}},
	{rowstream.Column{Type: "decimal", FullType: "decimal(4,4)"}, mysqlwire.TypeNewDecimal, []byte{4, 4}},
	{rowstream.Column{Type: "year", FullType: "year(4)"}, mysqlwire.TypeYear, nil},
	{rowstream.Column{Type: "date", FullType: "date"}, mysqlwire.TypeDate, nil},
	{rowstream.Column{Type: "time", FullType: "time"}, mysqlwire.TypeTime2, []byte{0}},
	{rowstream.Column{Type: "time", FullType: "time(1)"}, mysqlwire.TypeTime2, []byte{1}},
	{rowstream.Column{Type: "time", FullType: "time(4)"}, mysqlwire.TypeTime2, []byte{4}},
	{rowstream.Column{Type: "time", FullType: "time(6)"}, mysqlwire.TypeTime2, []byte{6}},
	{rowstream.Column{Type: "datetime", FullType: "datetime"}, mysqlwire.TypeDatetime2, []byte{0}},
	{rowstream.Column{Type: "datetime", FullType: "datetime(3)"}, mysqlwire.TypeDatetime2, []byte{3}},
	{rowstream.Column{Type: "datetime", FullType: "datetime(6)"}, mysqlwire.TypeDatetime2, []byte{6}},
	{rowstream.Column{Type: "timestamp", FullType: "timestamp"}, mysqlwire.TypeTimestamp2, []byte{0}},
	{rowstream.Column{Type: "timestamp", FullType: "timestamp(6)"}, mysqlwire.TypeTimestamp2, []byte{6}},
	{rowstream.Column{Type: "bit", FullType: "bit(13)"}, mysqlwire.TypeBit, []byte{5, 1}},
	{rowstream.Column{Type: "enum", FullType: "enum('a')"}, mysqlwire.TypeString, []byte{byte(mysqlwire.TypeEnum), 1}},
	{rowstream.Column{Type: "enum", FullType: "enum('a')"}, mysqlwire.TypeString, []byte{byte(mysqlwire.TypeEnum), 2}},
	{rowstream.Column{Type: "set", FullType: "set('a')"}, mysqlwire.TypeString, []byte{byte(mysqlwire.TypeSet), 3}},
	{rowstream.Column{Type: "char", FullType: "char(20)"}, mysqlwire.TypeString, []byte{byte(mysqlwire.TypeString), 80}},
	{rowstream.Column{Type: "char", FullType: "char(255)"}, mysqlwire.TypeString, []byte{0xCE, 0xFC}}, // 1020 bytes
	{rowstream.Column{Type: "varchar", FullType: "varchar(20)"}, mysqlwire.TypeVarchar, []byte{80, 0}},
	{rowstream.Column{Type: "varchar", FullType: "varchar(200)"}, mysqlwire.TypeVarchar, []byte{0x20, 3}},
	{rowstream.Column{Type: "tinyblob", FullType: "tinyblob"}, mysqlwire.TypeBlob, []byte{1}},
	{rowstream.Column{Type: "text", FullType: "text"}, mysqlwire.TypeBlob, []byte{2}},
	{rowstream.Column{Type: "mediumtext", FullType: "mediumtext"}, mysqlwire.TypeBlob, []byte{3}},
	{rowstream.Column{Type: "longblob", FullType: "longblob"}, mysqlwire.TypeBlob, []byte{4}},
	{rowstream.Column{Type: "point", FullType: "point"}, mysqlwire.TypeGeometry, []byte{4}},
}

// FuzzRows decodes the same rows with go-mysql: if both accept them, the values must be equal.
func FuzzRows(f *testing.F) {
	all := make([]byte, len(fuzzColumns))
	for i := range all {
		all[i] = byte(i)
	}
	f.Add(all, bytes.Repeat([]byte{0, 0x80, 1, 0x99}, 200))
	f.Add([]byte{3, 27, 30}, []byte{0, 1, 0, 0, 0, 2, 'h', 'i', 3, 0, 'a', 'b', 'c', 7})
	f.Add([]byte{12, 13, 14, 15}, []byte{0, 0x7F, 0xFF, 0xFE, 0x7F, 0xFF, 0xFE, 0xCE, 0x7F, 0xFF, 0xFE, 0xEC, 0x78, 0x7F, 0xFF, 0xFE, 0xF8, 0x5E, 0xE0})
	f.Fuzz(func(t *testing.T, picks, image []byte) {
		if len(picks) == 0 || len(picks) > 60 {
			return
		}
		var columns []rowstream.Column
		var types []mysqlwire.ColumnType
		var meta []byte
		for i, p := range picks {
			c := fuzzColumns[int(p)%len(fuzzColumns)]
			c.column.Name = fmt.Sprint("c", i)
			columns, types, meta = append(columns, c.column), append(types, c.log), append(meta, c.meta...)
			var l logColumn
			if err := errors.Join(l.set(c.log, c.meta), l.describe(&c.column, c.log, c.meta)); err != nil {
				t.Fatal(err)
			}
			if _, n := l.appendValue(nil, image); n > 0 && l.length(image) != n {
				t.Fatalf("%s: a value of %d bytes is stepped over by %d", c.column.FullType, n, l.length(image))
			}
		}
		log := &logBuilder{offset: 4}
		events := [][]byte{log.event(eventFormat, formatBody(false)), log.event(eventTableMap, tableMapBody(5, "t", types, meta)), log.event(eventWriteRows, rowsBody(5, Insert, len(types), image))}

		r, b := newLogReader(described(columns...), "")
		var err error
		for _, e := range events {
			if _, err = r.read(e); err != nil {
				break
			}
		}
		theirs, theirErr := goMySQLRows(events)
		if err != nil || theirErr != nil {
			return // they continue where bytes are missing, and stop at invalid values
		}
		listChanges(t, b)
		if len(b.Changes) != len(theirs) {
			t.Fatalf("%d rows, go-mysql has %d", len(b.Changes), len(theirs))
		}
		for i, c := range b.Changes {
			var row mysqlwire.TextRow
			if _, err := b.Tables[c.Table].Row(c.After, &row); err != nil {
				t.Fatal(err)
			}
			for j := range columns {
				got, want := row[j], theirs[i][j]
				if !sameValue(&columns[j], got, want) {
					t.Errorf("row %d, %s: %q, go-mysql has %v (%T)", i, columns[j].FullType, got, want, want)
				}
			}
		}
	})
}

// goMySQLRows returns the rows of the last event as decoded by go-mysql.
func goMySQLRows(events [][]byte) (rows [][]any, err error) {
	p := replication.NewBinlogParser()
	p.SetTimestampStringLocation(time.UTC)
	for _, raw := range events {
		e, err := p.Parse(raw)
		if err != nil {
			return nil, err
		}
		if r, ok := e.Event.(*replication.RowsEvent); ok {
			rows = r.Rows
		}
	}
	return rows, nil
}

// sameValue compares a value with go-mysql's.
func sameValue(c *rowstream.Column, got []byte, want any) bool {
	if got == nil || want == nil {
		return got == nil && want == nil
	}
	switch w := want.(type) {
	case float32:
		return math.IsNaN(float64(w)) || math.IsInf(float64(w), 0) || sameDouble(got, float64(w))
	case float64:
		return math.IsNaN(w) || math.IsInf(w, 0) || sameDouble(got, w)
	case []byte:
		return bytes.Equal(got, w)
	case string:
		if c.Type == "decimal" {
			return rowstream.Number.Equal(got, []byte(w)) || strings.Trim(w, "-0.123456789") != ""
		}
		return string(got) == w || outOfCalendar(c, got)
	case int64:
		if c.Type == "bit" {
			return int64(bigEndian(got)) == w
		}
	case int:
		if c.Type == "year" && w == 1900 {
			w = 0
		}
		return fmt.Sprintf("%04d", w) == string(got)
	}
	return fmt.Sprint(want) == string(got)
}

func sameDouble(got []byte, want float64) bool {
	v, err := strconv.ParseFloat(string(got), 64)
	return err == nil && v == want
}

// outOfCalendar reports whether a value is one that no server writes, for which readers differ.
func outOfCalendar(c *rowstream.Column, got []byte) bool {
	text := strings.TrimPrefix(string(got), "-")
	if c.Type != "time" {
		if _, clock, ok := strings.Cut(text, " "); ok {
			text = clock
		}
	}
	var hour, minute, second, fraction int
	n, _ := fmt.Sscanf(text, "%d:%d:%d.%d", &hour, &minute, &second, &fraction)
	return n >= 3 && (minute > 59 || second > 59 || hour > 838 || len(text) > 0 && n == 4 && fraction > 999_999) ||
		strings.HasPrefix(string(got), "0000-00-00") || len(got) > len("2006-01-02 15:04:05.000000")
}

// FuzzLog reads arbitrary bytes as a log: nothing panics, and the returned changes are valid rows.
func FuzzLog(f *testing.F) {
	log := &logBuilder{offset: 4}
	seed := func(events ...[]byte) {
		var all []byte
		for _, e := range events {
			all = append(all, e...)
		}
		f.Add(all)
	}
	table := log.event(eventTableMap, tableMapBody(5, "t", []mysqlwire.ColumnType{mysqlwire.TypeLong, mysqlwire.TypeVarchar}, []byte{20, 0}))
	rows := []byte{0, 1, 0, 0, 0, 2, 'h', 'i'}
	seed(log.event(eventFormat, formatBody(false)), log.event(eventMariaGTID, make([]byte, 13)), table, log.event(eventWriteRows, rowsBody(5, Insert, 2, rows)),
		log.event(eventQuery, queryBody("f", "SAVEPOINT s")), log.event(eventDeleteRowsV1, append([]byte{5, 0, 0, 0, 0, 0, 0, 0, 2, 0xFF}, rows...)),
		log.event(eventQuery, queryBody("f", "ROLLBACK TO s")), log.event(eventXID, make([]byte, 8)), log.event(eventRotate, append(make([]byte, 8), "log.2"...)))
	seed(table, log.event(eventUpdateRows, rowsBody(5, Update, 2, append(rows, rows...))), log.event(eventQuery, queryBody("f", "ROLLBACK")))
	seed(log.event(eventGTID, make([]byte, 42)), log.event(eventPayload, []byte{2, 1, 0xFF, 0}), log.event(eventXAPrepare, []byte{1}), log.event(eventExecuteLoad, make([]byte, 40)))
	f.Fuzz(func(t *testing.T, all []byte) {
		for _, gtid := range []string{"", "0-1-5", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"} {
			r, b := newLogReader(described(intColumn, textColumn), gtid)
			for rest := all; len(rest) >= eventHeaderLen; {
				size := int(binary.LittleEndian.Uint32(rest[9:]))
				if size < eventHeaderLen || size > len(rest) {
					break
				}
				if _, err := r.read(rest[:size]); err != nil {
					break
				}
				rest = rest[size:]
			}
			r.finishBatch()
			listChanges(t, b)
			r.unpack.close()
			if _, err := parseGTIDs(b.Upto.GTID); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzStatement parses arbitrary statements; a comment before one must not change the result.
func FuzzStatement(f *testing.F) {
	f.Add("ALTER TABLE `f`.`t` ADD \"x\" INT /*!40000 x */ -- y")
	f.Add("CREATE OR REPLACE TABLE t LIKE u")
	f.Fuzz(func(t *testing.T, sql string) {
		r, _ := newLogReader(described(intColumn), "")
		a, b := r.classify(&query{schema: []byte("f"), text: []byte(sql)}), r.classify(&query{schema: []byte("f"), text: []byte("/* x */ \n" + sql)})
		if a != b {
			t.Errorf("%q: %+v, after a comment %+v", sql, a, b)
		}
	})
}

// binaryJSON returns a value in MySQL's binary form, without its type.
func binaryJSON(v any, large bool) (kind byte, b []byte) {
	word := func(b []byte, n int) []byte {
		if large {
			return binary.LittleEndian.AppendUint32(b, uint32(n))
		}
		return binary.LittleEndian.AppendUint16(b, uint16(n))
	}
	size := 2
	if large {
		size = 4
	}
	container := func(keys []string, values []any) []byte {
		head := word(nil, len(values))
		at := 2*size + len(keys)*(size+2) + len(values)*(size+1)
		var entries, tail []byte
		for _, k := range keys {
			entries = binary.LittleEndian.AppendUint16(word(entries, at+len(tail)), uint16(len(k)))
			tail = append(tail, k...)
		}
		for _, v := range values {
			kind, b := binaryJSON(v, large)
			entries = append(entries, kind)
			if kind == jsonLiteral || kind == jsonInt16 {
				entries = append(append(entries, b...), make([]byte, size-len(b))...)
				continue
			}
			entries = word(entries, at+len(tail))
			tail = append(tail, b...)
		}
		head = word(head, at+len(tail))
		return append(append(head, entries...), tail...)
	}
	object, array := byte(jsonSmallObject), byte(jsonSmallArray)
	if large {
		object, array = jsonLargeObject, jsonLargeArray
	}
	switch v := v.(type) {
	case nil:
		return jsonLiteral, []byte{0}
	case bool:
		if v {
			return jsonLiteral, []byte{1}
		}
		return jsonLiteral, []byte{2}
	case int16:
		return jsonInt16, binary.LittleEndian.AppendUint16(nil, uint16(v))
	case int64:
		return jsonInt64, binary.LittleEndian.AppendUint64(nil, uint64(v))
	case float64:
		return jsonDouble, binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
	case string:
		return jsonString, append(binary.AppendUvarint(nil, uint64(len(v))), v...)
	case []any:
		return array, container(nil, v)
	}
	var keys []string
	var values []any
	m := v.(map[string]any)
	for k := range m {
		keys = append(keys, k)
	}
	for _, k := range keys {
		values = append(values, m[k])
	}
	return object, container(keys, values)
}

// randomJSON returns a random document.
func randomJSON(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n == 2:
		return int16(r.Uint32())
	case n == 3:
		return int64(r.Uint64()) >> r.IntN(64)
	case n == 4:
		return math.Ldexp(r.NormFloat64(), r.IntN(200)-100)
	case n == 5 || depth == 0:
		const letters = "aé\"\\\n\x01😀/ \t\x7f"
		runes := []rune(letters)
		var s strings.Builder
		for range r.IntN(200) {
			s.WriteRune(runes[r.IntN(len(runes))])
		}
		return s.String()
	case n == 6:
		m := map[string]any{}
		for i := range r.IntN(6) {
			m[fmt.Sprint("k\"", i)] = randomJSON(r, depth-1)
		}
		return m
	}
	list := []any{}
	for range r.IntN(6) {
		list = append(list, randomJSON(r, depth-1))
	}
	return list
}

// TestJSON writes random documents in MySQL's form: the decoded text must be that of the same document.
func TestJSON(t *testing.T) {
	r := testseed.Rand(t)
	for range 2000 {
		doc := randomJSON(r, 4)
		kind, b := binaryJSON(doc, r.IntN(2) == 0)
		text, ok := appendJSON(nil, append([]byte{kind}, b...))
		want, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if !ok || !sameJSON(t, text, want) {
			t.Fatalf("%s, want %s", text, want)
		}
	}
	for _, tt := range []struct{ doc, want string }{
		{"", "null"},
		{"\x05\xff\xff", "-1"},
		{"\x06\xff\xff", "65535"},
		{"\x07\xff\xff\xff\xff", "-1"},
		{"\x08\xff\xff\xff\xff", "4294967295"},
		{"\x0a\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"},
		{"\x0b\x00\x00\x00\x00\x00\x00\xf0\x3f", "1.0"},
		{"\x0c\x05a\"\x08\x1f\n", `"a\"\b\u001f\n"`},
		{"\x02\x02\x00\x0a\x00\x05\x01\x00\x04\x01\x00", "[1, true]"},
		{"\x0f\xf6\x06\x04\x02\x8c\x22\x00\x00", ""},         // a DECIMAL that is too long
		{"\x0f\xf6\x04\x04\x02\x8c\x22", "12.34"},            // DECIMAL(4,2)
		{"\x0f\xfe\x02hi", `"base64:type254:aGk="`},          //
		{"\x0f\x0c\x08\x15\xe2\x07\x00\x00\x00\x00\x00", ""}, // set below
	} {
		if tt.want == "" {
			continue
		}
		if text, ok := appendJSON(nil, []byte(tt.doc)); !ok || string(text) != tt.want {
			t.Errorf("%x: %s, %v, want %s", tt.doc, text, ok, tt.want)
		}
	}
	packed := uint64((2024*13+2)<<22|29<<17|12<<12|34<<6|56)<<24 | 654321
	for kind, want := range map[mysqlwire.ColumnType]string{
		mysqlwire.TypeDatetime: `"2024-02-29 12:34:56.654321"`, mysqlwire.TypeDate: `"2024-02-29"`,
	} {
		doc := binary.LittleEndian.AppendUint64([]byte{jsonOpaque, byte(kind), 8}, packed)
		if text, ok := appendJSON(nil, doc); !ok || string(text) != want {
			t.Errorf("%s, %v, want %s", text, ok, want)
		}
	}
	span := -(int64(12<<12|34<<6|56)<<24 | 500_000)
	doc := binary.LittleEndian.AppendUint64([]byte{jsonOpaque, byte(mysqlwire.TypeTime), 8}, uint64(span))
	if text, ok := appendJSON(nil, doc); !ok || string(text) != `"-12:34:56.500000"` {
		t.Errorf("%s, %v", text, ok)
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// FuzzJSON reads arbitrary bytes as a document: it is refused or becomes JSON, of bounded length, equal to
// go-mysql's if that accepts it too.
func FuzzJSON(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		kind, b := binaryJSON(randomJSON(r, 3), false)
		f.Add(append([]byte{kind}, b...))
	}
	f.Add([]byte("\x0f\xf6\x04\x04\x02\x8c\x22"))
	column := rowstream.Column{Name: "j", Type: "json", FullType: "json"}
	f.Fuzz(func(t *testing.T, doc []byte) {
		text, ok := appendJSON(nil, doc)
		if len(text) > 2*(jsonLeast+jsonGrowth*len(doc)) {
			t.Errorf("%d bytes of text from %d", len(text), len(doc))
		}
		if !ok || len(doc) > 1<<15 {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%x is no JSON: %s", doc, text)
		}
		log := &logBuilder{offset: 4}
		image := append(binary.LittleEndian.AppendUint32([]byte{0}, uint32(len(doc))), doc...)
		rows, err := goMySQLRows([][]byte{
			log.event(eventFormat, formatBody(false)),
			log.event(eventTableMap, tableMapBody(5, "t", []mysqlwire.ColumnType{mysqlwire.TypeJSON}, []byte{4})), log.event(eventWriteRows, rowsBody(5, Insert, 1, image)),
		})
		if err != nil || len(rows) != 1 || bytes.Contains(doc, []byte{jsonOpaque}) || len(doc) == 0 {
			return // its opaque values differ
		}
		theirs, ok := rows[0][0].([]byte)
		if ok && json.Valid(theirs) && !sameJSON(t, text, theirs) {
			t.Errorf("%s: %s, go-mysql has %s", column.Name, text, theirs)
		}
	})
}
