package mysqlwire

import "encoding/binary"

// A ProcessKill ends another connection: COM_PROCESS_KILL. Servers have replaced it by the
// statement KILL but still serve it.
//
// Specification: MySQL "COM_PROCESS_KILL", MariaDB "COM_PROCESS_KILL".
type ProcessKill struct {
	ConnectionID uint32
}

// Decode reads the message. It does not allocate.
func (k *ProcessKill) Decode(payload []byte) (err error) {
	k.ConnectionID, err = decodeID(payload, ComProcessKill, "process kill")
	return err
}

// AppendTo appends the message. It does not allocate when dst has room.
func (k ProcessKill) AppendTo(dst []byte) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, byte(ComProcessKill)), k.ConnectionID)
}
