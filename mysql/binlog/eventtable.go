package binlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Column types of row events that only MariaDB has.
const (
	typeMariaBlobCompressed    mysqlwire.ColumnType = 0x8C
	typeMariaVarcharCompressed mysqlwire.ColumnType = 0x8D
)

// A followedTable is a table of FollowOptions.
type followedTable struct {
	table        *rowstream.Table
	schema, name string // as in the log

	// all has, for each column of the table including generated ones, in order, its index in table.Columns,
	// or -1.
	all []int

	filter *rowstream.Filter // nil: rows are unchanged
	before []bool            // by column of the returned rows: before images have it; nil: all

	start   place // changes before it are ignored: rows were copied there; zero: no change is ignored
	defined place // changes of the definition before it are included in the description
	rows    bool  // for a scan: rows were logged since the last change of the definition
	group   bool  // for a scan: the group has rows
}

// keepsBefore reports whether before images have a column of the returned rows.
func (f *followedTable) keepsBefore(column int) bool { return f.before == nil || f.before[column] }

// columns returns the number of columns of the returned rows.
func (f *followedTable) columns() int {
	if f.filter == nil {
		return len(f.table.Columns)
	}
	return f.filter.Columns()
}

// A tableMap is the layout of the rows of a table's events, from one event on.
type tableMap struct {
	id      uint64
	table   int    // index of the followed table
	body    []byte // of the table map event
	columns []logColumn
	wanted  int // number of required columns
}

// splitTableMap splits a table map event: the id, the table's name, and the description of its columns.
//
// Specification: MySQL "Table_map_event".
func splitTableMap(body []byte) (id uint64, schema, name, rest []byte, err error) {
	if len(body) < 6+2+1 {
		return 0, nil, nil, nil, errShortEvent
	}
	id, rest = littleEndian(body[:6]), body[8:]
	for _, s := range []*[]byte{&schema, &name} {
		if len(rest) == 0 || len(rest) < int(rest[0])+2 {
			return 0, nil, nil, nil, errShortEvent
		}
		*s, rest = rest[1:1+int(rest[0])], rest[2+int(rest[0]):] // NUL-terminated
	}
	return id, schema, name, rest, nil
}

// set sets the layout of the rows of a followed table from its table map event. It returns an error if the
// table differs from its description.
func (m *tableMap) set(f *followedTable, body, rest []byte) error {
	n, k := mysqlwire.LenencInt(rest)
	if k == 0 || n > uint64(len(rest)-k) {
		return errShortEvent
	}
	types, rest := rest[k:k+int(n)], rest[k+int(n):]
	meta, k := mysqlwire.LenencString(rest)
	if k == 0 {
		return errShortEvent
	}
	if len(types) != len(f.all) {
		return fmt.Errorf("it has %d columns, and had %d when it was described", len(types), len(f.all))
	}
	m.columns, m.wanted = m.columns[:0], 0
	for i, t := range types {
		var c logColumn
		described := f.all[i]
		size := metaSize(mysqlwire.ColumnType(t))
		if len(meta) < size {
			return errShortEvent
		}
		if err := c.set(mysqlwire.ColumnType(t), meta[:size]); err != nil && described >= 0 {
			return fmt.Errorf("column %s: %w", f.table.Columns[described].Name, err)
		} else if err != nil {
			return fmt.Errorf("generated column %d: %w", i+1, err)
		}
		if described >= 0 {
			if err := c.describe(&f.table.Columns[described], mysqlwire.ColumnType(t), meta[:size]); err != nil {
				return fmt.Errorf("column %s: %w", f.table.Columns[described].Name, err)
			}
			c.wanted, c.before = true, f.filter != nil || f.keepsBefore(described)
			m.wanted++
		}
		meta = meta[size:]
		m.columns = append(m.columns, c)
	}
	m.body = append(m.body[:0], body...)
	return nil
}

// is reports whether the map was set by an equal event. All statements on a table have equal events until the
// server closes the table.
func (m *tableMap) is(body []byte) bool { return bytes.Equal(m.body, body) }

// metaSize returns the number of bytes of a column's metadata in a table map event.
func metaSize(t mysqlwire.ColumnType) int {
	switch t {
	case mysqlwire.TypeString, mysqlwire.TypeVarString, mysqlwire.TypeVarchar, mysqlwire.TypeBit, mysqlwire.TypeNewDecimal,
		mysqlwire.TypeEnum, mysqlwire.TypeSet, typeMariaVarcharCompressed:
		return 2
	case mysqlwire.TypeBlob, mysqlwire.TypeTinyBlob, mysqlwire.TypeMediumBlob, mysqlwire.TypeLongBlob, mysqlwire.TypeGeometry, mysqlwire.TypeJSON,
		mysqlwire.TypeVector, mysqlwire.TypeFloat, mysqlwire.TypeDouble,
		mysqlwire.TypeTimestamp2, mysqlwire.TypeDatetime2, mysqlwire.TypeTime2, typeMariaBlobCompressed:
		return 1
	}
	return 0
}

var (
	errColumnType = errors.New("the log does not write it as the type it was described with")
	errCompressed = errors.New("values of COMPRESSED columns are not read out of the log")
)

// set sets the layout of values of a type.
func (c *logColumn) set(t mysqlwire.ColumnType, meta []byte) error {
	c.scale = -1
	switch t {
	case mysqlwire.TypeTiny:
		c.form, c.size = formInteger, 1
	case mysqlwire.TypeShort:
		c.form, c.size = formInteger, 2
	case mysqlwire.TypeInt24:
		c.form, c.size = formInteger, 3
	case mysqlwire.TypeLong:
		c.form, c.size = formInteger, 4
	case mysqlwire.TypeLongLong:
		c.form, c.size = formInteger, 8
	case mysqlwire.TypeFloat:
		c.form, c.size = formFloat, 4
	case mysqlwire.TypeDouble:
		c.form, c.size = formDouble, 8
	case mysqlwire.TypeNewDecimal:
		digits, scale := int(meta[0]), int(meta[1])
		if digits == 0 || digits > 65 || scale > digits {
			return fmt.Errorf("a DECIMAL(%d,%d)", digits, scale)
		}
		c.form, c.size, c.digits, c.scale = formDecimal, uint8(decimalSize(digits, scale)), int16(digits), int16(scale)
	case mysqlwire.TypeYear:
		c.form, c.size, c.digits = formYear, 1, 4
	case mysqlwire.TypeDate, mysqlwire.TypeNewDate:
		c.form, c.size = formDate, 3
	case mysqlwire.TypeTime:
		c.form, c.size = formTime, 3
	case mysqlwire.TypeDatetime:
		c.form, c.size = formDatetime, 8
	case mysqlwire.TypeTimestamp:
		c.form, c.size = formTimestamp, 4
	case mysqlwire.TypeTime2, mysqlwire.TypeDatetime2, mysqlwire.TypeTimestamp2:
		if meta[0] > 6 {
			return fmt.Errorf("a time with %d digits of fractions", meta[0])
		}
		c.form, c.size = formTime2, 3
		switch t {
		case mysqlwire.TypeDatetime2:
			c.form, c.size = formDatetime2, 5
		case mysqlwire.TypeTimestamp2:
			c.form, c.size = formTimestamp2, 4
		}
		c.fraction = meta[0]
		c.size += uint8(fractionSize(int(meta[0])))
	case mysqlwire.TypeBit:
		bits := int(meta[1])*8 + int(meta[0])
		if bits == 0 || bits > 64 || meta[0] > 7 {
			return fmt.Errorf("a BIT(%d)", bits)
		}
		c.form, c.size = formBit, uint8((bits+7)/8)
	case mysqlwire.TypeVarchar, mysqlwire.TypeVarString:
		c.form, c.size = formBytes, lengthSize(int(binary.LittleEndian.Uint16(meta)))
	case mysqlwire.TypeBlob, mysqlwire.TypeGeometry, mysqlwire.TypeJSON, mysqlwire.TypeVector:
		if meta[0] < 1 || meta[0] > 4 {
			return fmt.Errorf("lengths of %d bytes", meta[0])
		}
		c.form, c.size = formBytes, meta[0]
		if t == mysqlwire.TypeJSON {
			c.form = formJSON
		}
	case mysqlwire.TypeString:
		return c.setString(meta)
	case typeMariaBlobCompressed, typeMariaVarcharCompressed:
		return errCompressed
	default:
		return fmt.Errorf("the log has values of %v, which Tare does not read", t)
	}
	return nil
}

// setString is set for CHAR, BINARY, ENUM and SET, which differ in the first byte of the metadata. This byte
// also has two bits of the length, inverted.
func (c *logColumn) setString(meta []byte) error {
	kind, length := mysqlwire.ColumnType(meta[0]), int(meta[1])
	if meta[0]&0x30 != 0x30 {
		length |= int(meta[0]&0x30^0x30) << 4
		kind = mysqlwire.ColumnType(meta[0] | 0x30)
	}
	switch kind {
	case mysqlwire.TypeEnum, mysqlwire.TypeSet:
		if length < 1 || length > 8 {
			return fmt.Errorf("a %v of %d bytes", kind, length)
		}
		c.form, c.size = formOrdinal, uint8(length)
	case mysqlwire.TypeString, mysqlwire.TypeVarString:
		c.form, c.size, c.pad = formString, lengthSize(length), length
	default:
		return fmt.Errorf("the log has values of %v, which Tare does not read", kind)
	}
	return nil
}

// lengthSize returns the size of the length of a value with at most n bytes.
func lengthSize(n int) uint8 {
	if n < 256 {
		return 1
	}
	return 2
}

// logTypes are the types that the log uses for values of a described type.
var logTypes = map[string][]mysqlwire.ColumnType{
	"tinyint": {mysqlwire.TypeTiny}, "smallint": {mysqlwire.TypeShort}, "mediumint": {mysqlwire.TypeInt24},
	"int": {mysqlwire.TypeLong}, "bigint": {mysqlwire.TypeLongLong}, "year": {mysqlwire.TypeYear},
	"decimal": {mysqlwire.TypeNewDecimal}, "float": {mysqlwire.TypeFloat}, "double": {mysqlwire.TypeDouble},
	"date": {mysqlwire.TypeDate, mysqlwire.TypeNewDate}, "time": {mysqlwire.TypeTime, mysqlwire.TypeTime2},
	"datetime": {mysqlwire.TypeDatetime, mysqlwire.TypeDatetime2}, "timestamp": {mysqlwire.TypeTimestamp, mysqlwire.TypeTimestamp2},
	"bit": {mysqlwire.TypeBit}, "json": {mysqlwire.TypeJSON}, "vector": {mysqlwire.TypeVector, mysqlwire.TypeVarchar},
	"enum": {mysqlwire.TypeString}, "set": {mysqlwire.TypeString},
	"char": {mysqlwire.TypeString}, "binary": {mysqlwire.TypeString},
	"uuid": {mysqlwire.TypeString}, "inet4": {mysqlwire.TypeString}, "inet6": {mysqlwire.TypeString},
	"varchar": {mysqlwire.TypeVarchar, mysqlwire.TypeVarString}, "varbinary": {mysqlwire.TypeVarchar, mysqlwire.TypeVarString},
	"tinytext": {mysqlwire.TypeBlob}, "text": {mysqlwire.TypeBlob}, "mediumtext": {mysqlwire.TypeBlob}, "longtext": {mysqlwire.TypeBlob},
	"tinyblob": {mysqlwire.TypeBlob}, "blob": {mysqlwire.TypeBlob}, "mediumblob": {mysqlwire.TypeBlob}, "longblob": {mysqlwire.TypeBlob},
}

// describe adds properties of a column that the log lacks, and checks that the log agrees with the
// description.
func (c *logColumn) describe(d *rowstream.Column, t mysqlwire.ColumnType, meta []byte) error {
	types, ok := logTypes[d.Type]
	if !ok { // spatial types
		types = []mysqlwire.ColumnType{mysqlwire.TypeGeometry}
	}
	if !slices.Contains(types, t) {
		return errColumnType
	}
	c.unsigned = d.Unsigned
	arguments := typeArguments(d.FullType)
	zerofill := strings.Contains(d.FullType, "zerofill") && d.Type != "float"
	if zerofill || d.Type == "double" {
		for _, n := range arguments { // a description may come from another process
			if n < 0 || n > maxWidth {
				return errColumnType
			}
		}
	}
	if zerofill {
		c.fill = zeroFillWidth(d, arguments)
	}
	return c.describeForm(d, arguments, meta)
}

// describeForm is the type-specific part of describe.
func (c *logColumn) describeForm(d *rowstream.Column, arguments []int, meta []byte) error {
	agrees := true
	switch d.Type {
	case "double":
		if len(arguments) == 2 {
			c.scale = int16(arguments[1])
		}
	case "decimal":
		agrees = slices.Equal(arguments, []int{int(c.digits), int(c.scale)})
	case "year":
		if slices.Equal(arguments, []int{2}) {
			c.digits = 2
		}
	case "time", "datetime", "timestamp":
		if at(arguments, 0) != int(c.fraction) {
			return fmt.Errorf("the log keeps it in the form of before MariaDB 10.1 or MySQL 5.6, or it was altered: %w", errColumnType)
		}
	case "enum", "set":
		agrees = c.form == formOrdinal
	case "char":
		agrees = c.form == formString
		c.pad = 0
	case "binary":
		agrees = c.form == formString
	case "uuid", "inet4", "inet6":
		sizes := map[string]struct {
			form valueForm
			size int
		}{"uuid": {formUUID, 16}, "inet4": {formInet4, 4}, "inet6": {formInet6, 16}}[d.Type]
		agrees = c.form == formString && c.pad == sizes.size
		c.form = sizes.form
	case "tinytext", "tinyblob", "text", "blob", "mediumtext", "mediumblob", "longtext", "longblob":
		want := map[string]byte{"tiny": 1, "medium": 3, "long": 4}[strings.TrimSuffix(strings.TrimSuffix(d.Type, "text"), "blob")]
		agrees = meta[0] == cmp.Or(want, 2)
	}
	if !agrees {
		return errColumnType
	}
	return nil
}

// maxWidth is the maximum display width of a number's type.
const maxWidth = 255

// typeArguments returns the numbers in the parentheses of a type such as "decimal(10,2)".
func typeArguments(full string) (n []int) {
	_, text, _ := strings.Cut(full, "(")
	text, _, ok := strings.Cut(text, ")")
	if !ok {
		return nil
	}
	for field := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return nil
		}
		n = append(n, v)
	}
	return n
}

// zeroFillWidth returns the width to which a ZEROFILL column is padded.
func zeroFillWidth(d *rowstream.Column, arguments []int) int16 {
	switch {
	case d.Type == "decimal" && len(arguments) == 2:
		width := arguments[0]
		if arguments[1] > 0 {
			width++
		}
		return int16(width)
	case d.Type == "double" && len(arguments) == 0:
		return 22
	case len(arguments) > 0:
		return int16(arguments[0])
	}
	return 0
}
