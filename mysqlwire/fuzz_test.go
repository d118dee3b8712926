package mysqlwire

import (
	"bytes"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// FuzzPackets checks that no decoder panics on any payload, and that decoded messages survive
// a round trip.
func FuzzPackets(f *testing.F) {
	index := map[string]int{}
	for i, c := range codecs() {
		index[c.name] = i
	}
	for _, s := range samples {
		f.Add(uint8(index[s.codec]), uint64(s.caps), unhex(f, s.payload))
	}
	all := codecs()
	f.Fuzz(func(t *testing.T, which uint8, caps uint64, payload []byte) {
		c := all[int(which)%len(all)]
		if err := c.decode(payload, Capability(caps)); err != nil {
			return
		}
		if len(payload) > 1<<10 { // a value is printed for comparison
			return
		}
		checkRoundTrip(t, c, Capability(caps))
	})
}

// FuzzLenencInt compares with go-mysql, except on input that LenencInt rejects: go-mysql panics on short
// input and accepts FF as a number.
func FuzzLenencInt(f *testing.F) {
	for _, v := range []uint64{0, 250, 251, 1<<16 - 1, 1 << 16, 1<<24 - 1, 1 << 24, 1<<64 - 1} {
		f.Add(AppendLenencInt(nil, v), v)
	}
	f.Add([]byte{0xFB}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, v uint64) {
		if got, n := LenencInt(b); n > 0 {
			want, null, wantN := gomysql.LengthEncodedInt(b)
			if got != want || null || n != wantN {
				t.Errorf("LenencInt(%x) = %d, %d; go-mysql says %d, NULL %t, %d", b, got, n, want, null, wantN)
			}
		}
		enc := AppendLenencInt(nil, v)
		if want := gomysql.PutLengthEncodedInt(v); !bytes.Equal(enc, want) {
			t.Errorf("AppendLenencInt(%d) = %x; go-mysql says %x", v, enc, want)
		}
		if got, n := LenencInt(enc); got != v || n != len(enc) {
			t.Errorf("LenencInt(AppendLenencInt(%d)) = %d, %d", v, got, n)
		}
		if got := lenencSize(int(v >> 1)); got != len(AppendLenencInt(nil, v>>1)) {
			t.Errorf("lenencSize(%d) = %d", v>>1, got)
		}
	})
}

// FuzzColumnDefinition compares with go-mysql's Field.
func FuzzColumnDefinition(f *testing.F) {
	for _, s := range samples {
		if s.codec == "column definition" {
			f.Add(unhex(f, s.payload))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d ColumnDefinition
		if d.Decode(payload, CapProtocol41) != nil {
			return
		}
		var want gomysql.Field
		if err := want.Parse(payload); err != nil {
			t.Fatalf("go-mysql refuses %x: %v", payload, err)
		}
		if !bytes.Equal(d.Schema, want.Schema) || !bytes.Equal(d.Table, want.Table) ||
			!bytes.Equal(d.OrgTable, want.OrgTable) || !bytes.Equal(d.Name, want.Name) ||
			!bytes.Equal(d.OrgName, want.OrgName) || d.Charset != want.Charset ||
			d.Length != want.ColumnLength || uint8(d.Type) != want.Type ||
			uint16(d.Flags) != want.Flag || d.Decimals != want.Decimal ||
			!bytes.Equal(d.DefaultValue, want.DefaultValue) {
			t.Errorf("got %+v\ngo-mysql says %+v", d, want)
		}
	})
}

// FuzzTextRow compares with go-mysql's RowData.
func FuzzTextRow(f *testing.F) {
	for _, s := range samples {
		if s.codec == "text row" {
			f.Add(unhex(f, s.payload), uint8(textColumns))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, columns uint8) {
		var row TextRow
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

// FuzzBinaryRow compares with go-mysql's RowData, value by value.
func FuzzBinaryRow(f *testing.F) {
	types := make([]byte, 0, 2*len(rowTypes))
	for _, t := range rowTypes {
		types = t.AppendTo(types)
	}
	for _, s := range samples {
		if s.codec == "binary row" {
			f.Add(unhex(f, s.payload), types)
		}
	}
	f.Fuzz(func(t *testing.T, payload, rawTypes []byte) {
		var types []ValueType
		var fields []*gomysql.Field
		for c := (cursor{rest: rawTypes}); len(c.rest) >= 2; {
			vt := c.valueType()
			field := &gomysql.Field{Type: uint8(vt.Type)}
			if vt.Unsigned {
				field.Flag = uint16(FlagUnsigned)
			}
			types, fields = append(types, vt), append(fields, field)
		}
		var row BinaryRow
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
func asOracle(v BinaryValue) bool {
	switch v.Type {
	case TypeDate, TypeNewDate:
		return len(v.Data) == 0 || len(v.Data) == 4
	case TypeTime:
		tod, ok := v.Time()
		return !ok || len(v.Data) == 0 || tod.Days < 1<<20 && v.Data[0] <= 1
	}
	return true
}

func compareValue(t *testing.T, v BinaryValue, want gomysql.FieldValue) {
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

// FuzzStateChanges checks that iterating over any session state terminates without a panic, and
// that the changes found survive a round trip.
func FuzzStateChanges(f *testing.F) {
	for t := StateSystemVariable; t <= StateTransaction+1; t++ {
		f.Add(StateChange{Type: t, Name: []byte("autocommit"), Value: []byte("ON")}.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		var again []byte
		n := 0
		it := StateChanges(state)
		for it.Next() {
			again = it.Change().AppendTo(again)
			n++
		}
		second := StateChanges(again)
		for second.Next() {
			n--
		}
		if err := second.Err(); err != nil || n != 0 {
			t.Errorf("%x encoded again is %x: %v, %d changes lost", state, again, err, n)
		}
		if it.Err() == nil && len(again) > len(state) {
			t.Errorf("%x grew to %x", state, again)
		}
	})
}

// FuzzAttributes iterates over arbitrary connection attributes.
func FuzzAttributes(f *testing.F) {
	f.Add(AppendAttribute(nil, "_client_name", "tare"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var again []byte
		it := Attributes(raw)
		for it.Next() {
			again = AppendAttribute(again, string(it.Name()), string(it.Value()))
		}
		if it.Err() == nil && len(again) > len(raw) {
			t.Errorf("%x grew to %x", raw, again)
		}
		second := Attributes(again)
		for second.Next() {
		}
		if err := second.Err(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzQueryAttributes checks that Query returns the text after the attributes, and that the bytes of the
// attributes decode to as many values as the attributes of a statement without parameters.
func FuzzQueryAttributes(f *testing.F) {
	for _, s := range samples {
		if s.codec == "query" {
			f.Add(unhex(f, s.payload))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		sql, err := Query(payload, CapQueryAttributes)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(payload, sql) {
			t.Fatalf("the text %q does not end the packet %x", sql, payload)
		}
		count, n := LenencInt(payload[1:])
		if count == 0 || n == 0 {
			return
		}
		attrs := append([]byte(nil), payload[1:len(payload)-len(sql)]...)
		_, sets := LenencInt(attrs[n:])
		execute := StmtExecute{Flags: ExecuteParamCount, Params: append(attrs[:n:n], attrs[n+sets:]...)}
		var params StmtParams
		params.Reset(0)
		if err := params.Decode(&execute, CapQueryAttributes); err != nil || uint64(len(params.Values)) != count {
			t.Errorf("%x as parameters: %d of %d, %v", execute.Params, len(params.Values), count, err)
		}
	})
}
