package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// An eventType is the type of an event of the binary log.
type eventType uint8

// The types used here, with their names in the servers' sources.
const (
	eventQuery             eventType = 2
	eventStop              eventType = 3
	eventRotate            eventType = 4
	eventFormat            eventType = 15
	eventXID               eventType = 16
	eventBeginLoad         eventType = 17
	eventExecuteLoad       eventType = 18
	eventTableMap          eventType = 19
	eventWriteRowsV1       eventType = 23
	eventUpdateRowsV1      eventType = 24
	eventDeleteRowsV1      eventType = 25
	eventIncident          eventType = 26
	eventHeartbeat         eventType = 27
	eventWriteRows         eventType = 30
	eventUpdateRows        eventType = 31
	eventDeleteRows        eventType = 32
	eventGTID              eventType = 33 // MySQL
	eventAnonymousGTID     eventType = 34 // MySQL
	eventXAPrepare         eventType = 38
	eventPartialUpdate     eventType = 39  // MySQL
	eventPayload           eventType = 40  // MySQL: a compressed transaction
	eventHeartbeat2        eventType = 41  // MySQL
	eventTaggedGTID        eventType = 42  // MySQL
	eventMariaGTID         eventType = 162 //
	eventMariaGTIDList     eventType = 163
	eventStartEncryption   eventType = 164
	eventQueryCompressed   eventType = 165
	eventWriteCompressedV1 eventType = 166 // and update, delete
	eventDeleteCompressed1 eventType = 168
	eventWriteCompressed   eventType = 169 // and update, delete
	eventDeleteCompressed  eventType = 171
)

const (
	// eventHeaderLen is the length of an event's header in bytes, since MySQL 5.0.
	eventHeaderLen = 19

	// checksumLen is the length of the CRC-32 at the end of an event.
	checksumLen = 4

	// eventArtificial is the flag of events that the server generated: they are in no file.
	eventArtificial = 0x20

	// eventIgnorable is the flag of events that a reader may skip if it does not know them.
	eventIgnorable = 0x80
)

// An event is an event of the binary log, split into header and body: views of its bytes.
//
// Specification: MySQL "Binlog Event header", MariaDB "2-Binlog Event Header".
type event struct {
	seconds uint32 // since 1970
	kind    eventType
	server  uint32 // that wrote it
	size    uint32 // including header and checksum
	next    uint32 // offset of the next event, its low 32 bits
	flags   uint16
	body    []byte
}

var (
	errShortEvent = errors.New("it ends too early")
	errChecksum   = errors.New("its checksum is wrong")
	errEventType  = errors.New("its type is not known")
)

// decode splits an event, with or without a checksum at its end.
func (e *event) decode(b []byte, checksum bool) error {
	if len(b) < eventHeaderLen {
		return errShortEvent
	}
	*e = event{
		seconds: binary.LittleEndian.Uint32(b), kind: eventType(b[4]), server: binary.LittleEndian.Uint32(b[5:]), size: binary.LittleEndian.Uint32(b[9:]),
		next: binary.LittleEndian.Uint32(b[13:]), flags: binary.LittleEndian.Uint16(b[17:]),
	}
	if uint64(e.size) != uint64(len(b)) {
		return errShortEvent
	}
	if checksum {
		if len(b) < eventHeaderLen+checksumLen {
			return errShortEvent
		}
		end := len(b) - checksumLen
		if crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
			return errChecksum
		}
		b = b[:end]
	}
	e.body = b[eventHeaderLen:]
	return nil
}

// decodeAny splits an event for which it is unknown whether it has a checksum: its last bytes decide.
func (e *event) decodeAny(b []byte) error {
	if e.decode(b, true) == nil {
		return nil
	}
	return e.decode(b, false)
}

// fromMariaDB reports whether a format description was written by MariaDB, according to its version.
func (e *event) fromMariaDB() bool {
	return len(e.body) >= 52 && bytes.Contains(e.body[2:52], []byte("MariaDB"))
}

// format parses a format description, decoded without a checksum, and returns whether the events after it
// have one. It has space for a checksum in any case, except from servers before MySQL 5.6.
func (e *event) format() (checksum bool, err error) {
	const fixed = 2 + 50 + 4 + 1 // version, server's version, time, header's length
	if len(e.body) < fixed+1+checksumLen {
		return false, errShortEvent
	}
	if version := binary.LittleEndian.Uint16(e.body); version != 4 || e.body[fixed-1] != eventHeaderLen {
		return false, errors.New("its format is that of a server before MySQL 5.0")
	}
	name, _, _ := bytes.Cut(e.body[2:52], []byte{0})
	for _, old := range [...]string{"5.0.", "5.1.", "5.5."} {
		if bytes.HasPrefix(name, []byte(old)) && !bytes.Contains(name, []byte("MariaDB")) {
			return false, nil
		}
	}
	switch algorithm := e.body[len(e.body)-1-checksumLen]; algorithm {
	case 0, 255:
		return false, nil
	case 1:
		return true, nil
	}
	return false, errors.New("its checksums are of an unknown kind")
}

// A query is a statement of the log: a view of the event, or of the decompressed event.
type query struct {
	schema    []byte
	variables []byte // settings of the session
	text      []byte
}

// decode parses the body of a query event, without decompression.
func (q *query) decode(body []byte) error {
	const fixed = 4 + 4 + 1 + 2 + 2 // thread, seconds, schema's length, error, variables' length
	if len(body) < fixed {
		return errShortEvent
	}
	schema, variables := int(body[8]), int(binary.LittleEndian.Uint16(body[11:]))
	at := fixed + variables
	if len(body) < at+schema+1 {
		return errShortEvent
	}
	q.variables = body[fixed:at]
	q.schema, q.text = body[at:at+schema], body[at+schema+1:]
	return nil
}

// isRows reports whether the event has rows, their kind, the version of the format, and whether they are
// compressed by MariaDB.
func (t eventType) isRows() (kind ChangeKind, version int, compressed, ok bool) {
	switch {
	case t >= eventWriteRowsV1 && t <= eventDeleteRowsV1:
		return Insert + ChangeKind(t-eventWriteRowsV1), 1, false, true
	case t >= eventWriteRows && t <= eventDeleteRows:
		return Insert + ChangeKind(t-eventWriteRows), 2, false, true
	case t >= eventWriteCompressedV1 && t <= eventDeleteCompressed1:
		return Insert + ChangeKind(t-eventWriteCompressedV1), 1, true, true
	case t >= eventWriteCompressed && t <= eventDeleteCompressed:
		return Insert + ChangeKind(t-eventWriteCompressed), 2, true, true
	}
	return 0, 0, false, false
}
