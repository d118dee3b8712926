package state

import (
	"testing"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestAllowedWarnings checks allowed warnings, and refused ones: other numbers, statements and columns.
func TestAllowedWarnings(t *testing.T) {
	tt := &tabledef.Target{Columns: []rowstream.Column{
		{Name: "id", Type: "int"}, {Name: "e", Type: "enum", Charset: "utf8mb4"}, {Name: "k", Type: "varchar", Charset: "utf8mb3"}, {Name: "v", Type: "varchar", Charset: "utf8"},
	}}
	const alias = "'utf8' is currently an alias for the character set UTF8MB3"
	for _, w := range []struct {
		class        statementClass
		number, text string
		passes       bool
	}{
		{RowsWritten, "1265", "Data truncated for column 'e' at row 3", true},
		{KeysDeleted, "1265", "Data truncated for column 'e' at row 3", false},
		{RowsWritten, "1265", "Data truncated for column 'k' at row 3", false},
		{RowsWritten, "1265", "Data truncated for column 'id' at row 3 of 'e'", false},
		{RowsWritten, "1287", "'utf8mb3' is deprecated and will be removed in a future release. Please use utf8mb4 instead", true},
		{KeysDeleted, "1287", "'utf8mb3' is deprecated and will be removed in a future release. Please use utf8mb4 instead", true},
		{KeysDeleted, "1287", "'ucs2' is deprecated and will be removed in a future release", false},
		{RowsWritten, "1287", "'VALUES function' is deprecated", false},
		{KeysDeleted, "3719", alias, true},
		{RowsWritten, "3719", "'NATIONAL' is currently an alias", false},
		{RowsWritten, "1264", "Out of range value for column 'e' at row 3", false},
		{RowsWritten, "1366", "Incorrect string value for column 'e' at row 3", false},
		{RowsWritten, "1592", "Unsafe statement written to the binary log", false},
		{RowsWritten, "9999", "Data truncated for column 'e' at row 3", false},
		{0, "1265", "Data truncated for column 'e' at row 3", false},
	} {
		row := mysqlwire.TextRow{[]byte("Warning"), []byte(w.number), []byte(w.text)}
		if got := harmlessWarning(tt, w.class, row); got != w.passes {
			t.Errorf("%d %s %s: passes %v", w.class, w.number, w.text, got)
		}
	}
	if harmlessWarning(tt, RowsWritten, mysqlwire.TextRow{[]byte("Warning"), []byte("1265")}) {
		t.Error("a warning without a text passes")
	}
}
