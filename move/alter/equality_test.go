package alter

import (
	"testing"

	"github.com/taredb/tare/mysql/rowstream"
)

// TestSameEquality has conversions of key columns: two values are equal after one if and only if they were before.
func TestSameEquality(t *testing.T) {
	number := func(kind, full string) rowstream.Column { return rowstream.Column{Type: kind, FullType: full} }
	text := func(kind, full, collation string) rowstream.Column {
		return rowstream.Column{Type: kind, FullType: full, Collation: collation}
	}
	for _, tt := range []struct {
		from, to rowstream.Column
		want     bool
	}{
		{number("int", "int(11)"), number("bigint", "bigint(20)"), true},
		{number("tinyint", "tinyint(4)"), number("mediumint", "mediumint(9)"), true},
		{number("int", "int(11)"), number("decimal", "decimal(10,0)"), false},
		{number("decimal", "decimal(10,2)"), number("decimal", "decimal(10,2)"), true},
		{number("decimal", "decimal(10,2)"), number("decimal", "decimal(10,1)"), false},
		{number("date", "date"), number("datetime", "datetime"), false},
		{text("varchar", "varchar(10)", "utf8mb4_general_ci"), text("varchar", "varchar(20)", "utf8mb4_general_ci"), true},
		{text("varchar", "varchar(10)", "utf8mb4_general_ci"), text("varchar", "varchar(10)", "utf8mb4_bin"), false},
		{text("varchar", "varchar(10)", "utf8mb3_general_ci"), text("varchar", "varchar(10)", "utf8mb4_general_ci"), true},
		{text("varchar", "varchar(10)", "utf8_bin"), text("varchar", "varchar(10)", "utf8mb4_bin"), true},
		{text("varchar", "varchar(10)", "utf8mb3_general_ci"), text("varchar", "varchar(10)", "utf8mb4_unicode_ci"), false},
		{text("varchar", "varchar(10)", "utf8mb3_swedish_ci"), text("varchar", "varchar(10)", "utf8mb4_swedish_ci"), false},
		{text("varchar", "varchar(10)", "latin1_bin"), number("varbinary", "varbinary(10)"), false},
	} {
		if got := sameEquality(&tt.from, &tt.to); got != tt.want {
			t.Errorf("%s %s to %s %s: %v", tt.from.FullType, tt.from.Collation, tt.to.FullType, tt.to.Collation, got)
		}
	}
}
