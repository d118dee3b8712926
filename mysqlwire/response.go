package mysqlwire

import (
	"errors"
	"math"
)

// InspectMax is the number of payload bytes that Scan inspects of a packet that begins or ends a result; the
// first InspectMax bytes of longer ones suffice. A relay's buffer must have at least HeaderLen + InspectMax
// bytes.
const InspectMax = 4096

// Event is the reason why Response.Scan stopped.
type Event uint8

// The events of a response.
const (
	// EventMore: b is scanned as far as possible; read more.
	EventMore Event = iota
	// EventInfile: the server requests a local file. Forward the scanned bytes, then the client's packets
	// through the empty one, call ResumeInfile, and continue.
	EventInfile
	// EventDone: the response is complete.
	EventDone
)

var (
	// ErrOutOfOrder reports a wrong sequence number in a response.
	ErrOutOfOrder = errors.New("mysql packets out of order")

	// ErrUnexpectedPacket reports a packet that is invalid at its position in a response.
	ErrUnexpectedPacket = errors.New("unexpected mysql packet in a response")
)

// respState is the expected kind of a response's next packet.
type respState uint8

const (
	respDone       respState = iota // complete
	respFirst                       // OK, ERR, a local file request or a column count
	respColumns                     // column definitions
	respColumnsEOF                  // the EOF after them
	respRows                        // rows up to EOF, OK or ERR
	respFields                      // definitions up to EOF (COM_FIELD_LIST)
	respPrepare                     // the response of COM_STMT_PREPARE
	respParams                      // parameter definitions
	respParamsEOF
	respPrepColumns
	respPrepColumnsEOF
	respSimple // one OK, EOF or ERR
	respText   // one packet of any kind (COM_STATISTICS)
)

// A Response tracks the packets of one command's response by their first bytes, without parsing rows: it
// detects the end of the response and counts rows and results. Begin starts it; Scan processes the bytes as
// they arrive.
//
//	Begin ─► Scan(b) ─► EventMore ─► forward b[:n], read more ─► Scan …
//	                 ─► EventInfile ─► relay the file ─► ResumeInfile ─► Scan …
//	                 ─► EventDone ─► forward b[:n]; the response is complete
//
// The zero value is a finished response.
type Response struct {
	caps  Capability
	state respState
	next  uint8 // sequence number of the next packet
	query bool  // COM_QUERY: a first byte FB requests a local file

	skip uint32 // payload bytes of the current packet not yet seen
	long bool   // the current packet is MaxPayload long: the next one continues it

	left    uint64 // definitions not yet seen
	columns uint16 // PREPARE: column definitions after the parameters

	// Properties of the response. Counters add up over all results of the command.
	Rows         uint64
	Affected     uint64 // rows changed
	LastInsertID uint64 // of the last result that had one
	Results      uint32 // finished results, including a failed one
	Warnings     uint32
	Status       Status // of the last OK or EOF
	SeenStatus   bool   // Status was received at least once
	StatementID  uint32 // PREPARE
	Params       uint16 // PREPARE: parameters

	// Errno is the number of the ERR packet that ended the response; 0 if there was none.
	Errno uint16

	// Last is the payload of the OK or ERR packet that ended the last result: at most InspectMax bytes, a
	// view of the bytes passed to Scan. Nil if an EOF ended it.
	Last []byte
}

// Begin starts the response to cmd, under the capabilities of the connection, whose first packet has sequence
// number next. For commands without a response, it is complete immediately.
func (r *Response) Begin(cmd Command, caps Capability, next uint8) {
	*r = Response{caps: caps, next: next, state: respSimple}
	switch cmd {
	case ComQuery:
		r.state, r.query = respFirst, true
	case ComStmtExecute, ComStmtBulkExecute, ComProcessInfo:
		r.state = respFirst
	case ComStmtFetch:
		r.state = respRows
	case ComStmtPrepare:
		r.state = respPrepare
	case ComFieldList:
		r.state = respFields
	case ComStatistics:
		r.state = respText
	case ComStmtClose, ComStmtSendLongData, ComQuit:
		r.state = respDone
	}
}

// Done reports whether the response is complete.
func (r *Response) Done() bool { return r.state == respDone && r.skip == 0 && !r.long }

// AtBoundary reports whether the scanned bytes end with a whole packet, so that an ERR packet with sequence
// number NextSeq may follow.
func (r *Response) AtBoundary() bool { return r.skip == 0 && !r.long }

// NextSeq returns the sequence number of the packet after the scanned bytes.
func (r *Response) NextSeq() uint8 { return r.next }

// Columns returns the number of columns in the result of a prepared statement, after PREPARE.
func (r *Response) Columns() uint16 { return r.columns }

// ResumeInfile continues after the client's packets of a local file; next is the sequence number after them.
func (r *Response) ResumeInfile(next uint8) { r.next = next }

// Scan processes b, the bytes that follow those scanned before, and returns how many of them were scanned and
// may be forwarded. With EventMore the rest, at most HeaderLen + InspectMax bytes, must be passed again with
// more bytes appended. An error means that the server broke the protocol; the n bytes before it are valid.
// Scan does not allocate.
func (r *Response) Scan(b []byte) (n int, ev Event, err error) {
	for {
		if r.skip > 0 {
			k := min(int(r.skip), len(b)-n)
			r.skip -= uint32(k)
			n += k
			if r.skip > 0 {
				return n, EventMore, nil
			}
		}
		if r.state == respDone && !r.long {
			return n, EventDone, nil
		}
		if len(b)-n < HeaderLen {
			return n, EventMore, nil
		}
		h := ParseHeader(b[n:])
		if h.Seq != r.next {
			return n, EventMore, ErrOutOfOrder
		}
		if r.long { // a continuation: its bytes are data regardless of their values
			r.accept(h)
			n += HeaderLen
			continue
		}
		payload := b[n+HeaderLen:]
		if r.state == respRows && len(payload) > 0 && h.Len > 0 && payload[0] < 0xFE { // fast path: a row
			r.Rows++
			r.accept(h)
			n += HeaderLen
			continue
		}
		want := min(h.Len, InspectMax)
		if len(payload) < want {
			return n, EventMore, nil
		}
		payload = payload[:want:want]
		ev, err := r.packet(h, payload)
		if err != nil {
			return n, EventMore, err
		}
		r.accept(h)
		n += HeaderLen
		if ev == EventInfile {
			if r.skip > 0 { // the file's name: at most InspectMax bytes, complete
				n += int(r.skip)
				r.skip = 0
			}
			return n, ev, nil
		}
	}
}

// accept consumes the header of a packet whose payload follows.
func (r *Response) accept(h Header) {
	r.next++
	r.skip = uint32(h.Len)
	r.long = h.Len == MaxPayload
}

// packet advances the state by one packet, given the first bytes of its payload.
func (r *Response) packet(h Header, p []byte) (Event, error) {
	if r.state == respText {
		r.state = respDone
		return EventMore, nil
	}
	if len(p) == 0 {
		return EventMore, ErrUnexpectedPacket
	}
	if p[0] == 0xFF {
		return r.failed(h, p)
	}
	switch r.state {
	case respFirst:
		return r.first(h, p)
	case respRows:
		return EventMore, r.row(h, p)
	case respColumns, respParams, respPrepColumns:
		r.definition()
		return EventMore, nil
	case respColumnsEOF, respParamsEOF, respPrepColumnsEOF:
		return EventMore, r.definitionsEOF(p)
	case respFields:
		if p[0] == 0xFE && h.Len < MaxPayload {
			return EventMore, r.endResult(p)
		}
		return EventMore, nil
	case respPrepare:
		return EventMore, r.prepared(p)
	case respSimple:
		if p[0] != 0x00 && p[0] != 0xFE {
			return EventMore, ErrUnexpectedPacket
		}
		if err := r.endResult(p); err != nil {
			return EventMore, err
		}
		r.state = respDone
		return EventMore, nil
	}
	panic("BUG: a response in no state")
}

// failed handles an ERR packet, which ends the response, or a progress report, which does not.
func (r *Response) failed(h Header, p []byte) (Event, error) {
	if len(p) < 3 {
		return EventMore, ErrUnexpectedPacket
	}
	errno := uint16(p[1]) | uint16(p[2])<<8
	if errno == 0xFFFF { // MariaDB's progress report
		return EventMore, nil
	}
	if h.Len >= MaxPayload {
		return EventMore, ErrUnexpectedPacket
	}
	r.Errno, r.Last = errno, p
	r.Results++
	r.state = respDone
	return EventMore, nil
}

// first handles the packet that determines the kind of result.
func (r *Response) first(h Header, p []byte) (Event, error) {
	switch {
	case p[0] == 0x00:
		return EventMore, r.endResult(p)
	case p[0] == lenencNull && r.query:
		if h.Len > InspectMax {
			return EventMore, ErrUnexpectedPacket
		}
		return EventInfile, nil
	}
	count, n := LenencInt(p)
	if n == 0 || count == 0 || count > math.MaxUint16 {
		return EventMore, ErrUnexpectedPacket
	}
	definitions := true
	if r.caps.Has(CapMariaCacheMetadata) {
		if len(p) <= n {
			return EventMore, ErrUnexpectedPacket
		}
		definitions = p[n] != 0
	}
	r.left = count
	switch {
	case definitions:
		r.state = respColumns
	case r.caps.Has(CapDeprecateEOF):
		r.state = respRows
	default:
		r.state = respColumnsEOF
	}
	return EventMore, nil
}

// definition counts down one definition and sets the state after the last one.
func (r *Response) definition() {
	if r.left--; r.left > 0 {
		return
	}
	noEOF := r.caps.Has(CapDeprecateEOF)
	switch {
	case r.state == respColumns && noEOF:
		r.state = respRows
	case r.state == respColumns:
		r.state = respColumnsEOF
	case r.state == respParams && noEOF:
		r.preparedColumns()
	case r.state == respParams:
		r.state = respParamsEOF
	case noEOF:
		r.state = respDone
	default:
		r.state = respPrepColumnsEOF
	}
}

// definitionsEOF handles the EOF packet after definitions.
func (r *Response) definitionsEOF(p []byte) error {
	if p[0] != 0xFE || len(p) >= 9 {
		return ErrUnexpectedPacket
	}
	if len(p) >= 5 {
		r.setStatus(p[3:])
	}
	switch {
	case r.state == respParamsEOF:
		r.preparedColumns()
	case r.state == respPrepColumnsEOF:
		r.state = respDone
	case r.Status.Has(StatusCursorExists): // the rows are fetched by COM_STMT_FETCH
		r.Results++
		r.state = respDone
	default:
		r.state = respRows
	}
	return nil
}

// row handles a packet among the rows that begins with FE: their end, or a row with a first value of 16 MiB
// or more.
func (r *Response) row(h Header, p []byte) error {
	limit := 9
	if r.caps.Has(CapDeprecateEOF) {
		limit = MaxPayload
	}
	if p[0] == 0xFE && h.Len < limit {
		return r.endResult(p)
	}
	r.Rows++
	return nil
}

// prepared handles the first packet of the response to a PREPARE.
func (r *Response) prepared(p []byte) error {
	if p[0] != 0x00 || len(p) < 12 {
		return ErrUnexpectedPacket
	}
	r.StatementID = uint32(p[1]) | uint32(p[2])<<8 | uint32(p[3])<<16 | uint32(p[4])<<24
	r.columns = uint16(p[5]) | uint16(p[6])<<8
	r.Params = uint16(p[7]) | uint16(p[8])<<8
	r.Warnings += uint32(p[10]) | uint32(p[11])<<8
	r.Results++
	if r.Params == 0 {
		r.preparedColumns()
		return nil
	}
	r.left, r.state = uint64(r.Params), respParams
	return nil
}

func (r *Response) preparedColumns() {
	r.left, r.state = uint64(r.columns), respPrepColumns
	if r.columns == 0 {
		r.state = respDone
	}
}

// endResult handles the OK or EOF packet that ends one result. Its status reports whether another result follows.
func (r *Response) endResult(p []byte) error {
	if p[0] == 0xFE && len(p) < 7 { // EOF: warnings, status
		r.Last = nil
		if len(p) >= 5 {
			r.Warnings += uint32(p[1]) | uint32(p[2])<<8
			r.setStatus(p[3:])
		}
	} else if err := r.ok(p); err != nil {
		return err
	}
	r.Results++
	r.state = respDone
	if r.Status.Has(StatusMoreResults) && r.SeenStatus {
		r.state = respFirst
	}
	return nil
}

// ok decodes an OK packet: affected rows, last insert id, status, warnings.
func (r *Response) ok(p []byte) error {
	r.Last = p
	affected, n := LenencInt(p[1:])
	id, m := LenencInt(p[1+n:])
	at := 1 + n + m
	if n == 0 || m == 0 || len(p) < at+4 {
		return ErrUnexpectedPacket
	}
	r.Affected += affected
	if id != 0 {
		r.LastInsertID = id
	}
	r.setStatus(p[at:])
	r.Warnings += uint32(p[at+2]) | uint32(p[at+3])<<8
	return nil
}

func (r *Response) setStatus(p []byte) {
	r.Status, r.SeenStatus = Status(uint16(p[0])|uint16(p[1])<<8), true
}
