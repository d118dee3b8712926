package mysqlwire

import (
	"encoding/binary"
	"math"
	"strconv"
)

// A BinaryValue is a value of the binary protocol: a column of a binary row or a parameter
// of a statement. NULL has nil Data.
//
// Data is a view of the payload. It contains the value without the length prefix of strings and times:
// integers and floats in little-endian, strings unchanged, dates in 0, 4, 7 or 11 bytes, times in 0, 8 or 12.
//
// Specification: MySQL "Binary Protocol Value", MariaDB "Result Set Packets#Binary
// Resultset Row".
type BinaryValue struct {
	Data []byte
	ValueType

	// Long reports that the parameter's value was sent earlier, by COM_STMT_SEND_LONG_DATA, and is not in the
	// payload. Data is nil.
	Long bool
}

// IsNull reports whether v is NULL.
func (v BinaryValue) IsNull() bool { return v.Data == nil && !v.Long }

// valueForm is the encoding of a type's values in the payload.
type valueForm uint8

const (
	formNone   valueForm = iota // values of this type are never sent
	formNull                    // no bytes
	form1                       // this and the next three: as many bytes as the name says
	form2                       //
	form4                       //
	form8                       //
	formDate                    // 1 byte of length: 0, 4, 7 or 11
	formTime                    // 1 byte of length: 0, 8 or 12
	formString                  // length-encoded string
)

var valueForms = [256]valueForm{
	TypeNull:  formNull,
	TypeTiny:  form1,
	TypeShort: form2, TypeYear: form2,
	TypeLong: form4, TypeInt24: form4, TypeFloat: form4,
	TypeLongLong: form8, TypeDouble: form8,
	TypeDate: formDate, TypeNewDate: formDate, TypeDatetime: formDate, TypeTimestamp: formDate,
	TypeTime:    formTime,
	TypeDecimal: formString, TypeNewDecimal: formString, TypeVarchar: formString,
	TypeBit: formString, TypeVector: formString, TypeJSON: formString, TypeEnum: formString,
	TypeSet: formString, TypeTinyBlob: formString, TypeMediumBlob: formString,
	TypeLongBlob: formString, TypeBlob: formString, TypeVarString: formString,
	TypeString: formString, TypeGeometry: formString,
}

// binaryValue returns the value of type t at the start of b and the number of bytes it occupies. ok is false
// if b is too short, its length does not fit the type, or values of this type are never sent.
func binaryValue(b []byte, t ColumnType) (data []byte, n int, ok bool) {
	start, size := 0, 0
	switch valueForms[t] {
	case formNull:
		return nil, 0, true
	case form1:
		size = 1
	case form2:
		size = 2
	case form4:
		size = 4
	case form8:
		size = 8
	case formString:
		data, n = LenencString(b)
		return data, n, n > 0
	case formDate, formTime:
		if len(b) == 0 || !temporalSize(t, b[0]) {
			return nil, 0, false
		}
		start, size = 1, int(b[0])
	default:
		return nil, 0, false
	}
	end := start + size
	if end > len(b) {
		return nil, 0, false
	}
	return b[start:end:end], end, true
}

// temporalSize reports whether a date or time of type t may be n bytes long.
func temporalSize(t ColumnType, n byte) bool {
	if valueForms[t] == formTime {
		return n == 0 || n == 8 || n == 12
	}
	return n == 0 || n == 4 || n == 7 || n == 11
}

// AppendTo appends v in wire form: nothing for NULL, which is in the bitmap, and nothing for a long value. It
// does not allocate when dst has room.
func (v BinaryValue) AppendTo(dst []byte) []byte {
	if v.Data == nil {
		return dst
	}
	switch valueForms[v.Type] {
	case formString:
		return AppendLenencString(dst, v.Data)
	case formDate, formTime:
		dst = append(dst, byte(len(v.Data)))
	}
	return append(dst, v.Data...)
}

// Numeric reports whether v has the type of an integer or float, and whether Data has all bytes of one.
func (v BinaryValue) Numeric() (numeric, whole bool) {
	form := valueForms[v.Type]
	numeric = form >= form1 && form <= form8
	return numeric, numeric && len(v.Data) >= 1<<(form-form1)
}

// bits returns the value of an integer, sign-extended if it is signed, or the bits of a float. ok is false
// for NULL, for other types, and for a value that is shorter than its type.
func (v BinaryValue) bits() (bits uint64, ok bool) {
	if _, whole := v.Numeric(); !whole {
		return 0, false
	}
	switch valueForms[v.Type] {
	case form1:
		bits = uint64(v.Data[0])
		if !v.Unsigned {
			bits = uint64(int64(int8(bits)))
		}
	case form2:
		bits = uint64(binary.LittleEndian.Uint16(v.Data))
		if !v.Unsigned {
			bits = uint64(int64(int16(bits)))
		}
	case form4:
		bits = uint64(binary.LittleEndian.Uint32(v.Data))
		if !v.Unsigned && v.Type != TypeFloat {
			bits = uint64(int64(int32(bits)))
		}
	case form8:
		bits = binary.LittleEndian.Uint64(v.Data)
	}
	return bits, true
}

func (t ValueType) isFloat() bool { return t.Type == TypeFloat || t.Type == TypeDouble }

// Int64 returns the value of an integer. ok is false for NULL, for other types, and for an unsigned value
// past the largest int64. It does not allocate.
func (v BinaryValue) Int64() (i int64, ok bool) {
	bits, ok := v.bits()
	if !ok || v.isFloat() || (v.Unsigned && bits > math.MaxInt64) {
		return 0, false
	}
	return int64(bits), true
}

// Uint64 returns the value of an integer. ok is false for NULL, for other types, and for negative values. It
// does not allocate.
func (v BinaryValue) Uint64() (u uint64, ok bool) {
	bits, ok := v.bits()
	if !ok || v.isFloat() || (!v.Unsigned && bits > math.MaxInt64) {
		return 0, false
	}
	return bits, true
}

// Float64 returns the value of a FLOAT or DOUBLE. ok is false for NULL and for other types. It does not
// allocate.
func (v BinaryValue) Float64() (f float64, ok bool) {
	bits, ok := v.bits()
	switch {
	case ok && v.Type == TypeDouble:
		return math.Float64frombits(bits), true
	case ok && v.Type == TypeFloat:
		return float64(math.Float32frombits(uint32(bits))), true
	}
	return 0, false
}

// AppendText appends v in the form of the text protocol, with two differences: floats have the fewest digits
// that parse to the same value, and NULL is the word. It appends nothing for a long value, whose bytes are
// elsewhere, and 0 for a number that is shorter than its type. The error is always nil; it makes v an encoding.TextAppender. It does not allocate when dst has
// room.
func (v BinaryValue) AppendText(dst []byte) ([]byte, error) {
	if v.IsNull() {
		return append(dst, "NULL"...), nil
	}
	if v.Long {
		return dst, nil
	}
	switch valueForms[v.Type] {
	case formDate:
		d, _ := v.DateTime()
		return d.append(dst, v.Type, len(v.Data)), nil
	case formTime:
		t, _ := v.Time()
		return t.append(dst, len(v.Data)), nil
	case form1, form2, form4, form8:
		bits, _ := v.bits()
		switch {
		case v.Type == TypeFloat:
			return strconv.AppendFloat(dst, float64(math.Float32frombits(uint32(bits))), 'g', -1, 32), nil
		case v.Type == TypeDouble:
			return strconv.AppendFloat(dst, math.Float64frombits(bits), 'g', -1, 64), nil
		case v.Unsigned:
			return strconv.AppendUint(dst, bits, 10), nil
		}
		return strconv.AppendInt(dst, int64(bits), 10), nil
	}
	return append(dst, v.Data...), nil
}

// binaryValue reads the data of v by its type.
func (c *cursor) binaryValue(v *BinaryValue, what string) error {
	data, n, ok := binaryValue(c.rest, v.Type)
	if ok {
		v.Data = data
		c.rest = c.rest[n:]
		return nil
	}
	switch form := valueForms[v.Type]; {
	case form == formNone:
		return malformed(what, "no value of "+v.Type.String()+" crosses the wire")
	case (form == formDate || form == formTime) && c.more() && !temporalSize(v.Type, c.rest[0]):
		return malformed(what, "wrong length of a "+v.Type.String())
	}
	return shortIn(what)
}
