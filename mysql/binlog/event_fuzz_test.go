package binlog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// FuzzValue decodes a value of each type of the log, for each type of columns that the log writes so, and steps over it:
// both read the same bytes.
func FuzzValue(f *testing.F) {
	for kind := range 256 {
		f.Add(byte(kind), uint16(4), []byte{3, 0, 0, 0x80, 1, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	}
	for _, kind := range []mysqlwire.ColumnType{mysqlwire.TypeString, mysqlwire.TypeEnum, mysqlwire.TypeSet} {
		f.Add(byte(mysqlwire.TypeString), uint16(kind)|16<<8, []byte("\x04\x7f\x00\x00\x01"))
	}
	f.Add(byte(mysqlwire.TypeNewDecimal), uint16(4|2<<8), []byte{0x8c, 0x22})
	f.Add(byte(mysqlwire.TypeBit), uint16(5|1<<8), []byte{1, 2})
	f.Fuzz(func(t *testing.T, kind byte, bits uint16, value []byte) {
		defer alloctest.Bounded(t, 32<<20)()
		logged := mysqlwire.ColumnType(kind)
		meta := binary.LittleEndian.AppendUint16(nil, bits)[:metaSize(logged)]
		var plain logColumn
		if plain.set(logged, meta) != nil {
			return
		}
		columns := map[string]logColumn{"": plain}
		for name := range logTypes {
			c := plain
			if c.describe(&rowstream.Column{Type: name, FullType: name}, logged, meta) == nil {
				columns[name] = c
			}
		}
		for name, c := range columns {
			text, n := c.appendValue(nil, value)
			if n == 0 {
				continue
			}
			if c.length(value) != n {
				t.Errorf("%v as %q: a value of %d bytes is stepped over by %d", logged, name, n, c.length(value))
			}
			if _, size := mysqlwire.TextValue(text); size != len(text) {
				t.Errorf("%v as %q: %x is not one value", logged, name, text)
			}
		}
	})
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
		defer alloctest.Bounded(t, 256<<20)()
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
		defer alloctest.Bounded(t, 16<<20)()
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

// FuzzJSON reads arbitrary bytes as a document: it is refused or becomes JSON, of bounded length. The module e2e compares
// it with another reader's.
func FuzzJSON(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		kind, b := binaryJSON(randomJSON(r, 3), false)
		f.Add(append([]byte{kind}, b...))
	}
	f.Add([]byte("\x0f\xf6\x04\x04\x02\x8c\x22"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		defer alloctest.Bounded(t, 32<<20)()
		text, ok := appendJSON(nil, doc)
		if len(text) > 2*(jsonLeast+jsonGrowth*len(doc)) {
			t.Errorf("%d bytes of text from %d", len(text), len(doc))
		}
		if ok && len(doc) <= 1<<15 && !json.Valid(text) {
			t.Fatalf("%x is no JSON: %s", doc, text)
		}
	})
}
