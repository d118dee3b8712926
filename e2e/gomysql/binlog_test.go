package gomysql

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
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

// rowsLog returns a log in which a transaction inserts the rows of an image into f.t, and the server then has nothing more.
func rowsLog(types []mysqlwire.ColumnType, meta, image []byte) (events [][]byte) {
	const name = "log.1"
	offset := uint32(4)
	add := func(kind replication.EventType, body []byte) {
		b := binary.LittleEndian.AppendUint32(nil, 1_700_000_000)
		b = binary.LittleEndian.AppendUint32(append(b, byte(kind)), 1)
		size := uint32(replication.EventHeaderSize + len(body))
		offset += size
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, size), offset)
		events = append(events, append(append(b, 0, 0), body...))
	}
	format := append([]byte{4, 0}, make([]byte, 50)...)
	copy(format[2:], "8.0.36")
	format = append(append(format, 0, 0, 0, 0, replication.EventHeaderSize), bytes.Repeat([]byte{8}, 41)...)
	for kind := replication.WRITE_ROWS_EVENTv2; kind <= replication.DELETE_ROWS_EVENTv2; kind++ {
		format[56+int(kind)] = 10
	}
	add(replication.FORMAT_DESCRIPTION_EVENT, append(format, 0, 0, 0, 0, 0)) // without checksums

	all := bytes.Repeat([]byte{0xFF}, (len(types)+7)/8)
	table := mysqlwire.AppendLenencInt([]byte("\x05\x00\x00\x00\x00\x00\x01\x00\x01f\x00\x01t\x00"), uint64(len(types)))
	for _, t := range types {
		table = append(table, byte(t))
	}
	add(replication.TABLE_MAP_EVENT, append(mysqlwire.AppendLenencString(table, meta), all...))
	rows := mysqlwire.AppendLenencInt([]byte("\x05\x00\x00\x00\x00\x00\x01\x00\x02\x00"), uint64(len(types)))
	add(replication.WRITE_ROWS_EVENTv2, append(append(rows, all...), image...))
	add(replication.XID_EVENT, make([]byte, 8))
	add(replication.HEARTBEAT_EVENT, []byte(name))
	return events
}

// goMySQLRows returns the rows of a log as decoded by go-mysql.
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

// tareRows returns the rows that package binlog reads from a server with a log; ok is false if it stops before the end.
func tareRows(t *testing.T, columns []rowstream.Column, events [][]byte) (rows []mysqlwire.TextRow, ok bool) {
	t.Helper()
	d, err := binlog.OpenDirect(t.Context(), mysqlconn.Config{
		Addr: "script:3306", User: "app", TLSMode: mysqlconn.TLSDisabled,
		DialFunc: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				serveLog(mysqlconn.New(server), events)
			}()
			return client, nil
		},
	})
	must(t, err)
	defer d.Close()
	layout := make([]int, len(columns))
	for i := range layout {
		layout[i] = i
	}
	changes, err := d.Follow(t.Context(), binlog.FollowOptions{
		From:   binlog.Position{File: "log.1", Offset: 4},
		Tables: []*rowstream.Table{{Schema: "f", Name: "t", Columns: columns}}, Layouts: [][]int{layout},
	})
	must(t, err)
	defer changes.Close()
	var b binlog.ChangeBatch
	if changes.Next(t.Context(), &b) != nil || !b.Idle {
		return nil, false
	}
	must(t, b.Tables[0].Check())
	for _, c := range b.Changes {
		var row mysqlwire.TextRow
		if _, err := b.Tables[c.Table].Row(c.After, &row); err != nil || c.Kind != binlog.Insert || c.Before >= 0 {
			t.Fatalf("%+v: %v", c, err)
		}
		rows = append(rows, row)
	}
	return rows, true
}

// serveLog is a server with a log. Its variables have the values that reading the log requires.
func serveLog(c *mysqlconn.Conn, events [][]byte) {
	for ok := testscript.Login(c); ok; {
		p := testscript.Command(c)
		if p == nil {
			return
		}
		variable, reads := strings.CutPrefix(string(p[1:]), "SELECT @@global.")
		response := testscript.OKPacket
		switch {
		case p[0] == byte(mysqlwire.ComBinlogDump):
			response = nil
			for i, e := range events {
				response = append(response, testscript.Packets(uint8(1+i), append([]byte{mysqlwire.MarkOK}, e...))...)
			}
		case reads && strings.Contains(" log_bin log_slave_updates read_only lower_case_table_names ", " "+variable+" "):
			response = oneRow("1")
		case reads:
			response = testscript.Packets(1, mysqlwire.NewErr(1193, []byte("Unknown system variable '"+variable+"'")).AppendTo(nil))
		case bytes.HasPrefix(p[1:], []byte("SELECT VERSION(), CONNECTION_ID()")):
			values := []string{"8.0.36", "7"}
			for range bytes.Count(p, []byte(", @@SESSION.")) {
				values = append(values, "1", "1") // the value, and the wanted one
			}
			response = oneRow(values...)
		}
		_, err := c.Write(response)
		ok = err == nil
	}
}

// oneRow returns a result of one row.
func oneRow(values ...string) []byte {
	packets := [][]byte{{byte(len(values))}}
	var row mysqlwire.TextRow
	for _, v := range values {
		packets, row = append(packets, testscript.Column), append(row, []byte(v))
	}
	return testscript.Packets(1, append(packets, row.AppendTo(nil), testscript.End)...)
}

// FuzzRows reads the same rows with go-mysql: if both accept them, the values must be equal.
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
		}
		events := rowsLog(types, meta, image)
		theirs, err := goMySQLRows(events)
		ours, ok := tareRows(t, columns, events)
		if err != nil || !ok {
			return // they continue where bytes are missing, and stop at invalid values
		}
		if len(ours) != len(theirs) {
			t.Fatalf("%d rows, go-mysql has %d", len(ours), len(theirs))
		}
		for i, row := range ours {
			for j := range columns {
				got, want := row[j], theirs[i][j]
				if !sameValue(&columns[j], got, want) {
					t.Errorf("row %d, %s: %q, go-mysql has %v (%T)", i, columns[j].FullType, got, want, want)
				}
			}
		}
	})
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
		seconds, fraction, _ := strings.Cut(string(got), ".")
		return string(got) == w || outOfCalendar(c, got) ||
			c.Type == "time" && seconds == w && strings.Trim(fraction, "0") == "" // go-mysql leaves it out
	case int64:
		if c.Type == "bit" {
			return int64(binary.BigEndian.Uint64(append(make([]byte, 8-len(got)), got...))) == w
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

// FuzzJSON reads the same document with go-mysql: if both accept it, the values must be equal.
func FuzzJSON(f *testing.F) {
	for _, doc := range []string{
		"\x00\x01\x00 \x00\v\x00\x01\x00\x02\f\x00a\x04\x00\x14\x00\x05\xf9\xff\f\x10\x00\x04\x00\x00\x04\x01\x00\x03é\"",
		"\x02\x04\x004\x00\t\x10\x00\v\x18\x00\x00 \x00\x020\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\xf8?\x01\x00\x10\x00\v\x00\x01\x00\x00\f\x00k\x00\x00\x04\x00\x00\x00\x04\x00",
		"\x01\x01\x00\x00\x004\x00\x00\x00\x13\x00\x00\x00\x01\x00\x03\x14\x00\x00\x00a\x04\x00\x00\x00 \x00\x00\x00\x05\xf9\xff\x00\x00\f\x1c\x00\x00\x00\x04\x00\x00\x00\x00\x04\x01\x00\x00\x00\x03é\"",
		"\f\x04text", "\x05\xff\xff", "\x06\xff\xff", "\x07\xff\xff\xff\xff", "\x08\xff\xff\xff\xff", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x0b\x00\x00\x00\x00\x00\x00\xf0\x3f", "\x04\x00", "\x04\x01", "\x04\x02",
	} {
		f.Add([]byte(doc))
	}
	columns := []rowstream.Column{{Name: "j", Type: "json", FullType: "json"}}
	f.Fuzz(func(t *testing.T, doc []byte) {
		const opaque = 0x0F // the type of values that differ
		if len(doc) == 0 || len(doc) > 1<<15 || bytes.Contains(doc, []byte{opaque}) {
			return
		}
		image := append(binary.LittleEndian.AppendUint32([]byte{0}, uint32(len(doc))), doc...)
		events := rowsLog([]mysqlwire.ColumnType{mysqlwire.TypeJSON}, []byte{4}, image)
		rows, err := goMySQLRows(events)
		ours, ok := tareRows(t, columns, events)
		if err != nil || !ok || len(rows) != 1 {
			return
		}
		theirs, ok := rows[0][0].([]byte)
		if ok && json.Valid(theirs) && !sameJSON(t, ours[0][0], theirs) {
			t.Errorf("%s, go-mysql has %s", ours[0][0], theirs)
		}
	})
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	must(t, json.Unmarshal(a, &x))
	must(t, json.Unmarshal(b, &y))
	return reflect.DeepEqual(x, y)
}
