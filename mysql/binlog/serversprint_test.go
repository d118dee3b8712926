package binlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A printedTable is a table of the log, described from its table map alone.
type printedTable struct {
	name     string // quoted
	columns  []printedColumn
	absent   tableMap // no column is wanted
	signed   tableMap // all columns are wanted
	unsigned tableMap // and numbers are unsigned
	maria    bool
	dst      []byte
}

// A printedColumn has what the server's program prints of a column's type.
type printedColumn struct {
	kind       mysqlwire.ColumnType
	length     int // of a STRING
	meta       int
	name       string // of the type
	nullable   bool
	compressed bool // of MariaDB: a follower stops there
}

// newPrintedTable parses a table map event.
func newPrintedTable(body []byte, maria bool) (id uint64, m *printedTable, err error) {
	body = slices.Clone(body)
	id, schema, name, rest, err := splitTableMap(body)
	if err != nil {
		return 0, nil, err
	}
	m = &printedTable{name: fmt.Sprintf("`%s`.`%s`", schema, name), maria: maria}
	n, k := mysqlwire.LenencInt(rest)
	types := rest[k : k+int(n)]
	meta, k2 := mysqlwire.LenencString(rest[k+int(n):])
	nulls := rest[k+int(n)+k2:]
	dimensions := vectorDimensions(nulls[min(len(nulls), (int(n)+7)/8):])
	f := &followedTable{table: &rowstream.Table{Schema: string(schema), Name: string(name)}}
	for i, t := range types {
		c := printedColumn{kind: mysqlwire.ColumnType(t), nullable: nulls[i/8]>>(i%8)&1 == 1}
		switch c.kind {
		case typeMariaBlobCompressed: // bytes, for this test
			c.compressed, c.kind, types[i] = true, mysqlwire.TypeBlob, byte(mysqlwire.TypeBlob)
		case typeMariaVarcharCompressed:
			c.compressed, c.kind, types[i] = true, mysqlwire.TypeVarchar, byte(mysqlwire.TypeVarchar)
		}
		size := metaSize(c.kind)
		described := c.describe(meta[:size], maria)
		if c.kind == mysqlwire.TypeVector && len(dimensions) > 0 {
			c.name, dimensions = fmt.Sprintf("VECTOR(%d)", dimensions[0]), dimensions[1:]
		}
		if c.compressed {
			c.name += " COMPRESSED"
		}
		meta = meta[size:]
		f.table.Columns, f.all = append(f.table.Columns, described), append(f.all, i)
		m.columns = append(m.columns, c)
	}
	for _, layout := range []*tableMap{&m.absent, &m.signed, &m.unsigned} {
		if err := layout.set(f, body, rest); err != nil {
			return 0, nil, err
		}
	}
	for i := range m.columns {
		m.absent.columns[i].wanted = false
		m.unsigned.columns[i].unsigned = true
	}
	return id, m, nil
}

// vectorDimensions returns the dimensions of VECTOR columns, in order, from the optional metadata of a table map.
func vectorDimensions(metadata []byte) (list []uint64) {
	const field = 13
	for len(metadata) > 0 {
		kind := metadata[0]
		value, n := mysqlwire.LenencString(metadata[1:])
		if n == 0 {
			return nil
		}
		metadata = metadata[1+n:]
		for kind == field && len(value) > 0 {
			v, n := mysqlwire.LenencInt(value)
			if n == 0 {
				return nil
			}
			list, value = append(list, v), value[n:]
		}
	}
	return list
}

// describe sets the column's properties, and returns a column of a table for which the log has its type.
func (c *printedColumn) describe(meta []byte, maria bool) (d rowstream.Column) {
	simple := func(printed, name string) {
		c.name, d.Type, d.FullType = printed, name, name
	}
	if len(meta) == 1 {
		c.meta = int(meta[0])
	}
	switch c.kind {
	case mysqlwire.TypeTiny:
		simple("TINYINT", "tinyint")
	case mysqlwire.TypeShort:
		simple("SHORTINT", "smallint")
	case mysqlwire.TypeInt24:
		simple("MEDIUMINT", "mediumint")
	case mysqlwire.TypeLong:
		simple("INT", "int")
	case mysqlwire.TypeLongLong:
		simple("LONGINT", "bigint")
	case mysqlwire.TypeFloat:
		simple("FLOAT", "float")
	case mysqlwire.TypeDouble:
		simple("DOUBLE", "double")
	case mysqlwire.TypeNewDecimal:
		c.meta = int(meta[0])<<8 | int(meta[1])
		c.name, d.Type, d.FullType = fmt.Sprintf("DECIMAL(%d,%d)", meta[0], meta[1]), "decimal", fmt.Sprintf("decimal(%d,%d)", meta[0], meta[1])
	case mysqlwire.TypeYear:
		simple("YEAR", "year")
	case mysqlwire.TypeDate, mysqlwire.TypeNewDate:
		simple("DATE", "date")
	case mysqlwire.TypeTime:
		simple("TIME", "time")
	case mysqlwire.TypeDatetime:
		simple("DATETIME", "datetime")
	case mysqlwire.TypeTimestamp:
		simple("TIMESTAMP", "timestamp")
	case mysqlwire.TypeTime2:
		c.name, d.Type, d.FullType = fmt.Sprintf("TIME(%d)", c.meta), "time", fmt.Sprintf("time(%d)", c.meta)
	case mysqlwire.TypeDatetime2:
		c.name, d.Type, d.FullType = fmt.Sprintf("DATETIME(%d)", c.meta), "datetime", fmt.Sprintf("datetime(%d)", c.meta)
	case mysqlwire.TypeTimestamp2:
		c.name, d.Type, d.FullType = fmt.Sprintf("TIMESTAMP(%d)", c.meta), "timestamp", fmt.Sprintf("timestamp(%d)", c.meta)
	case mysqlwire.TypeBit:
		c.meta = int(meta[1])<<8 | int(meta[0])
		c.length = int(meta[1])*8 + int(meta[0])
		simple(fmt.Sprintf("BIT(%d)", c.length), "bit")
	case mysqlwire.TypeVarchar, mysqlwire.TypeVarString:
		c.meta = int(binary.LittleEndian.Uint16(meta))
		simple(fmt.Sprintf("VARSTRING(%d)", c.meta), "varchar")
	case mysqlwire.TypeBlob, mysqlwire.TypeTinyBlob, mysqlwire.TypeMediumBlob, mysqlwire.TypeLongBlob:
		size := map[int][2]string{1: {"TINY", "tiny"}, 2: {}, 3: {"MEDIUM", "medium"}, 4: {"LONG", "long"}}[c.meta]
		simple(size[0]+"BLOB/"+size[0]+"TEXT", size[1]+"blob")
	case mysqlwire.TypeGeometry:
		simple("GEOMETRY", "geometry")
	case mysqlwire.TypeJSON:
		simple("JSON", "json")
	case mysqlwire.TypeVector:
		simple("VECTOR", "vector")
	case mysqlwire.TypeString:
		c.meta = int(meta[0])<<8 | int(meta[1])
		kind, length := mysqlwire.ColumnType(meta[0]), int(meta[1])
		if meta[0]&0x30 != 0x30 {
			kind, length = mysqlwire.ColumnType(meta[0]|0x30), length|int(meta[0]&0x30^0x30)<<4
		}
		switch c.length = length; kind {
		case mysqlwire.TypeEnum:
			c.kind = kind
			simple(map[int]string{1: "ENUM(1 byte)", 2: "ENUM(2 bytes)"}[length], "enum")
		case mysqlwire.TypeSet:
			c.kind = kind
			simple(fmt.Sprintf("SET(%d bytes)", length), "set")
		default:
			simple(fmt.Sprintf("STRING(%d)", length), "char")
		}
	}
	return d
}

// print renders the next image of rows. whole is false if the program does not print a type, and with it the rest of the
// event. Columns in partial have differences of JSON.
func (m *printedTable) print(w *bufio.Writer, rows *rowsEvent, present []byte, partial []bool) (values int, whole bool, err error) {
	start, again := rows.rows, *rows
	if partial != nil {
		m.setPartial(partial, formBytes)
		defer m.setPartial(partial, formJSON)
	}
	if m.dst, err = rows.image(m.dst[:0], &m.signed, present, false); err != nil {
		return 0, false, err
	}
	var signed, unsigned mysqlwire.TextRow
	n := len(m.dst)
	if m.dst, err = again.image(m.dst, &m.unsigned, present, false); err != nil {
		return 0, false, err
	}
	for i := range m.columns {
		if present[i/8]>>(i%8)&1 == 1 {
			values++
		}
	}
	if err := signed.Decode(m.dst[:n], values); err != nil {
		return 0, false, err
	}
	if err := unsigned.Decode(m.dst[n:], values); err != nil {
		return 0, false, err
	}
	at := 0
	for i := range m.columns {
		if present[i/8]>>(i%8)&1 == 0 {
			continue
		}
		c := &m.columns[i]
		text, other := signed[at], unsigned[at]
		at++
		fmt.Fprintf(w, "###   @%d", i+1)
		if partial != nil && partial[i] && text != nil {
			_, _ = w.WriteString(partialValue)
			continue
		}
		_ = w.WriteByte('=')
		if c.kind == mysqlwire.TypeGeometry && !m.maria {
			fmt.Fprintf(w, "!! Don't know how to handle column type=%d meta=%d (%04X)", c.kind, c.meta, c.meta)
			_ = w.WriteByte('\n')
			return values, false, nil
		}
		if text == nil {
			_, _ = w.WriteString("NULL")
		} else {
			_, _ = w.Write(c.print(nil, text, other, m.maria))
		}
		fmt.Fprintf(w, " /* %s meta=%d nullable=%d is_null=%d */\n", c.name, c.meta, bit(c.nullable), bit(text == nil))
	}
	if len(start) == len(rows.rows) {
		return values, false, errShortEvent
	}
	return values, true, nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// setPartial sets the form of columns with differences of JSON: their bytes, or documents.
func (m *printedTable) setPartial(partial []bool, form valueForm) {
	for i := range partial {
		if partial[i] {
			m.signed.columns[i].form, m.unsigned.columns[i].form = form, form
		}
	}
}

// partialColumns advances past the options of an after image, and returns which columns have differences of JSON.
func (m *printedTable) partialColumns(rows *rowsEvent, present []byte) ([]bool, error) {
	options, n := mysqlwire.LenencInt(rows.rows)
	if n == 0 {
		return nil, errShortEvent
	}
	rows.rows = rows.rows[n:]
	partial := make([]bool, len(m.columns))
	if options&1 == 0 {
		return partial, nil
	}
	var documents []int
	for i := range m.columns {
		if m.columns[i].kind == mysqlwire.TypeJSON {
			documents = append(documents, i)
		}
	}
	size := (len(documents) + 7) / 8
	if len(rows.rows) < size {
		return nil, errShortEvent
	}
	for k, i := range documents {
		partial[i] = rows.rows[k/8]>>(k%8)&1 == 1 && present[i/8]>>(i%8)&1 == 1
	}
	rows.rows = rows.rows[size:]
	return partial, nil
}

// print appends a value in the program's form. other is its text as an unsigned number.
func (c *printedColumn) print(dst, text, other []byte, maria bool) []byte {
	switch c.kind {
	case mysqlwire.TypeTiny, mysqlwire.TypeShort, mysqlwire.TypeInt24, mysqlwire.TypeLong, mysqlwire.TypeLongLong:
		dst = append(dst, text...)
		if text[0] == '-' {
			dst = append(append(append(dst, " ("...), other...), ')')
		}
		return dst
	case mysqlwire.TypeFloat, mysqlwire.TypeDouble:
		v, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return append(dst, err.Error()...)
		}
		if c.kind == mysqlwire.TypeFloat { // six digits, on the left of 20 columns
			return fmt.Appendf(dst, "%-20s", strconv.FormatFloat(v, 'g', 6, 64))
		}
		return strconv.AppendFloat(dst, v, 'g', 20, 64)
	case mysqlwire.TypeYear:
		if string(text) == "0000" {
			return append(dst, "1900"...)
		}
		return append(dst, text...)
	case mysqlwire.TypeDate, mysqlwire.TypeNewDate:
		return append(append(append(dst, '\''), bytes.ReplaceAll(text, []byte("-"), []byte(":"))...), '\'')
	case mysqlwire.TypeTime, mysqlwire.TypeTime2, mysqlwire.TypeDatetime2, mysqlwire.TypeDatetime:
		if c.kind == mysqlwire.TypeDatetime && !maria {
			return append(dst, text...)
		}
		return append(append(append(dst, '\''), text...), '\'')
	case mysqlwire.TypeTimestamp, mysqlwire.TypeTimestamp2:
		seconds, fraction, _ := bytes.Cut(text, []byte{'.'})
		if string(seconds) == "0000-00-00 00:00:00" {
			dst = append(dst, '0')
		} else if v, err := time.Parse(time.DateTime, string(seconds)); err == nil {
			dst = strconv.AppendInt(dst, v.Unix(), 10)
		}
		if len(fraction) > 0 {
			dst = append(append(dst, '.'), fraction...)
		}
		return dst
	case mysqlwire.TypeBit:
		return appendBits(dst, text, c.length)
	case mysqlwire.TypeSet:
		v, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return append(dst, err.Error()...)
		}
		// The program prints the bytes in the order of the log, each from its highest bit.
		return appendBits(dst, binary.LittleEndian.AppendUint64(nil, uint64(v))[:c.length], 8*c.length)
	case mysqlwire.TypeVector:
		dst = append(dst, '[')
		for i := 0; i+4 <= len(text); i += 4 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = fmt.Appendf(dst, "%.5e", math.Float32frombits(binary.LittleEndian.Uint32(text[i:])))
		}
		return append(dst, ']')
	case mysqlwire.TypeVarchar, mysqlwire.TypeVarString, mysqlwire.TypeString, mysqlwire.TypeBlob, mysqlwire.TypeGeometry, mysqlwire.TypeJSON:
		dst = append(dst, '\'')
		for _, b := range text {
			dst = appendQuoted(dst, b, maria)
		}
		return append(dst, '\'')
	}
	return append(dst, text...)
}

// appendQuoted appends a byte of a string. MariaDB's program escapes no quotes.
func appendQuoted(dst []byte, b byte, maria bool) []byte {
	if at := strings.IndexByte("\b\t\n\f\r'\\", b); at >= 0 && !maria {
		return append(dst, '\\', `btnfr'\`[at])
	}
	if b <= 0x1F {
		return fmt.Appendf(dst, "\\x%02x", b)
	}
	return append(dst, b)
}

// appendBits appends the last bits of bytes.
func appendBits(dst, b []byte, bits int) []byte {
	dst = append(dst, "b'"...)
	for i := bits - 1; i >= 0; i-- {
		dst = append(dst, '0'+b[len(b)-1-i/8]>>(i%8)&1)
	}
	return append(dst, '\'')
}
