package mysqlwire

import "errors"

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
	// EventChanged: with Response.Track, the last packet scanned is an OK or EOF with StatusSessionChanged, and Last is its payload.
	EventChanged
	// EventDone: the response is complete.
	EventDone
)

var (
	// errOutOfOrder reports a wrong sequence number in a response.
	errOutOfOrder = errors.New("mysql packets out of order")

	// errUnexpectedPacket reports a packet that is invalid at its position in a response.
	errUnexpectedPacket = errors.New("unexpected mysql packet in a response")
)

// respState is the expected kind of a response's next packet.
type respState uint8

const (
	respDone        respState = iota // complete
	respFirst                        // OK, EOF, ERR, a local file request or a column count
	respFile                         // the rest of a local file request
	respColumns                      // column definitions, with the EOF after them
	respKept                         // after the definitions, with CursorKept and CapDeprecateEOF
	respRows                         // rows up to EOF, OK or ERR
	respFields                       // definitions up to EOF (COM_FIELD_LIST)
	respPrepare                      // the response of COM_STMT_PREPARE
	respParams                       // parameter definitions, with the EOF after them
	respPrepColumns                  // column definitions of a PREPARE, with the EOF after them
	respSimple                       // one OK, EOF or ERR
	respText                         // one packet of any kind (COM_STATISTICS)
)

// CursorUse is what an execution means by StatusCursorExists: servers set that flag in any command during which
// a cursor was open, also one of a stored routine.
type CursorUse uint8

// The uses of cursors.
const (
	// CursorUnused : the flag has no meaning.
	CursorUnused CursorUse = iota
	// CursorRequested : the execution's flags include ExecuteReadOnlyCursor.
	CursorRequested
	// CursorKept : they do not, but those of an earlier execution on a MySQL server did. The server may open a
	// cursor again, and then ends the response with an OK after the definitions.
	CursorKept
)

// A Response tracks the packets of one command's response by their first bytes, without parsing rows: it
// detects the end of the response and counts rows and results. Begin starts it; Scan processes the bytes as
// they arrive. gateway/RESPONSES.md has the ends of all responses, as servers send them.
//
//	Begin ─► Scan(b) ─► EventMore ─► forward b[:n], read more ─► Scan …
//	                 ─► EventInfile ─► relay the file ─► ResumeInfile ─► Scan …
//	                 ─► EventDone ─► forward b[:n]; the response is complete
//
// The zero value is a finished response.
type Response struct {
	caps  Capability
	state respState
	next  uint8  // sequence number of the next packet
	multi bool   // StatusMoreResults has its meaning
	mark  Status // set in each one
	more  bool   // the current result is that of output parameters: another one follows

	// Cursor is set after Begin for COM_STMT_EXECUTE.
	Cursor CursorUse

	// Track is set after Begin to have Scan stop after each OK or EOF that reports changes of the session.
	Track bool

	// Prepared is set after Begin to the number of columns with which the client has prepared the statement that is executed, if not 0. Scan
	// sets StatusMetadataChanged in the bytes of a result that has another number, as a server does that prepares it again.
	Prepared uint16

	// CursorOpen reports that the rows are fetched by COM_STMT_FETCH.
	CursorOpen bool

	stop bool   // the packet is one to stop after
	skip uint32 // payload bytes of the current packet not yet seen
	long bool   // the current packet is MaxPayload long: the next one continues it

	left    uint64 // with CapDeprecateEOF: definitions not yet seen
	columns uint16 // PREPARE: column definitions after the parameters
	bare    bool   // PREPARE: no definitions are sent

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
	case ComQuery, ComStmtExecute, ComStmtBulkExecute, ComProcessInfo:
		r.state, r.multi = respFirst, true
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
	default:
		if cmd > ComClone { // unknown: any response
			r.state, r.multi = respFirst, true
		}
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
		if !r.long {
			switch r.state {
			case respDone:
				return n, EventDone, nil
			case respFile:
				r.state = respFirst
				return n, EventInfile, nil
			}
		}
		if len(b)-n < HeaderLen {
			return n, EventMore, nil
		}
		h := ParseHeader(b[n:])
		if h.Seq != r.next {
			return n, EventMore, errOutOfOrder
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
		if err := r.packet(h, payload); err != nil {
			return n, EventMore, err
		}
		r.accept(h)
		n += HeaderLen
		if r.stop {
			if h.Len > InspectMax {
				return n - HeaderLen, EventMore, errUnexpectedPacket
			}
			r.stop, r.skip = false, 0
			return n + h.Len, EventChanged, nil
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
func (r *Response) packet(h Header, p []byte) error {
	if r.state == respText && (len(p) == 0 || p[0] != MarkErr) {
		r.state = respDone
		return nil
	}
	if len(p) == 0 {
		return errUnexpectedPacket
	}
	if p[0] == MarkErr {
		return r.failed(p)
	}
	switch r.state {
	case respFirst:
		return r.first(p)
	case respKept:
		if r.isBareOK(p) {
			r.CursorOpen = true
			return r.endResult(p)
		}
		r.state = respRows
		return r.row(h, p)
	case respRows:
		return r.row(h, p)
	case respColumns, respParams, respPrepColumns:
		return r.definition(h, p)
	case respFields:
		if p[0] == MarkEOF && h.Len < MaxPayload {
			return r.endResult(p)
		}
		return nil
	case respPrepare:
		return r.prepared(p)
	case respSimple:
		if p[0] != MarkOK && p[0] != MarkEOF {
			return errUnexpectedPacket
		}
		return r.endResult(p)
	}
	panic("BUG: a response in no state")
}

// failed handles an ERR packet, which ends the response, or a progress report, which does not.
func (r *Response) failed(p []byte) error {
	if len(p) < 3 {
		return errUnexpectedPacket
	}
	if IsProgress(p) {
		return nil
	}
	errno := uint16(p[1]) | uint16(p[2])<<8
	r.Errno, r.Last = errno, p
	r.Results++
	r.state = respDone
	return nil
}

// first handles the packet that determines the kind of result.
func (r *Response) first(p []byte) error {
	switch p[0] {
	case MarkOK, MarkEOF: // EOF: of SHUTDOWN, for example
		return r.endResult(p)
	case MarkLocalInfile: // of EXECUTE too, on MariaDB
		r.state = respFile
		return nil
	}
	count, n := LenencInt(p)
	if n == 0 || count == 0 {
		return errUnexpectedPacket
	}
	if r.Prepared != 0 && count != uint64(r.Prepared) {
		r.Prepared = uint16(count)
		r.mark = StatusMetadataChanged
	}
	r.left, r.state = count, respColumns
	if r.caps&headerFlag != 0 && len(p) > n && p[n] == 0 { // no definitions
		r.left = 0
		r.counted()
	}
	return nil
}

// definition handles a packet among definitions. Without CapDeprecateEOF an EOF ends them, not their number:
// PREPARE counts them in 16 bits, and MariaDB's ANALYZE of a SELECT with a cursor sends those of two results.
func (r *Response) definition(h Header, p []byte) error {
	if r.caps.Has(CapDeprecateEOF) {
		r.left--
		r.counted()
		return nil
	}
	switch {
	case p[0] == MarkEOF && h.Len < maxEOF:
		r.definitionsEOF(p)
	case p[0] == MarkOK && r.state == respColumns: // see CursorKept
		r.CursorOpen = true
		return r.endResult(p)
	}
	return nil
}

// counted sets the state after the last definition, with CapDeprecateEOF.
func (r *Response) counted() {
	switch {
	case r.left > 0 || !r.caps.Has(CapDeprecateEOF):
	case r.state == respColumns && r.Cursor == CursorKept:
		r.state = respKept
	case r.state == respColumns:
		r.state = respRows
	case r.state == respParams:
		r.preparedColumns()
	default:
		r.state = respDone
	}
}

// isBareOK reports whether p is the OK of a result without rows, rather than a binary row, which may have the same
// first byte.
func (r *Response) isBareOK(p []byte) bool {
	var ok OK
	return p[0] == MarkOK && ok.Decode(p, r.caps) == nil && ok.AffectedRows == 0 && ok.LastInsertID == 0 && len(ok.Info) == 0
}

// definitionsEOF handles the EOF packet after definitions.
func (r *Response) definitionsEOF(p []byte) {
	if len(p) >= 5 {
		r.setStatus(p[3:])
	}
	switch {
	case r.state == respParams:
		r.preparedColumns()
	case r.state == respPrepColumns:
		r.state = respDone
	case r.opensCursor():
		r.CursorOpen = true
		r.Results++
		r.state = respDone
	default:
		r.more = r.Status.Has(statusPSOutParams | StatusMoreResults)
		r.state = respRows
	}
}

// opensCursor reports whether a result without rows, with the last status, is that of a cursor. Another result
// follows those of a CALL, which opens no cursor for the client.
func (r *Response) opensCursor() bool {
	return r.Cursor == CursorRequested && r.Status.Has(StatusCursorExists) && !r.Status.Has(StatusMoreResults)
}

// row handles a packet among the rows that begins with FE: their end, or a row with a first value of 16 MiB
// or more.
func (r *Response) row(h Header, p []byte) error {
	limit := maxEOF
	if r.caps.Has(CapDeprecateEOF) {
		limit = MaxPayload
	}
	if p[0] != MarkEOF || h.Len >= limit {
		r.Rows++
		return nil
	}
	if err := r.endResult(p); err != nil {
		return err
	}
	r.CursorOpen = r.Rows == 0 && r.opensCursor()
	return nil
}

// prepared handles the first packet of the response to a PREPARE.
func (r *Response) prepared(p []byte) error {
	if p[0] != MarkOK || len(p) < 12 {
		return errUnexpectedPacket
	}
	r.StatementID = uint32(p[1]) | uint32(p[2])<<8 | uint32(p[3])<<16 | uint32(p[4])<<24
	r.columns = uint16(p[5]) | uint16(p[6])<<8
	r.Params = uint16(p[7]) | uint16(p[8])<<8
	r.Warnings += uint32(p[10]) | uint32(p[11])<<8
	r.bare = r.caps.Has(CapOptionalMetadata) && len(p) > 12 && p[12] == 0
	r.Results++
	r.preparedDefinitions(respParams, r.Params)
	if r.Params == 0 {
		r.preparedColumns()
	}
	return nil
}

func (r *Response) preparedColumns() {
	r.preparedDefinitions(respPrepColumns, r.columns)
	if r.columns == 0 {
		r.state = respDone
	}
}

// preparedDefinitions sets the state before n definitions of a PREPARE.
func (r *Response) preparedDefinitions(state respState, n uint16) {
	r.left, r.state = uint64(n), state
	if r.bare {
		r.left = 0
		r.counted()
	}
}

// endResult handles the OK or EOF packet that ends one result. Its status reports whether another result follows;
// MySQL's EOF after output parameters does not, only the one after their definitions.
func (r *Response) endResult(p []byte) error {
	if p[0] == MarkEOF && len(p) < 7 { // EOF: warnings, status
		r.Last = nil
		if len(p) >= 5 {
			r.Warnings += uint32(p[1]) | uint32(p[2])<<8
			r.setStatus(p[3:])
			if r.Track && r.Status.Has(StatusSessionChanged) {
				r.stop, r.Last = true, p
			}
		}
	} else if err := r.ok(p); err != nil {
		return err
	}
	r.Results++
	r.state = respDone
	if r.multi && (r.more || r.SeenStatus && r.Status.Has(StatusMoreResults)) {
		r.state = respFirst
	}
	r.more = false
	return nil
}

// ok decodes an OK packet: affected rows, last insert id, status, warnings.
func (r *Response) ok(p []byte) error {
	r.Last = p
	affected, n := LenencInt(p[1:])
	id, m := LenencInt(p[1+n:])
	at := 1 + n + m
	if n == 0 || m == 0 || len(p) < at+4 {
		return errUnexpectedPacket
	}
	r.Affected += affected
	if id != 0 {
		r.LastInsertID = id
	}
	r.setStatus(p[at:])
	r.stop = r.Track && r.Status.Has(StatusSessionChanged)
	r.Warnings += uint32(p[at+2]) | uint32(p[at+3])<<8
	return nil
}

func (r *Response) setStatus(p []byte) {
	if r.mark != 0 {
		p[0], p[1] = p[0]|byte(r.mark), p[1]|byte(r.mark>>8)
	}
	r.Status, r.SeenStatus = Status(uint16(p[0])|uint16(p[1])<<8), true
}
