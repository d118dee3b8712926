package gomysql

import (
	"bytes"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestErrnoState compares SQLSTATEs with go-mysql's table, for all numbers that it has and package mysqlwire
// names; the others are listed here.
func TestErrnoState(t *testing.T) {
	const general = "HY000"
	own := map[mysqlwire.Errno]string{
		mysqlwire.ErrnoConnectionKilled: "70100", // MariaDB's errmsg.txt
		gomysql.ER_NO_DB_ERROR:          "3D000",
	}
	known := 0
	for n := range 1 << 16 {
		e := mysqlwire.Errno(n)
		want, ok := gomysql.MySQLState[uint16(n)]
		if own[e] != "" {
			want, ok = own[e], true
		}
		switch got := e.State(); {
		case len(got) != 5:
			t.Errorf("%d: SQLSTATE %q", n, got)
		case got == general:
		case !ok:
			t.Errorf("%d: SQLSTATE %s, which go-mysql does not know", n, got)
		case got != want:
			t.Errorf("%d: got %s, want %s", n, got, want)
		default:
			known++
		}
	}
	if known < 15 {
		t.Errorf("only %d numbers compared", known)
	}
	for n, want := range map[mysqlwire.Errno]uint16{
		mysqlwire.ErrnoTooManyConnections: gomysql.ER_CON_COUNT_ERROR,
		mysqlwire.ErrnoHandshake:          gomysql.ER_HANDSHAKE_ERROR, mysqlwire.ErrnoAccessDenied: gomysql.ER_ACCESS_DENIED_ERROR,
		mysqlwire.ErrnoUnknownCommand:  gomysql.ER_UNKNOWN_COM_ERROR,
		mysqlwire.ErrnoUnknownDatabase: gomysql.ER_BAD_DB_ERROR, mysqlwire.ErrnoServerShutdown: gomysql.ER_SERVER_SHUTDOWN,
		mysqlwire.ErrnoUnknown: gomysql.ER_UNKNOWN_ERROR, mysqlwire.ErrnoHostBlocked: gomysql.ER_HOST_IS_BLOCKED,
		mysqlwire.ErrnoAborting:       gomysql.ER_ABORTING_CONNECTION,
		mysqlwire.ErrnoPacketTooLarge: gomysql.ER_NET_PACKET_TOO_LARGE, mysqlwire.ErrnoPacketsOutOfOrder: gomysql.ER_NET_PACKETS_OUT_OF_ORDER,
		mysqlwire.ErrnoNetRead:            gomysql.ER_NET_READ_ERROR,
		mysqlwire.ErrnoNetReadInterrupted: gomysql.ER_NET_READ_INTERRUPTED, mysqlwire.ErrnoNetWrite: gomysql.ER_NET_ERROR_ON_WRITE,
		mysqlwire.ErrnoNetWriteInterrupted: gomysql.ER_NET_WRITE_INTERRUPTED, mysqlwire.ErrnoTooManyUserConnections: gomysql.ER_TOO_MANY_USER_CONNECTIONS,
		mysqlwire.ErrnoLockWaitTimeout: gomysql.ER_LOCK_WAIT_TIMEOUT, mysqlwire.ErrnoDeadlock: gomysql.ER_LOCK_DEADLOCK,
		mysqlwire.ErrnoUserLimit: gomysql.ER_USER_LIMIT_REACHED, mysqlwire.ErrnoAuthNotSupported: gomysql.ER_NOT_SUPPORTED_AUTH_MODE,
		mysqlwire.ErrnoReadOnly: gomysql.ER_OPTION_PREVENTS_STATEMENT, mysqlwire.ErrnoQueryInterrupted: gomysql.ER_QUERY_INTERRUPTED,
		mysqlwire.ErrnoMalformedPacket: gomysql.ER_MALFORMED_PACKET, mysqlwire.ErrnoWrongValueForVar: gomysql.ER_WRONG_VALUE_FOR_VAR,
	} {
		if uint16(n) != want {
			t.Errorf("%d: go-mysql says %d", n, want)
		}
		state, ok := gomysql.MySQLState[want]
		if !ok {
			state = general
		}
		if got := n.State(); got != state && own[n] == "" {
			t.Errorf("%d: got SQLSTATE %s, go-mysql says %s", n, got, state)
		}
	}
}

// FuzzLenencInt compares with go-mysql, except on input that LenencInt rejects: go-mysql panics on short
// input and accepts FF as a number.
func FuzzLenencInt(f *testing.F) {
	for _, v := range []uint64{0, 250, 251, 1<<16 - 1, 1 << 16, 1<<24 - 1, 1 << 24, 1<<64 - 1} {
		f.Add(mysqlwire.AppendLenencInt(nil, v), v)
	}
	f.Add([]byte{0xFB}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, v uint64) {
		if got, n := mysqlwire.LenencInt(b); n > 0 {
			want, null, wantN := gomysql.LengthEncodedInt(b)
			if got != want || null || n != wantN {
				t.Errorf("LenencInt(%x) = %d, %d; go-mysql says %d, NULL %t, %d", b, got, n, want, null, wantN)
			}
		}
		if enc, want := mysqlwire.AppendLenencInt(nil, v), gomysql.PutLengthEncodedInt(v); !bytes.Equal(enc, want) {
			t.Errorf("AppendLenencInt(%d) = %x; go-mysql says %x", v, enc, want)
		}
	})
}

// FuzzTextRow compares with go-mysql's RowData.
func FuzzTextRow(f *testing.F) {
	f.Add([]byte("\x01a\xfb\x00"), uint8(3)) // a value, NULL, an empty one
	f.Fuzz(func(t *testing.T, payload []byte, columns uint8) {
		defer alloctest.Bounded(t, 32<<20+16*uint64(len(payload)))()
		var row mysqlwire.TextRow
		if row.Decode(payload, int(columns)) != nil {
			return
		}
		fields := make([]*gomysql.Field, columns)
		for i := range fields {
			fields[i] = &gomysql.Field{Type: gomysql.MYSQL_TYPE_VAR_STRING}
		}
		want, err := gomysql.RowData(payload).ParseText(fields, nil)
		if err != nil {
			t.Fatalf("go-mysql refuses %x: %v", payload, err)
		}
		for i, v := range row {
			null := want[i].Type == gomysql.FieldValueTypeNull
			if (v == nil) != null || !null && !bytes.Equal(v, want[i].AsString()) {
				t.Errorf("column %d: got %q, go-mysql says %q (NULL %t)", i, v, want[i].AsString(), null)
			}
			if cap(v) != len(v) {
				t.Errorf("column %d: the view has room for %d bytes past its end", i, cap(v)-len(v))
			}
		}
		if again := row.AppendTo(nil); len(again) > len(payload) {
			t.Errorf("AppendTo made %d bytes of %d", len(again), len(payload))
		}
	})
}

// rowTypes are the columns of the first binary rows, one of each form.
var rowTypes = []mysqlwire.ValueType{
	{Type: mysqlwire.TypeLong},
	{Type: mysqlwire.TypeLongLong, Unsigned: true},
	{Type: mysqlwire.TypeVarString},
	{Type: mysqlwire.TypeDatetime},
	{Type: mysqlwire.TypeTime},
	{Type: mysqlwire.TypeDouble},
	{Type: mysqlwire.TypeTiny},
	{Type: mysqlwire.TypeShort},
	{Type: mysqlwire.TypeFloat},
	{Type: mysqlwire.TypeNull},
	{Type: mysqlwire.TypeBlob},
}

// FuzzBinaryRow compares with go-mysql's RowData, value by value.
func FuzzBinaryRow(f *testing.F) {
	var types []byte
	for _, t := range rowTypes {
		types = t.AppendTo(types)
	}
	f.Add([]byte("\x00\x00\x08\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x80\x03abc\x0b\xea\x07\x0b\x15\x01\x2a\x14\x40\x42\x0f\x00"+
		"\x0c\x01\x01\x00\x00\x00\x02\x03\x04\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\xf8\x3f\xfe\x01\x80\x00\x00\xc0\x3f\x00"), types)
	f.Add([]byte("\x00\xfc\x1f"), types) // NULLs
	f.Fuzz(func(t *testing.T, payload, rawTypes []byte) {
		defer alloctest.Bounded(t, 32<<20+256*uint64(len(payload)+len(rawTypes)))()
		var types []mysqlwire.ValueType
		var fields []*gomysql.Field
		for ; len(rawTypes) >= 2; rawTypes = rawTypes[2:] {
			vt := mysqlwire.ValueType{Type: mysqlwire.ColumnType(rawTypes[0]), Unsigned: rawTypes[1]&0x80 != 0}
			field := &gomysql.Field{Type: uint8(vt.Type)}
			if vt.Unsigned {
				field.Flag = gomysql.UNSIGNED_FLAG
			}
			types, fields = append(types, vt), append(fields, field)
		}
		var row mysqlwire.BinaryRow
		if row.Decode(payload, types) != nil {
			return
		}
		for _, v := range row {
			if !asOracle(v) {
				return
			}
		}
		want, err := gomysql.RowData(payload).ParseBinary(fields, nil)
		if err != nil {
			t.Fatalf("go-mysql refuses %x as %v: %v", payload, types, err)
		}
		for i, v := range row {
			compareValue(t, v, want[i])
		}
	})
}

// asOracle reports whether go-mysql decodes v correctly. It supports only DATEs of 4 bytes, and hours of a
// TIME only as far as a server can send them.
func asOracle(v mysqlwire.BinaryValue) bool {
	switch v.Type {
	case mysqlwire.TypeDate, mysqlwire.TypeNewDate:
		return len(v.Data) == 0 || len(v.Data) == 4
	case mysqlwire.TypeTime:
		tod, ok := v.Time()
		return !ok || len(v.Data) == 0 || tod.Days < 1<<20 && v.Data[0] <= 1
	}
	return true
}

func compareValue(t *testing.T, v mysqlwire.BinaryValue, want gomysql.FieldValue) {
	t.Helper()
	ok := false
	switch want.Type {
	case gomysql.FieldValueTypeNull:
		ok = v.IsNull()
	case gomysql.FieldValueTypeSigned:
		got, is := v.Int64()
		ok = is && got == want.AsInt64()
	case gomysql.FieldValueTypeUnsigned:
		got, is := v.Uint64()
		ok = is && got == want.AsUint64()
	case gomysql.FieldValueTypeFloat:
		got, is := v.Float64()
		ok = is && (got == want.AsFloat64() || got != got && want.AsFloat64() != want.AsFloat64())
	case gomysql.FieldValueTypeString:
		got, err := v.AppendText(nil)
		ok = err == nil && bytes.Equal(got, want.AsString())
	}
	if !ok {
		text, _ := v.AppendText(nil)
		t.Errorf("%v %x: got %q, go-mysql says %v (%q)", v.ValueType, v.Data, text, want.Value(), want.AsString())
	}
}
