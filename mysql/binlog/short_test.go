package binlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestShortEvents cuts events at each byte: none is read as if it were whole.
func TestShortEvents(t *testing.T) {
	types := []mysqlwire.ColumnType{mysqlwire.TypeLong, mysqlwire.TypeVarchar, mysqlwire.TypeBlob}
	table := tableMapBody(7, "t", types, []byte{20, 0, 2})
	f := described(intColumn, textColumn, rowstream.Column{Name: "b", Type: "blob", FullType: "blob"})
	for n := range table {
		id, schema, name, rest, err := splitTableMap(table[:n])
		if err == nil {
			var m tableMap
			err = m.set(&f, table[:n], rest)
		}
		if whole := n >= len(table)-1; (err == nil) != whole { // the last byte says which columns can be NULL
			t.Errorf("%d bytes of a table map: %d %s.%s, %v", n, id, schema, name, err)
		}
	}
	row := "\x00\x01\x00\x00\x00\x02hi\x03\x00xyz"
	var m tableMap
	_, _, _, rest, err := splitTableMap(table)
	if err == nil {
		err = m.set(&f, table, rest)
	}
	if err != nil {
		t.Fatal(err)
	}
	images := map[ChangeKind]int{Insert: 1, Update: 2, Delete: 1}
	for kind, n := range images {
		body := rowsBody(7, kind, 3, bytes.Repeat([]byte(row), n))
		read := func(body []byte) (list []string, err error) {
			_, rest, err := splitRows(body, 2)
			if err != nil {
				return nil, err
			}
			var e rowsEvent
			if err := e.decode(kind, rest, &m); err != nil {
				return nil, err
			}
			for range n {
				present := e.after
				if kind == Delete || kind == Update && len(list) == 0 {
					present = e.before
				}
				b, err := e.image(nil, &m, present, false)
				if err != nil {
					return nil, err
				}
				list = append(list, string(b))
			}
			return list, nil
		}
		got, err := read(body)
		if want := slices.Repeat([]string{"\x011\x02hi\x03xyz"}, n); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %q, %v", kind, got, err)
		}
		for cut := range body {
			if got, err := read(body[:cut]); err == nil {
				t.Errorf("%v, %d bytes: %q", kind, cut, got)
			}
		}
		other := slices.Clone(body)
		other[10] = 2 // columns
		if _, err := read(other); err == nil || errors.Is(err, errShortEvent) {
			t.Errorf("%v of two columns: %v", kind, err)
		}
		lacking := slices.Clone(body)
		lacking[11] = 0b011
		if _, err := read(lacking); !errors.Is(err, errImage) {
			t.Errorf("%v without a column: %v", kind, err)
		}
	}
	if _, _, err := splitRows([]byte{7, 0, 0, 0, 0, 0, 1, 0}, 1); err != nil {
		t.Errorf("rows of the first version: %v", err)
	}
	for extra, valid := range map[byte]bool{0: false, 1: false, 2: true, 3: true, 4: false} {
		_, rest, err := splitRows([]byte{7, 0, 0, 0, 0, 0, 1, 0, extra, 0, 9}, 2)
		if (err == nil) != valid || valid && len(rest) != 3-int(extra) {
			t.Errorf("%d bytes of other data: %q, %v", extra, rest, err)
		}
	}

	l := logBuilder{checksum: true}
	raw := l.event(eventQuery, queryBody("f", "DO 1"))
	for n := range raw {
		cut := slices.Clone(raw[:n])
		if n >= 13 {
			binary.LittleEndian.PutUint32(cut[9:], uint32(n)) // its length
		}
		var e event
		if err := e.decode(cut, true); err == nil {
			t.Errorf("%d bytes of an event with a checksum were read", n)
		}
		if err := e.decode(raw[:n], false); err == nil {
			t.Errorf("%d bytes of an event were read", n)
		}
	}
	sql := queryBody("f", "")
	for n := range sql {
		var q query
		if err := q.decode(sql[:n]); err == nil {
			t.Errorf("%d bytes of a statement were read", n)
		}
	}
	var q query
	with := slices.Concat(make([]byte, 8), []byte{1, 0, 0, 3, 0}, []byte("abcf\x00sql"))
	if err := q.decode(with); err != nil || string(q.variables) != "abc" || string(q.schema) != "f" || string(q.text) != "sql" {
		t.Errorf("%q, %v", q, err)
	}
}

// TestFormats has format descriptions of several servers, and invalid ones.
func TestFormats(t *testing.T) {
	format := func(change func([]byte)) []byte {
		b := formatBody(true)
		b = append(b, 0, 0, 0, 0)
		change(b)
		return b
	}
	name := func(s string) func([]byte) {
		return func(b []byte) { clear(b[2:52]); copy(b[2:52], s) }
	}
	algorithm := func(n byte) func([]byte) { return func(b []byte) { b[len(b)-5] = n } }
	for _, c := range []struct {
		what     string
		body     []byte
		checksum bool
		ok       bool
	}{
		{"CRC32", format(algorithm(1)), true, true},
		{"none", format(algorithm(0)), false, true},
		{"undefined", format(algorithm(255)), false, true},
		{"unknown", format(algorithm(2)), false, false},
		{"version 3", format(func(b []byte) { b[0] = 3 }), false, false},
		{"another header", format(func(b []byte) { b[56]++ }), false, false},
		{"5.5", format(name("5.5.62")), false, true},
		{"5.6", format(name("5.6.1")), true, true},
		{"MariaDB 5.5", format(name("5.5.5-10.6.4-MariaDB")), true, true},
		{"short", format(algorithm(1))[:61], false, false},
	} {
		e := event{body: c.body}
		if got, err := e.format(); got != c.checksum || (err == nil) != c.ok {
			t.Errorf("%s: %t, %v", c.what, got, err)
		}
	}
	maria := append(make([]byte, 2), "11.4.2-MariaDB-log"...)
	for n, want := range map[int]bool{51: false, 52: true, 100: true} {
		b := make([]byte, n)
		copy(b, maria)
		e := event{body: b}
		if e.fromMariaDB() != want {
			t.Errorf("%d bytes: %t", n, !want)
		}
	}
	late := make([]byte, 100) // the name has 50 bytes
	copy(late[46:], "MariaDB")
	if e := (event{body: late}); e.fromMariaDB() {
		t.Error("a name beyond its 50 bytes")
	}
	copy(late[45:], "MariaDB")
	if e := (event{body: late}); !e.fromMariaDB() {
		t.Error("a name at the end of its 50 bytes")
	}
}

// TestRoom has the room for the row of a wide image: all of its long values, for columns that are in it, not NULL and wanted.
func TestRoom(t *testing.T) {
	column := logColumn{form: formBytes, size: 1, wanted: true, before: true}
	skipped, json, late := column, column, column
	skipped.wanted, json.form, late.before = false, formJSON, false
	value := func(n byte) []byte { return append([]byte{n}, bytes.Repeat([]byte("x"), int(n))...) }
	image := slices.Concat(value(100), value(159), value(50))
	for _, c := range []struct {
		columns        []logColumn
		present, nulls byte
		before         bool
		want           int
	}{
		{[]logColumn{column, column, column}, 0b111, 0, false, 101 + 160 + 51 + 3*32},
		{[]logColumn{column, column, column, column}, 0b1011, 0, false, 101 + 160 + 51 + 3*32},
		{[]logColumn{column, column, column, column}, 0b1111, 0b0010, false, 101 + 160 + 51 + 3*32},
		{[]logColumn{column, skipped, column}, 0b111, 0, false, 101 + 51 + 3*32},
		{[]logColumn{column, json, column}, 0b111, 0, false, 101 + 160 + 10 + 51 + 3*32},
		{[]logColumn{column, late, column}, 0b111, 0, false, 101 + 160 + 51 + 3*32},
		{[]logColumn{column, late, column}, 0b111, 0, true, 101 + 51 + 3*32},
		{[]logColumn{column, column, column, column}, 0b1111, 0, false, 101 + 160 + 51 + 3*32},
	} {
		m := tableMap{columns: c.columns}
		if got := m.room(image, []byte{c.nulls}, []byte{c.present}, c.before); got != c.want {
			t.Errorf("%d columns, %b present, %b NULL, before: %t: %d, want %d", len(c.columns), c.present, c.nulls, c.before, got, c.want)
		}
	}
}

// TestInvalidJSON has documents at the edges of what is valid.
func TestInvalidJSON(t *testing.T) {
	double := func(v float64) []byte {
		return binary.LittleEndian.AppendUint64([]byte{jsonDouble}, math.Float64bits(v))
	}
	deep := func(n int) []byte {
		b := []byte{jsonInt16, 1, 0}
		for range n {
			inner := b[1:]
			b = slices.Concat([]byte{jsonSmallArray, 1, 0}, binary.LittleEndian.AppendUint16(nil, uint16(7+len(inner))), []byte{b[0], 7, 0}, inner)
		}
		return b
	}
	for _, c := range []struct {
		doc  string
		want string // "": invalid
	}{
		{"", "null"},
		{"\x04\x00", "null"},
		{"\x04\x01", "true"},
		{"\x04\x02", "false"},
		{"\x04\x03", ""},
		{"\x04", ""},
		{"\x05\xff\xff", "-1"},
		{"\x05\xff", ""},
		{"\x06\xff\xff", "65535"},
		{"\x07\xff\xff\xff\xff", "-1"},
		{"\x07\xff\xff\xff", ""},
		{"\x08\xff\xff\xff\xff", "4294967295"},
		{"\x09\xff\xff\xff\xff\xff\xff\xff\xff", "-1"},
		{"\x09\xff\xff\xff\xff\xff\xff\xff", ""},
		{"\x0a\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"},
		{string(double(1)), "1.0"},
		{string(double(1.5)), "1.5"},
		{string(double(1e100)), "1e100"},
		{string(double(math.NaN())), ""},
		{string(double(math.Inf(1))), ""},
		{string(double(math.Inf(-1))), ""},
		{"\x0c\x00", `""`},
		{"\x0c\x02ab", `"ab"`},
		{"\x0c\x02a", ""},
		{"\x0c", ""},
		{"\x0c\x82\x00ab", `"ab"`},
		{"\x0c\x80\x80\x80\x80\x80", ""},
		{"\x0c\x09\"\\\b\f\n\r\t\x01\x1f", `"\"\\\b\f\n\r\t\u0001\u001f"`},
		{"\x0c\x01 ", `" "`},
		{"\x0d", ""},
		{"\x0e\x00", ""},
		{"\x02\x00\x00\x04\x00", "[]"},
		{"\x02\x00\x00\x03\x00", ""},
		{"\x02\x00\x00\x05\x00", ""},
		{"\x02\x00\x00\x04", ""},
		{"\x00\x00\x00\x04\x00", "{}"},
		{"\x02\x01\x00\x07\x00\x05\x09\x00", "[9]"},
		{"\x02\x02\x00\x07\x00\x05\x09\x00", ""},
		{"\x02\x02\x00\x0a\x00\x05\x09\x00\x06\x08\x00", "[9, 8]"},
		{"\x02\x01\x00\x09\x00\x0c\x07\x00\x01a", `["a"]`},
		{"\x02\x01\x00\x07\x00\x0c\x07\x00", ""},
		{"\x02\x01\x00\x08\x00\x0c\x08\x00\x00", ""},
		{"\x02\x01\x00\x0b\x00\x07\x07\x00\x09\x00\x00\x00", "[9]"},
		{"\x03\x01\x00\x00\x00\x0d\x00\x00\x00\x07\x09\x00\x00\x00", "[9]"},
		{"\x03\x01\x00\x00\x00\x0d\x00\x00\x00\x08\x09\x00\x00\x00", "[9]"},
		{"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x09\x00k", `{"k": 9}`},
		{"\x00\x01\x00\x0c\x00\x0c\x00\x01\x00\x05\x09\x00k", ""},
		{"\x00\x01\x00\x0c\x00\x0b\x00\x02\x00\x05\x09\x00k", ""},
		{"\x0f\xf6\x04\x03\x01\x80\x05", "0.5"},
		{"\x0f\xf6\x03\x03\x01\x80", ""},
		{"\x0f\xf6\x03\x02\x00\x8c", "12"},
		{"\x0f\xf6\x03\x00\x00\x80", ""},
		{"\x0f\xf6\x03\x01\x02\x80", ""},
		{"\x0f\xf6\x01\x01", ""},
		{"\x0f", ""},
		{"\x0f\xf6", ""},
		{"\x0f\x0a\x07\x00\x00\x00\x00\x00\x00\x00", ""},
		{"\x0f\x0a\x08\x00\x00\x00\x00\x00\x00\x00\x00", `"0000-00-00"`},
		{"\x0f\xfc\x02hi", `"base64:type252:aGk="`},
	} {
		got, ok := appendJSON([]byte("<"), []byte(c.doc))
		if ok != (c.want != "") || ok && string(got) != "<"+c.want {
			t.Errorf("%q: %q, %t, want %q", c.doc, got, ok, c.want)
		}
	}
	for n, want := range map[int]bool{99: true, 100: true, 101: false} {
		if _, ok := appendJSON(nil, deep(n)); ok != want {
			t.Errorf("nested %d times: %t", n, ok)
		}
	}
}

// TestXAStatements has the statements of XA transactions with their names.
func TestXAStatements(t *testing.T) {
	r, _ := newLogReader(described(intColumn), "")
	name := lookAt(r, nil, "f", "XA START 'a'").name
	if name == "" || name == lookAt(r, nil, "f", "XA START 'b'").name {
		t.Errorf("the name %q", name)
	}
	for sql, want := range map[string]statementKind{
		"XA BEGIN 'a'": statementXAStart, "XA END 'a'": statementXAEnd, "XA COMMIT 'a'": statementXACommit, "XA COMMIT 'a' ONE PHASE": statementCommit, "XA ROLLBACK 'a'": statementXARollback, "XA ROLLBACK 'a';": statementXARollback,
	} {
		if s := lookAt(r, nil, "f", sql); s.kind != want || s.name != name || s.table != -1 {
			t.Errorf("%s: %+v, want kind %d, %q", sql, s, want, name)
		}
	}
	for _, sql := range []string{"XA END 'a' 'b'", "XA END", "XA ROLLBACK 'a' ONE PHASE", "XA END 'a' ONE PHASE", "XA PREPARED 'a'", "XA"} {
		if s := lookAt(r, nil, "f", sql); s.kind != statementUnknown {
			t.Errorf("%s: %+v", sql, s)
		}
	}
}

// TestBeatRows reads rows of a heartbeat table, by one condition each.
func TestBeatRows(t *testing.T) {
	token := heartbeatToken("run", 0xabc)
	for _, c := range []struct {
		name   string
		rest   string
		change func(*logReader)
		schema int
		open   bool
		fails  bool
	}{
		{"a heartbeat", "x" + token + "y", nil, 0, true, false},
		{"the last of two", heartbeatToken("run", 1) + token, nil, 0, true, false},
		{"another run's", heartbeatToken("other", 1), nil, 0, false, false},
		{"no run", token, func(r *logReader) { r.beats.prefix = nil }, 0, false, false},
		{"of no schema", token, nil, -1, false, false},
		{"of a group that was read", token, func(r *logReader) { r.beats.skipping = true }, 0, false, false},
		{"short", token[:len(token)-1], nil, 0, false, true},
		{"no number", token[:len(token)-1] + "z", nil, 0, false, true},
		{"", "", nil, 0, false, false},
	} {
		r, _ := newLogReader(described(intColumn), "")
		r.beats.start("run", []string{"f"})
		if c.change != nil {
			c.change(r)
		}
		err := r.beatRows(c.schema, []byte(c.rest), Insert, false)
		b := &r.beats
		if (err != nil) != c.fails || b.open != c.open || c.open && b.openNumber != 0xabc {
			t.Errorf("%s: open: %t, %x, %v", c.name, b.open, b.openNumber, err)
		}
	}
	r, _ := newLogReader(described(intColumn), "")
	r.beats.await = "token"
	for rest, want := range map[string]string{"toke": "token", "a token!": ""} {
		r.beats.await = "token"
		if err := r.beatRows(-1, []byte(rest), Insert, false); err != nil || r.beats.await != want {
			t.Errorf("%q: %q, %v", rest, r.beats.await, err)
		}
	}
}

// TestColumnForms has types of columns with metadata at the edges of what servers write.
func TestColumnForms(t *testing.T) {
	for _, c := range []struct {
		kind mysqlwire.ColumnType
		meta string
		size int // 0: invalid
	}{
		{mysqlwire.TypeTime2, "\x06", 6},
		{mysqlwire.TypeTime2, "\x07", 0},
		{mysqlwire.TypeDatetime2, "\x00", 5},
		{mysqlwire.TypeTimestamp2, "\x01", 5},
		{mysqlwire.TypeBit, "\x00\x00", 0},
		{mysqlwire.TypeBit, "\x01\x00", 1},
		{mysqlwire.TypeBit, "\x00\x08", 8},
		{mysqlwire.TypeBit, "\x01\x08", 0},
		{mysqlwire.TypeBit, "\x07\x00", 1},
		{mysqlwire.TypeBit, "\x08\x00", 0},
		{mysqlwire.TypeBlob, "\x00", 0},
		{mysqlwire.TypeBlob, "\x01", 1},
		{mysqlwire.TypeBlob, "\x04", 4},
		{mysqlwire.TypeBlob, "\x05", 0},
		{mysqlwire.TypeJSON, "\x04", 4},
		{mysqlwire.TypeVarchar, "\xff\x00", 1},
		{mysqlwire.TypeVarchar, "\x00\x01", 2},
		{mysqlwire.TypeString, "\xf7\x01", 1},
		{mysqlwire.TypeString, "\xf7\x00", 0},
		{mysqlwire.TypeString, "\xf8\x08", 8},
		{mysqlwire.TypeString, "\xf8\x09", 0},
		{mysqlwire.TypeString, "\xfe\xff", 1},
		{mysqlwire.TypeString, "\xee\x00", 2},
		{mysqlwire.TypeString, "\xf9\x01", 0},
		{mysqlwire.TypeNull, "", 0},
	} {
		var x logColumn
		if err := x.set(c.kind, []byte(c.meta)); (err == nil) != (c.size > 0) || err == nil && int(x.size) != c.size {
			t.Errorf("%v %x: %d bytes, %v, want %d", c.kind, c.meta, x.size, err, c.size)
		}
	}
	for _, c := range []struct {
		d    rowstream.Column
		want int16
	}{
		{rowstream.Column{Type: "decimal", FullType: "decimal(5,2)"}, 6},
		{rowstream.Column{Type: "decimal", FullType: "decimal(5,0)"}, 5},
		{rowstream.Column{Type: "double", FullType: "double"}, 22},
		{rowstream.Column{Type: "double", FullType: "double(7,3)"}, 7},
		{rowstream.Column{Type: "int", FullType: "int(4)"}, 4},
		{rowstream.Column{Type: "int", FullType: "int"}, 0},
	} {
		if got := zeroFillWidth(&c.d, typeArguments(c.d.FullType)); got != c.want {
			t.Errorf("%s: %d, want %d", c.d.FullType, got, c.want)
		}
	}
	id, _ := hex.DecodeString("00112233445566778899aabbccddeeff")
	for turned, want := range map[bool]string{false: "00112233-4455-6677-8899-aabbccddeeff", true: "ccddeeff-aabb-8899-6677-001122334455"} {
		if got := string(appendUUID(nil, id, turned)); got != want {
			t.Errorf("turned: %t: %s", turned, got)
		}
	}
}

// TestReleaseWide releases the memory of a batch with a wide table, and of none otherwise.
func TestReleaseWide(t *testing.T) {
	b := &ChangeBatch{Tables: make([]rowstream.Batch, 2), Changes: []Change{{}}}
	b.Tables[1].Bytes = make([]byte, 100)
	if b.ReleaseWide(100) || len(b.Changes) != 1 || cap(b.Tables[1].Bytes) != 100 {
		t.Error("released a batch of the limit")
	}
	if !b.ReleaseWide(99) || len(b.Changes) != 0 || cap(b.Tables[1].Bytes) > 99 {
		t.Errorf("%d changes, %d bytes", len(b.Changes), cap(b.Tables[1].Bytes))
	}
	for k, want := range map[ChangeKind]string{0: "no change", Insert: "insert", Update: "update", Delete: "delete", Cascaded: "cascade", Cascaded + 1: "no change"} {
		if k.String() != want {
			t.Errorf("%d: %s", k, k)
		}
	}
	for r, want := range map[StopReason]bool{StopSchema - 1: false, StopSchema: true, StopSettings: true, StopSettings + 1: false} {
		if r.Known() != want {
			t.Errorf("%v: known: %t", r, !want)
		}
	}
}
