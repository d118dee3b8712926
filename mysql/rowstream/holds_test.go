package rowstream_test

import (
	"testing"

	"github.com/taredb/tare/mysql/rowstream"
)

func TestHolds(t *testing.T) {
	column := func(kind, full, charset string, unsigned bool) *rowstream.Column {
		return &rowstream.Column{Name: "c", Type: kind, FullType: full, Charset: charset, Unsigned: unsigned}
	}
	small, number, big := column("smallint", "smallint(6)", "", false), column("int", "int(11)", "", false), column("bigint", "bigint(20)", "", false)
	unsigned, positive := column("int", "int(10) unsigned", "", true), column("bigint", "bigint(20) unsigned", "", true)
	latin, utf8, short := column("varchar", "varchar(40)", "latin1", false), column("varchar", "varchar(40)", "utf8mb4", false), column("varchar", "varchar(20)", "utf8mb4", false)
	fixed, text, long := column("char", "char(40)", "utf8mb4", false), column("text", "text", "utf8mb4", false), column("longtext", "longtext", "utf8mb4", false)
	price, exact := column("decimal", "decimal(8,2)", "", false), column("decimal", "decimal(12,4)", "", false)
	at, at6 := column("datetime", "datetime", "", false), column("datetime", "datetime(6)", "", false)
	abc, cb := column("enum", "enum('a','b','c')", "utf8mb4", false), column("enum", "enum('c','b')", "utf8mb4", false)
	bin, blob := column("varbinary", "varbinary(20)", "", false), column("blob", "blob", "", false)
	for _, tt := range []struct {
		c, v *rowstream.Column
		want bool
	}{
		{number, small, true},
		{small, number, false},
		{big, unsigned, true},
		{unsigned, number, false},
		{number, unsigned, false},
		{positive, unsigned, true},
		{big, positive, false},
		{column("decimal", "decimal(10,0)", "", false), number, true},
		{column("decimal", "decimal(10,1)", "", false), number, false},
		{exact, price, true},
		{price, exact, false},
		{column("decimal", "decimal(12,4) unsigned", "", true), price, false},
		{number, price, false},
		{utf8, latin, true},
		{latin, utf8, false},
		{utf8, short, true},
		{short, utf8, false},
		{utf8, fixed, true},
		{fixed, utf8, false},
		{text, utf8, true},
		{utf8, text, false},
		{long, text, true},
		{text, long, false},
		{latin, column("varchar", "varchar(9)", "ascii", false), true},
		{at6, at, true},
		{at, at6, false},
		{at, column("date", "date", "", false), false},
		{abc, cb, true},
		{cb, abc, false},
		{utf8, abc, true},
		{column("varchar", "varchar(0)", "utf8mb4", false), abc, false},
		{blob, bin, true},
		{bin, blob, false},
		{column("binary", "binary(20)", "", false), bin, false},
		{bin, bin, true},
	} {
		if got := tt.c.Holds(tt.v); got != tt.want {
			t.Errorf("%s %s holds %s %s: %v, want %v", tt.c.FullType, tt.c.Charset, tt.v.FullType, tt.v.Charset, got, tt.want)
		}
	}
}
