package mysqlwire_test

import (
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

func ExampleErr() {
	e := mysqlwire.NewErr(mysqlwire.ErrnoServerShutdown, []byte("the gateway is going down"))
	packet, _ := mysqlwire.AppendPacket(nil, e.AppendTo(nil), 1)
	fmt.Println(e)
	fmt.Printf("% x\n", packet[:13])
	// Output:
	// ERROR 1053 (08S01): the gateway is going down
	// 22 00 00 01 ff 1d 04 23 30 38 53 30 31
}

// A masked capability omits its field from the forwarded response.
func ExampleHandshakeResponse() {
	h := mysqlwire.HandshakeResponse{
		Capabilities: mysqlwire.CapLongPassword | mysqlwire.CapProtocol41 | mysqlwire.CapSecureConnection |
			mysqlwire.CapConnectWithDB | mysqlwire.CapConnectAttrs,
		User: []byte("app"), Database: []byte("shop"),
		Attrs: mysqlwire.AppendAttribute(nil, "program_name", "checkout"),
	}
	for it := h.Attributes(); it.Next(); {
		fmt.Printf("%s = %s\n", it.Name(), it.Value())
	}
	fmt.Println(len(h.AppendTo(nil)), "bytes")
	h.Capabilities &^= mysqlwire.CapConnectAttrs
	fmt.Println(len(h.AppendTo(nil)), "bytes")
	fmt.Println(h.Capabilities)
	// Output:
	// program_name = checkout
	// 65 bytes
	// 42 bytes
	// LONG_PASSWORD|CONNECT_WITH_DB|PROTOCOL_41|SECURE_CONNECTION
}

func ExampleOK() {
	const caps = mysqlwire.CapProtocol41 | mysqlwire.CapSessionTrack
	change := mysqlwire.StateChange{Type: mysqlwire.StateSchema, Value: []byte("shop")}
	sent := mysqlwire.OK{Status: mysqlwire.StatusSessionChanged, State: change.AppendTo(nil)}

	var ok mysqlwire.OK
	if err := ok.Decode(sent.AppendTo(nil, caps), caps); err != nil {
		fmt.Println(err)
		return
	}
	it := ok.StateChanges()
	for it.Next() {
		fmt.Printf("%v: %s\n", it.Change().Type, it.Change().Value)
	}
	fmt.Println(ok.Status, it.Err())
	// Output:
	// schema: shop
	// SESSION_STATE_CHANGED <nil>
}

func ExampleTextRow() {
	payload := mysqlwire.TextRow{[]byte("7"), nil, []byte("")}.AppendTo(nil)
	var row mysqlwire.TextRow // reused from row to row
	if err := row.Decode(payload, 3); err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range row {
		fmt.Printf("%q NULL=%t\n", v, v == nil)
	}
	fmt.Println(row.Decode(payload, 2))
	// Output:
	// "7" NULL=false
	// "" NULL=true
	// "" NULL=false
	// decode text row: malformed mysql packet: bytes after the last column
}

func ExampleBinaryRow() {
	row := mysqlwire.BinaryRow{
		{Data: []byte{42, 0, 0, 0}, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeLong}},
		{Data: []byte{0xEA, 7, 11, 21}, ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeDate}},
		{ValueType: mysqlwire.ValueType{Type: mysqlwire.TypeVarString}},
	}
	for _, v := range row {
		text, _ := v.AppendText(nil)
		fmt.Printf("%v %s\n", v.Type, text)
	}
	fmt.Printf("% x\n", row.AppendTo(nil))
	// Output:
	// LONG 42
	// DATE 2026-11-21
	// VAR_STRING NULL
	// 00 10 2a 00 00 00 04 ea 07 0b 15
}

func ExampleStmtParams() {
	var p mysqlwire.StmtParams
	p.Reset(1)
	for _, params := range []string{"\x00\x01\x03\x00\x2a\x00\x00\x00", "\x00\x00\x2b\x00\x00\x00"} {
		e := mysqlwire.StmtExecute{StatementID: 1, Params: []byte(params)}
		if err := p.Decode(&e, mysqlwire.CapProtocol41); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(p.Values[0].Int64())
	}
	// Output:
	// 42 true
	// 43 true
}

// Attributes precede the text.
func ExampleQuery() {
	payload := []byte("\x03\x01\x01\x00\x01\xfe\x00\x05trace\x02abSELECT 1")
	sql, err := mysqlwire.Query(payload, mysqlwire.CapQueryAttributes)
	fmt.Printf("%s %v\n", sql, err)
	// Output: SELECT 1 <nil>
}
