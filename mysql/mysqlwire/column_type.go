package mysqlwire

import "strconv"

// A ColumnType is the type of a column or parameter on the wire.
//
// Specification: MySQL "Column Type" (enum_field_types), MariaDB "Result Set
// Packets#Field Types".
type ColumnType uint8

// The types, with their names in MySQL's sources.
const (
	TypeDecimal    ColumnType = 0x00 // before MySQL 5.0
	TypeTiny       ColumnType = 0x01
	TypeShort      ColumnType = 0x02
	TypeLong       ColumnType = 0x03
	TypeFloat      ColumnType = 0x04
	TypeDouble     ColumnType = 0x05
	TypeNull       ColumnType = 0x06
	TypeTimestamp  ColumnType = 0x07
	TypeLongLong   ColumnType = 0x08
	TypeInt24      ColumnType = 0x09
	TypeDate       ColumnType = 0x0A
	TypeTime       ColumnType = 0x0B
	TypeDatetime   ColumnType = 0x0C
	TypeYear       ColumnType = 0x0D
	TypeNewDate    ColumnType = 0x0E // inside servers only
	TypeVarchar    ColumnType = 0x0F
	TypeBit        ColumnType = 0x10
	TypeTimestamp2 ColumnType = 0x11 // this and the next two: binlog only
	TypeDatetime2  ColumnType = 0x12
	TypeTime2      ColumnType = 0x13
	TypeTypedArray ColumnType = 0x14 // MySQL, replication only
	TypeVector     ColumnType = 0xF2 // MySQL 9
	TypeJSON       ColumnType = 0xF5
	TypeNewDecimal ColumnType = 0xF6
	TypeEnum       ColumnType = 0xF7
	TypeSet        ColumnType = 0xF8
	TypeTinyBlob   ColumnType = 0xF9
	TypeMediumBlob ColumnType = 0xFA
	TypeLongBlob   ColumnType = 0xFB
	TypeBlob       ColumnType = 0xFC
	TypeVarString  ColumnType = 0xFD
	TypeString     ColumnType = 0xFE
	TypeGeometry   ColumnType = 0xFF
)

var columnTypeNames = [256]string{
	TypeDecimal: "DECIMAL", TypeTiny: "TINY", TypeShort: "SHORT", TypeLong: "LONG",
	TypeFloat: "FLOAT", TypeDouble: "DOUBLE", TypeNull: "NULL", TypeTimestamp: "TIMESTAMP",
	TypeLongLong: "LONGLONG", TypeInt24: "INT24", TypeDate: "DATE", TypeTime: "TIME",
	TypeDatetime: "DATETIME", TypeYear: "YEAR", TypeNewDate: "NEWDATE", TypeVarchar: "VARCHAR",
	TypeBit: "BIT", TypeTimestamp2: "TIMESTAMP2", TypeDatetime2: "DATETIME2", TypeTime2: "TIME2",
	TypeTypedArray: "TYPED_ARRAY", TypeVector: "VECTOR", 0xF3: "INVALID", 0xF4: "BOOL",
	TypeJSON: "JSON", TypeNewDecimal: "NEWDECIMAL", TypeEnum: "ENUM", TypeSet: "SET",
	TypeTinyBlob: "TINY_BLOB", TypeMediumBlob: "MEDIUM_BLOB", TypeLongBlob: "LONG_BLOB",
	TypeBlob: "BLOB", TypeVarString: "VAR_STRING", TypeString: "STRING", TypeGeometry: "GEOMETRY",
}

// String returns the type's name in MySQL's sources, without MYSQL_TYPE_.
func (t ColumnType) String() string {
	if s := columnTypeNames[t]; s != "" {
		return s
	}
	return "type 0x" + strconv.FormatUint(uint64(t), 16)
}

// A ValueType determines the decoding of a value of the binary protocol: its type and, for integers, whether
// it is unsigned.
type ValueType struct {
	Type     ColumnType
	Unsigned bool
}
