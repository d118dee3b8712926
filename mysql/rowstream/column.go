package rowstream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
)

// A Column is a column of a table, as described by information_schema.
type Column struct {
	Name      string
	Type      string // name of the type, such as "varchar"
	FullType  string // as declared, such as "varchar(20)" or "int(10) unsigned"
	Charset   string // of text; empty otherwise
	Collation string
	Nullable  bool
	Unsigned  bool
	Generated bool // computed by the server: neither read nor written

	Expression string // of a generated column
	Stored     bool   // likewise
	Invisible  bool
	Auto       bool // AUTO_INCREMENT

	// Write is SQL around a value that is written to the column, where that is not a matter of the type: of a column whose
	// values come from one of another type. The zero Wrap: it is.
	Write Wrap `json:"-"`

	// Zero says that Write keeps the number 0 of an ENUM, and that all other numbers of it are members of the new one. So a value that is no
	// member is that number.
	Zero bool `json:"-"`
}

// A kind is a group of types whose values are read, written and compared in the same way, without loss.
type kind uint8

const (
	kindText     kind = iota // bytes in a character set
	kindBinary               // bytes
	kindInteger              // integers, from which ranges of keys can be computed
	kindNumber               // other exact numbers, and doubles, whose text is exact
	kindFloat                // its text has fewer digits than its value; as a double it is exact
	kindTemporal             // dates and times
	kindOrdinal              // ENUM and SET: by number, since members may look like numbers of others
	kindBit                  // bytes, compared as numbers
	kindJSON                 // MySQL's JSON: accepts text only in utf8mb4
	kindName                 // UUID, INET4, INET6: written as text, stored as bytes
)

var kinds = map[string]kind{
	"char": kindText, "varchar": kindText, "tinytext": kindText, "text": kindText, "mediumtext": kindText, "longtext": kindText,
	"binary": kindBinary, "varbinary": kindBinary, "tinyblob": kindBinary, "blob": kindBinary, "mediumblob": kindBinary, "longblob": kindBinary,
	"geometry": kindBinary, "point": kindBinary, "linestring": kindBinary, "polygon": kindBinary, "multipoint": kindBinary,
	"multilinestring": kindBinary, "multipolygon": kindBinary, "geometrycollection": kindBinary, "geomcollection": kindBinary, "vector": kindBinary,
	"tinyint": kindInteger, "smallint": kindInteger, "mediumint": kindInteger, "int": kindInteger, "bigint": kindInteger, "year": kindNumber,
	"decimal": kindNumber, "double": kindNumber, "float": kindFloat,
	"date": kindTemporal, "time": kindTemporal, "datetime": kindTemporal, "timestamp": kindTemporal,
	"enum": kindOrdinal, "set": kindOrdinal, "bit": kindBit, "json": kindJSON,
	"uuid": kindName, "inet4": kindName, "inet6": kindName,
}

// Known returns an error for a column type that Tare does not know.
func (c *Column) Known() error {
	if _, ok := kinds[c.Type]; !ok {
		return fmt.Errorf("column %s: values of the type %s are not known to be copied without loss; leave the column out", c.Name, c.FullType)
	}
	return nil
}

func (c *Column) kind() kind { return kinds[c.Type] }

// ReadExpr returns the SELECT expression whose text represents the column's value exactly.
func (c *Column) ReadExpr() string {
	switch c.kind() {
	case kindFloat:
		return session.Ident(c.Name) + "*1e0" // + 0e0 would lose the sign of -0
	case kindOrdinal:
		return "CAST(" + session.Ident(c.Name) + " AS SIGNED)" // + 0 would make a double of it in MySQL, of 53 bits
	}
	return session.Ident(c.Name)
}

// writeWrap returns the SQL around a value of ReadExpr that is written to the column.
func (c *Column) writeWrap() Wrap {
	if c.Write != (Wrap{}) {
		return c.Write
	}
	switch c.kind() {
	case kindOrdinal:
		return Wrap{Before: "CAST(", After: " AS SIGNED)"} // + 0 would make a double of it, of 53 bits
	case kindJSON:
		return Wrap{Before: "CONVERT(", After: " USING utf8mb4)"}
	case kindName:
		return Wrap{Before: "CONVERT(", After: " USING latin1)"}
	}
	return Wrap{}
}

// LoadColumns returns the column list of a LOAD DATA statement for rows of ReadExpr, and its SET clause,
// empty if it is not needed. With a SET clause, it includes an AUTO_INCREMENT column: otherwise servers
// ignore that the file has a value for it, and generate an id for 0.
func LoadColumns(columns []Column) (list, set string) {
	wraps := slices.ContainsFunc(columns, func(c Column) bool { return c.writeWrap() != Wrap{} })
	var names, sets []string
	for i := range columns {
		c := &columns[i]
		w := c.writeWrap()
		if w == (Wrap{}) && (!wraps || !c.Auto) {
			names = append(names, session.Ident(c.Name))
			continue
		}
		v := fmt.Sprintf("@v%d", i)
		names = append(names, v)
		sets = append(sets, session.Ident(c.Name)+" = "+w.Before+v+w.After)
	}
	if len(sets) > 0 {
		set = " SET " + strings.Join(sets, ", ")
	}
	return "(" + strings.Join(names, ", ") + ")", set
}

// InsertColumns returns the column list of an INSERT statement for rows of ReadExpr, and the SQL around its
// values.
func InsertColumns(columns []Column) (list string, wraps []Wrap) {
	names := make([]string, len(columns))
	wraps = make([]Wrap, len(columns))
	for i := range columns {
		names[i] = session.Ident(columns[i].Name)
		wraps[i] = columns[i].writeWrap()
	}
	return "(" + strings.Join(names, ", ") + ")", wraps
}

// Keyable reports whether SQL can express ranges of the column in the order of the index: ENUM and SET are
// compared as text but stored as numbers. MariaDB orders CHAR of a collation without padding by the padded
// values in an index, and compares them without the spaces.
func (c *Column) Keyable() bool {
	return c.kind() != kindOrdinal && c.kind() != kindJSON && (c.Type != "char" || !strings.Contains(c.Collation, "_nopad_"))
}

// keyExpr returns the SELECT expression for a key value in the form of keyLiteral.
func (c *Column) keyExpr() string {
	if c.kind() == kindBit {
		return session.Ident(c.Name) + "+0"
	}
	return c.ReadExpr()
}

// keyLiteral returns a key value in the form of keyExpr as a literal that is compared by the column's rules.
func (c *Column) keyLiteral(v []byte) (string, error) {
	switch c.kind() {
	case kindInteger, kindNumber, kindFloat, kindBit:
		if len(v) == 0 {
			return "", fmt.Errorf("key column %s: %q is not a number", c.Name, v)
		}
		for _, b := range v {
			if (b < '0' || b > '9') && b != '-' && b != '+' && b != '.' && b != 'e' && b != 'E' {
				return "", fmt.Errorf("key column %s: %q is not a number", c.Name, v)
			}
		}
		return string(v), nil
	case kindText:
		return fmt.Sprintf("_%s x'%x'", c.Charset, v), nil
	case kindBinary:
		return fmt.Sprintf("x'%x'", v), nil
	case kindName:
		return fmt.Sprintf("_latin1 x'%x'", v), nil
	}
	return string(session.AppendLiteral(nil, v)), nil
}

// maxBytes returns how many bytes a value has at most in a row; 0: the type has no small bound.
func (c *Column) maxBytes() int64 {
	const number, length, perChar = 26, 3, 4 // the longest text of a number or a time, the length before a value, a character
	var n int64
	if _, size, ok := strings.Cut(c.FullType, "("); ok {
		_, _ = fmt.Sscan(size, &n) // members of an ENUM are no number
	}
	switch c.Type {
	case "char", "varchar":
		return length + perChar*max(1, n)
	case "binary", "varbinary":
		return length + max(1, n)
	}
	switch c.kind() {
	case kindText, kindBinary, kindJSON, kindName:
		return 0
	}
	return length + max(number, n+3) // zerofill, DECIMAL(65,30)
}
