package mysqlwire

import (
	"fmt"
	"strings"
	"testing"
)

// execution returns the message of an EXECUTE with the given flags and parameters.
func execution(t *testing.T, flags ExecuteFlags, params string) *StmtExecute {
	t.Helper()
	return &StmtExecute{StatementID: 1, Flags: flags, Iterations: 1, Params: unhex(t, params)}
}

func showParams(p *StmtParams) string {
	var parts []string
	for i, v := range p.Values {
		text, _ := v.AppendText(nil)
		s := string(text)
		if v.Long {
			s = "long"
		}
		if i < len(p.Names) && len(p.Names[i]) > 0 {
			s = string(p.Names[i]) + "=" + s
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

// TestStmtParams runs one statement through executions that do not repeat its types and through long data.
func TestStmtParams(t *testing.T) {
	var p StmtParams
	p.Reset(2)
	step := func(name string, e *StmtExecute, caps Capability, want string) {
		t.Helper()
		err := p.Decode(e, caps)
		got := showParams(&p)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	step("no types yet", execution(t, 0, "00 00 2a000000"), 0, "types of the parameters were never sent")
	step("types", execution(t, 0, "00 01 0380 fe00 ffffffff 0161"), 0, "4294967295 a")
	step("types kept", execution(t, 0, "00 00 01000000 0162"), 0, "1 b")
	step("NULL", execution(t, 0, "03 00"), 0, "NULL NULL")
	p.MarkLong(1)
	p.MarkLong(7) // a parameter that does not exist
	step("long data", execution(t, 0, "00 00 02000000"), 0, "2 long")
	step("long data is forgotten", execution(t, 0, "00 00 02000000 0163"), 0, "2 c")
	p.MarkLong(0)
	p.ClearLong()
	step("reset", execution(t, 0, "00 00 03000000 00"), 0, "3 ")
	step("attribute", execution(t, ExecuteParamCount, "03 00 01 0380 00 fe00 00 fe00 0161 04000000 0178 0179"),
		CapQueryAttributes, "4 x a=y")
	step("no attribute after one", execution(t, ExecuteParamCount, "02 00 00 05000000 0179"), CapQueryAttributes, "5 y")
	step("fewer than the statement has", execution(t, 0, "01 00 01 0380 00 04000000"), CapQueryAttributes, "wrong number of parameters")
	step("more bytes", execution(t, 0, "00 01 0380 fe00 ffffffff 0161 00"), 0, "bytes after the last parameter")
	step("type that is none", execution(t, 0, "00 01 f300 fe00 ffffffff 0161"), 0, "no value of INVALID crosses the wire")

	p.Reset(0)
	step("no parameters", execution(t, 0, ""), 0, "")
	step("only an attribute", execution(t, ExecuteParamCount, "01 00 01 fe00 0161 0179"), CapQueryAttributes, "a=y")
}

func TestBinaryValueAccessors(t *testing.T) {
	for _, c := range []struct {
		value BinaryValue
		want  string // Int64, Uint64, Float64: value, or - if there is none
	}{
		{BinaryValue{Data: []byte{0xFE}, ValueType: ValueType{Type: TypeTiny}}, "-2 - -"},
		{BinaryValue{Data: []byte{0xFE}, ValueType: ValueType{TypeTiny, true}}, "254 254 -"},
		{BinaryValue{Data: []byte{1, 0x80}, ValueType: ValueType{Type: TypeShort}}, "-32767 - -"},
		{BinaryValue{Data: []byte{0xEA, 7}, ValueType: ValueType{TypeYear, true}}, "2026 2026 -"},
		{BinaryValue{Data: []byte{0, 0, 0, 0x80}, ValueType: ValueType{Type: TypeInt24}}, "-2147483648 - -"},
		{BinaryValue{Data: []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, ValueType: ValueType{TypeLongLong, true}}, "- 9223372036854775808 -"},
		{BinaryValue{Data: []byte{0, 0, 0xC0, 0x3F}, ValueType: ValueType{Type: TypeFloat}}, "- - 1.5"},
		{BinaryValue{Data: []byte{0, 0, 0, 0, 0, 0, 0xF8, 0xBF}, ValueType: ValueType{Type: TypeDouble}}, "- - -1.5"},
		{BinaryValue{Data: []byte("7"), ValueType: ValueType{Type: TypeString}}, "- - -"},
		{BinaryValue{ValueType: ValueType{Type: TypeLong}}, "- - -"},
	} {
		i, iok := c.value.Int64()
		u, uok := c.value.Uint64()
		f, fok := c.value.Float64()
		if got := fmt.Sprintf("%s %s %s", orDash(i, iok), orDash(u, uok), orDash(f, fok)); got != c.want {
			t.Errorf("%v % x: got %s, want %s", c.value.ValueType, c.value.Data, got, c.want)
		}
	}
}

func orDash(v any, ok bool) string {
	if !ok {
		return "-"
	}
	return fmt.Sprint(v)
}
