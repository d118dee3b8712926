package mysqlwire

import "encoding/binary"

// A RegisterReplica registers a replica with its source, which then lists it in SHOW REPLICAS:
// COM_REGISTER_SLAVE. The server responds with OK.
//
// Specification: MySQL "COM_REGISTER_SLAVE", MariaDB "COM_REGISTER_SLAVE".
type RegisterReplica struct {
	ServerID uint32
	Host     []byte // at most 255 bytes; a view of the payload, as are the next two
	User     []byte
	Password []byte
	Port     uint16
}

// AppendTo appends the message. It does not allocate when dst has room.
func (r RegisterReplica) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, byte(ComRegisterReplica)), r.ServerID)
	for _, s := range [...][]byte{r.Host, r.User, r.Password} {
		s = s[:min(len(s), 255)]
		dst = append(append(dst, byte(len(s))), s...)
	}
	dst = binary.LittleEndian.AppendUint16(dst, r.Port)
	return append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
}

// A BinlogDump requests the events of the binary log from an offset in a file: COM_BINLOG_DUMP. The server
// responds with events, each after a 00, until it is shut down.
//
// Specification: MySQL "COM_BINLOG_DUMP", MariaDB "COM_BINLOG_DUMP".
type BinlogDump struct {
	Offset   uint32
	Flags    uint16 // 1: an EOF at the log's end instead of waiting
	ServerID uint32
	File     []byte // a view of the payload
}

// AppendTo appends the message. It does not allocate when dst has room.
func (b BinlogDump) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, byte(ComBinlogDump)), b.Offset)
	dst = binary.LittleEndian.AppendUint16(dst, b.Flags)
	dst = binary.LittleEndian.AppendUint32(dst, b.ServerID)
	return append(dst, b.File...)
}

// BinlogThroughGTID is the flag of a BinlogDumpGTID that makes its set effective.
const BinlogThroughGTID = 4

// A BinlogDumpGTID requests the transactions that are missing in a GTID set from a MySQL server:
// COM_BINLOG_DUMP_GTID.
//
// Specification: MySQL "COM_BINLOG_DUMP_GTID".
type BinlogDumpGTID struct {
	Flags    uint16
	ServerID uint32
	File     []byte // a view of the payload; empty: the server selects the file
	Offset   uint64
	Set      []byte // a view of the payload, in MySQL's binary form
}

// AppendTo appends the message. It does not allocate when dst has room.
func (b BinlogDumpGTID) AppendTo(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint16(append(dst, byte(ComBinlogDumpGTID)), b.Flags)
	dst = binary.LittleEndian.AppendUint32(dst, b.ServerID)
	dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(b.File))), b.File...)
	dst = binary.LittleEndian.AppendUint64(dst, b.Offset)
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(b.Set))), b.Set...)
}
