package rowstream

import (
	"errors"
	"testing"
)

// TestConvertColumn has conversions, and types that are not converted. Package alter compares them with those of servers.
func TestConvertColumn(t *testing.T) {
	column := func(kind, full, charset string) *Column {
		return &Column{Name: "c", Type: kind, FullType: full, Charset: charset, Nullable: true}
	}
	number, big, text := column("int", "int(11)", ""), column("bigint", "bigint(20)", ""), column("varchar", "varchar(10)", "latin1")
	enum, other := column("enum", "enum('a','it''s')", "utf8mb4"), column("enum", "enum('it''s','a')", "utf8mb4")
	more := column("enum", "enum('a','it''s','z')", "utf8mb4")
	required := column("int", "int", "")
	required.Nullable = false
	for _, tt := range []struct {
		from, to *Column
		want     Conversion
		err      error
	}{
		{from: number, to: column("int", "int", "")},
		{from: number, to: required, want: Conversion{From: "`c`", To: "`c`"}},
		{from: number, to: big, want: Conversion{From: "`c`+0", To: "`c`+0"}},
		{from: big, to: column("double", "double", ""), err: errUnknownConversion},
		{from: text, to: column("varchar", "varchar(20)", "utf8mb4"), want: Conversion{Write: Wrap{"CONVERT(", " USING latin1)"}, From: "CONVERT(`c` USING utf8mb4)", To: "`c`"}},
		{from: text, to: column("char", "char(10)", "latin1"), err: errLossy},
		{from: column("datetime", "datetime(3)", ""), to: column("datetime", "datetime", ""), err: errLossy},
		{from: column("decimal", "decimal(8,2)", ""), to: column("decimal", "decimal(8,1)", ""), err: errLossy},
		{from: enum, to: more, want: Conversion{From: enum.ReadExpr(), To: more.ReadExpr()}},
		{from: enum, to: other, want: Conversion{
			Write: Wrap{"ELT(1+", ", '', _utf8mb4 x'61', _utf8mb4 x'69742773')"},
			From:  "CONVERT(CAST(`c` AS CHAR) USING utf8mb4)", To: "CONVERT(CAST(`c` AS CHAR) USING utf8mb4)",
			Zero: true,
		}},
		{from: column("point", "point", ""), to: column("blob", "blob", ""), err: errUnknownConversion},
		{from: column("bit", "bit(5)", ""), to: column("bit", "bit(9)", ""), err: errUnknownConversion},
	} {
		got, err := ConvertColumn(tt.from, tt.to)
		if !errors.Is(err, tt.err) || err == nil && got != tt.want {
			t.Errorf("%s to %s: %+v, %v, want %+v, %v", tt.from.FullType, tt.to.FullType, got, err, tt.want, tt.err)
		}
	}
}

// TestMembersOf has the members of types.
func TestMembersOf(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int
	}{{"enum('a','b,c','d'',e')", 3}, {"set('x')y", -1}, {"enum()", -1}, {`enum('a\'b')`, -1}, {"int", -1}} {
		got, err := membersOf(tt.text)
		if tt.want < 0 != (err != nil) || tt.want >= 0 && len(got) != tt.want {
			t.Errorf("%s: %q, %v", tt.text, got, err)
		}
	}
}
