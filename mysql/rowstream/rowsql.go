package rowstream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A RowSQL formats rows of one table as REPLACE and DELETE statements. Both are idempotent: after REPLACE the
// row exists with exactly these values, after DELETE its key does not exist. A RowSQL has no state of a
// statement and is safe for concurrent use.
type RowSQL struct {
	replaceHead string
	deleteHead  string
	deleteFrom  int // of the condition in deleteHead
	deleteTail  string
	wraps       []Wrap
	key         []keySQL
	exact       bool
}

// A keySQL formats the values of one key column so that they are compared by the column's rules.
type keySQL struct {
	column int
	how    keyForm
	intro  string // before the quote: _binary, or the column's character set
	hex    string // before the quote of a literal in hexadecimal digits
	equal  string // before the value, if the key has several columns
}

// A keyForm is the form of a key value in SQL.
type keyForm uint8

const (
	keyText   keyForm = iota // in quotes, in the column's character set
	keyNumber                // without quotes
	keyBits                  // bytes, as a number
)

// NewRowSQL returns a RowSQL for a table, named by an SQL expression, with the columns of its rows, in the
// form of ReadExpr, and the indexes of its key's columns.
func NewRowSQL(table string, columns []Column, key []int) (*RowSQL, error) {
	list, wraps := InsertColumns(columns)
	s := &RowSQL{
		replaceHead: "REPLACE INTO " + table + " " + list + " VALUES ",
		deleteHead:  "DELETE FROM " + table + " WHERE ",
		wraps:       wraps, exact: true,
	}
	s.deleteFrom = len(s.deleteHead)
	for i, n := range key {
		c := &columns[n]
		if !c.Keyable() {
			return nil, fmt.Errorf("column %s is of the type %s, which no key can have here", c.Name, c.FullType)
		}
		k := keySQL{column: n, intro: "_binary'", hex: "x'"}
		switch c.kind() {
		case kindInteger, kindNumber, kindFloat:
			k.how = keyNumber
		case kindBit:
			k.how = keyBits
		case kindText:
			k.hex = "_" + c.Charset + " x'"
			k.intro = k.hex
			if asciiBytes(c.Charset) {
				k.intro = "_" + c.Charset + "'"
			}
		case kindName:
			k.intro, k.hex = "_latin1'", "_latin1 x'"
		}
		if len(key) > 1 {
			k.equal = []string{"(", " AND "}[min(i, 1)] + session.Ident(c.Name) + "="
		}
		s.exact = s.exact && c.Exact()
		s.key = append(s.key, k)
	}
	switch len(key) {
	case 0:
		return nil, fmt.Errorf("table %s has no key among its columns", table)
	case 1:
		s.deleteHead += session.Ident(columns[key[0]].Name) + " IN ("
		s.deleteTail = ")"
	}
	return s, nil
}

// Guarded returns a copy whose DELETE statements delete only rows for which the condition is true. With insert, rows are added by INSERT, which
// fails where REPLACE deletes other rows.
func (s *RowSQL) Guarded(condition string, insert bool) *RowSQL {
	g := *s
	g.deleteTail += " AND (" + condition + ")"
	if len(g.key) > 1 {
		g.deleteHead += "("
		g.deleteTail = ")" + g.deleteTail
	}
	if insert {
		g.replaceHead = "INSERT" + strings.TrimPrefix(g.replaceHead, "REPLACE")
	}
	return &g
}

// Headed returns a copy whose DELETE statements start with other SQL than the name of the table, up to the condition on its keys.
func (s *RowSQL) Headed(head string) *RowSQL {
	g := *s
	g.deleteHead = head + s.deleteHead[s.deleteFrom:]
	return &g
}

// HasKey reports whether no value of the row's key is NULL.
func (s *RowSQL) HasKey(row mysqlwire.TextRow) bool {
	for i := range s.key {
		if row[s.key[i].column] == nil {
			return false
		}
	}
	return true
}

// Exact reports whether two values of the column are equal on the server if and only if they have the same
// bytes in rows of ReadExpr.
func (c *Column) Exact() bool {
	switch c.kind() {
	case kindInteger, kindTemporal, kindBinary, kindBit, kindName:
		return true
	case kindNumber:
		return c.Type != "double" // doubles have 0 and -0
	case kindText:
		return strings.HasSuffix(c.Collation, "_nopad_bin") || c.Collation == "utf8mb4_0900_bin"
	}
	return false
}

// asciiBytes reports whether printable ASCII has the same bytes in a character set.
func asciiBytes(charset string) bool {
	switch charset {
	case "utf8mb4", "utf8mb3", "utf8", "latin1", "ascii", "latin2", "latin5", "latin7", "greek", "hebrew", "cp1250", "cp1251", "cp1256", "cp1257", "koi8r":
		return true
	}
	return false
}

// ExactKey reports whether rows have equal keys if and only if the bytes of their key values are equal. It is
// false for text under a collation that ignores case, accents or trailing spaces, and for floats.
func (s *RowSQL) ExactKey() bool { return s.exact }

// AppendReplaceHead starts a REPLACE statement. Rows of AppendRow follow.
func (s *RowSQL) AppendReplaceHead(dst []byte) []byte { return append(dst, s.replaceHead...) }

// AppendRow appends a row to a REPLACE statement, after a comma unless it is the first. It does not allocate
// if dst has enough capacity.
func (s *RowSQL) AppendRow(dst []byte, row mysqlwire.TextRow, first bool) []byte {
	if !first {
		dst = append(dst, ',')
	}
	for i, v := range row {
		dst = append(dst, "(,"[min(i, 1)])
		dst = appendWrapped(dst, v, s.wraps, i)
	}
	return append(dst, ')')
}

// AppendDeleteHead starts a DELETE statement. Keys of AppendKey and an AppendDeleteTail follow.
func (s *RowSQL) AppendDeleteHead(dst []byte) []byte { return append(dst, s.deleteHead...) }

// AppendKey appends the key of a row to a DELETE statement, with a separator unless it is the first. It does
// not allocate if dst has enough capacity.
//
// A key of one column is an element of an IN list. A key of several columns is expanded, because not every
// server uses the key's index for (a, b) IN ((1, 2), …).
func (s *RowSQL) AppendKey(dst []byte, row mysqlwire.TextRow, first bool) []byte {
	if len(s.key) == 1 {
		if !first {
			dst = append(dst, ',')
		}
		return s.key[0].appendValue(dst, row[s.key[0].column])
	}
	if !first {
		dst = append(dst, " OR "...)
	}
	for i := range s.key {
		k := &s.key[i]
		dst = append(dst, k.equal...)
		dst = k.appendValue(dst, row[k.column])
	}
	return append(dst, ')')
}

// AppendDeleteTail ends a DELETE statement.
func (s *RowSQL) AppendDeleteTail(dst []byte) []byte {
	return append(dst, s.deleteTail...)
}

// AppendKeyBytes appends the key's values with their lengths: the same bytes for equal keys if ExactKey. It
// does not allocate if dst has enough capacity.
func (s *RowSQL) AppendKeyBytes(dst []byte, row mysqlwire.TextRow) []byte {
	for i := range s.key {
		dst = mysqlwire.AppendLenencString(dst, row[s.key[i].column])
	}
	return dst
}

func (k *keySQL) appendValue(dst, v []byte) []byte {
	switch {
	case k.how == keyNumber && numberText(v):
		return append(dst, v...)
	case k.how == keyBits && len(v) <= 8:
		n := uint64(0)
		for _, b := range v {
			n = n<<8 | uint64(b)
		}
		return strconv.AppendUint(dst, n, 10)
	case k.intro != k.hex && session.IsPlain(v):
		dst = append(dst, k.intro...)
		dst = append(dst, v...)
		return append(dst, '\'')
	}
	return append(session.AppendHex(append(dst, k.hex...), v), '\'')
}

// numberText reports whether v may appear without quotes in a statement.
func numberText(v []byte) bool {
	for _, b := range v {
		if (b < '0' || b > '9') && b != '-' && b != '+' && b != '.' && b != 'e' && b != 'E' {
			return false
		}
	}
	return len(v) > 0
}
