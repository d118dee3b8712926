package mysqlwire_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestBinaryProtocol sends parameters to a real server and decodes the rows it returns: each parameter comes
// back unchanged, and equal to the server's text form.
func TestBinaryProtocol(t *testing.T) {
	s := testmysql.Shared(t)
	c, err := mysqlconn.Dial(t.Context(), mysqlconn.Config{Addr: s.Addr, User: testmysql.RootUser, Password: testmysql.Password})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	send := func(payload []byte) []byte {
		t.Helper()
		c.Seq = 0
		if err := c.WriteMessage(payload); err != nil {
			t.Fatal(err)
		}
		return receive(t, c)
	}

	const sql = "SELECT CAST(? AS SIGNED), CAST(? AS UNSIGNED), CAST(? AS DOUBLE), CAST(? AS CHAR), CAST(? AS DATETIME(6)), CAST(? AS TIME(6)), CAST(? AS DATE), ?, CAST(? AS CHAR)"
	var ok mysqlwire.PrepareOK
	if err := ok.Decode(send(mysqlwire.StmtPrepare{SQL: []byte(sql)}.AppendTo(nil)), c.Capabilities); err != nil {
		t.Fatal(err)
	}
	for range ok.Params {
		receive(t, c)
	}
	for range ok.Columns {
		receive(t, c)
	}

	value := func(t mysqlwire.ColumnType, unsigned bool, data string) mysqlwire.BinaryValue {
		return mysqlwire.BinaryValue{Data: []byte(data), ValueType: mysqlwire.ValueType{Type: t, Unsigned: unsigned}}
	}
	var params mysqlwire.StmtParams
	params.Reset(int(ok.Params))
	params.Values = []mysqlwire.BinaryValue{
		value(mysqlwire.TypeTiny, false, "\xfe"),
		value(mysqlwire.TypeLongLong, true, "\xff\xff\xff\xff\xff\xff\xff\xff"),
		value(mysqlwire.TypeDouble, false, "\x00\x00\x00\x00\x00\x00\xf8\xbf"),
		value(mysqlwire.TypeVarString, false, strings.Repeat("é", 200)),
		value(mysqlwire.TypeDatetime, false, "\xea\x07\x0b\x15\x01\x2a\x14\x01\x00\x00\x00"),
		value(mysqlwire.TypeTime, false, "\x01\x02\x00\x00\x00\x03\x04\x05\x06\x00\x00\x00"),
		value(mysqlwire.TypeDate, false, "\xea\x07\x0b\x15"),
		{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}},
		{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeBlob}, Long: true},
	}
	want := []string{"-2", "18446744073709551615", "-1.5", strings.Repeat("é", 200), "2026-11-21 01:42:20.000001", "-51:04:05.000006", "2026-11-21", "NULL", "in pieces"}

	for _, withTypes := range []bool{true, false} {
		for _, piece := range []string{"in ", "pieces"} {
			c.Seq = 0
			long := mysqlwire.StmtLongData{StatementID: ok.StatementID, Param: 8, Data: []byte(piece)}
			if err := c.WriteMessage(long.AppendTo(nil)); err != nil {
				t.Fatal(err)
			}
		}
		e := mysqlwire.StmtExecute{StatementID: ok.StatementID, Iterations: 1}
		e.Params = params.AppendTo(nil, e.Flags, c.Capabilities, withTypes)
		var h mysqlwire.ResultHeader
		if err := h.Decode(send(e.AppendTo(nil)), c.Capabilities); err != nil {
			t.Fatal(err)
		}
		var types []mysqlwire.ValueType
		for range h.Columns {
			var d mysqlwire.ColumnDefinition
			if err := d.Decode(receive(t, c), c.Capabilities); err != nil {
				t.Fatal(err)
			}
			types = append(types, d.ValueType())
		}
		var row mysqlwire.BinaryRow
		payload := receive(t, c)
		if err := row.Decode(payload, types); err != nil {
			t.Fatalf("%x as %v: %v", payload, types, err)
		}
		for i, v := range row {
			if got, _ := v.AppendText(nil); string(got) != want[i] {
				t.Errorf("column %d: got %s, want %s", i, got, want[i])
			}
		}
		var end mysqlwire.OK
		if err := end.Decode(receive(t, c), c.Capabilities); err != nil || end.Header != mysqlwire.MarkEOF {
			t.Errorf("the end of the rows: %+v, %v", end, err)
		}
	}
}

// receive reads a packet that must not be an error.
func receive(t *testing.T, c *mysqlconn.Client) []byte {
	t.Helper()
	b, err := c.ReadMessage(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 0 && b[0] == mysqlwire.MarkErr {
		t.Fatalf("the server refuses: %q", b)
	}
	return b
}
