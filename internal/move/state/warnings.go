package state

import (
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A warning may mean that a value was changed as it was written. So only known warnings are allowed, by their
// number and the class of the statement. Any other one ends the copy.

// A statementClass is the class of a statement that changes a target table.
type statementClass uint8

// The classes, as a set of bits.
const (
	RowsWritten statementClass = 1 << iota // LOAD DATA, INSERT, REPLACE
	KeysDeleted                            // DELETE by key
)

// An allowedWarning is a warning that does not affect the values written.
type allowedWarning struct {
	number  string
	classes statementClass
	of      func(c *rowstream.Column, text string) bool // whether the text is about a column for which the warning is expected
}

var allowedWarnings = [...]allowedWarning{
	// WARN_DATA_TRUNCATED: an ENUM got the number 0. The source has it too, in rows where a value that is no
	// member was stored.
	{"1265", RowsWritten, func(c *rowstream.Column, text string) bool {
		return c.Type == "enum" && (c.Write == (rowstream.Wrap{}) || c.Zero) && strings.Contains(text, "column '"+c.Name+"' at row ")
	}},
	// ER_WARN_DEPRECATED_SYNTAX, MySQL: the character set of a column, which literals of its keys name.
	{"1287", RowsWritten | KeysDeleted, func(c *rowstream.Column, text string) bool {
		return c.Charset != "" && strings.HasPrefix(text, "'"+c.Charset+"' is deprecated")
	}},
	// ER_WARN_DEPRECATED_DATETIME_DELIMITER and ER_WARN_DEPRECATED_SUPERFLUOUS_DELIMITER, MySQL: a text that becomes a date has other
	// delimiters than - and :, which an ALTER TABLE accepts with this warning.
	{"4095", RowsWritten, isConvertedText},
	{"4096", RowsWritten, isConvertedText},
	// ER_DEPRECATED_UTF8_ALIAS, MySQL before 8.0.30: likewise, for a column with the character set that it
	// calls utf8.
	{"3719", RowsWritten | KeysDeleted, func(c *rowstream.Column, text string) bool {
		return c.Charset == "utf8" && strings.HasPrefix(text, "'utf8' is currently an alias")
	}},
}

// isConvertedText reports whether a column's values are text that is converted to another type, and a warning is about a delimiter in it.
func isConvertedText(c *rowstream.Column, text string) bool {
	return c.Charset != "" && c.Write != (rowstream.Wrap{}) && strings.HasPrefix(text, "Delimiter ") && strings.Contains(text, "deprecated")
}

// harmlessWarning reports whether a row of SHOW WARNINGS is expected for a statement of the class on the
// table.
func harmlessWarning(t *tabledef.Target, class statementClass, row mysqlwire.TextRow) bool {
	if len(row) != 3 {
		return false
	}
	for i := range allowedWarnings {
		a := &allowedWarnings[i]
		if a.number == string(row[1]) && a.classes&class != 0 &&
			slices.ContainsFunc(t.Columns, func(c rowstream.Column) bool { return a.of(&c, string(row[2])) }) {
			return true
		}
	}
	return false
}
