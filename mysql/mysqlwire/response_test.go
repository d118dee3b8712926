package mysqlwire

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
)

// A reply builds the bytes of a response, packet by packet.
type reply struct {
	b   []byte
	seq uint8
}

func newReply() *reply { return &reply{seq: 1} }

func (r *reply) packet(payload ...byte) *reply {
	r.b, r.seq = AppendPacket(r.b, payload, r.seq)
	return r
}

func (r *reply) ok(st Status) *reply {
	return r.packet(0x00, 3, 7, byte(st), byte(st>>8), 2, 0)
}

func (r *reply) okEOF(st Status) *reply {
	return r.packet(0xFE, 0, 0, byte(st), byte(st>>8), 1, 0)
}

func (r *reply) eof(st Status) *reply { return r.packet(0xFE, 1, 0, byte(st), byte(st>>8)) }

func (r *reply) err() *reply {
	return r.packet(append([]byte{0xFF, 0x28, 0x04, '#'}, "42000no"...)...)
}

func (r *reply) progress() *reply { return r.packet(0xFF, 0xFF, 0xFF, 1, 1, 1, 0, 0, 0, 0) }

func (r *reply) column() *reply { return r.packet(append([]byte{3}, "def..."...)...) }

func (r *reply) row() *reply { return r.packet(1, 'x', 0xFB) }

func (r *reply) prepareOK(columns, params byte) *reply {
	return r.packet(0x00, 9, 0, 0, 0, columns, 0, params, 0, 0, 4, 0)
}

func TestResponse(t *testing.T) {
	const old, noEOF = CapProtocol41, CapProtocol41 | CapDeprecateEOF
	const optional = CapOptionalMetadata
	for _, c := range []struct {
		name string
		cmd  Command
		caps Capability
		r    *reply
		want Response
	}{
		{
			"ok", ComQuery, old, newReply().ok(StatusAutocommit),
			Response{Affected: 3, LastInsertID: 7, Results: 1, Warnings: 2, Status: StatusAutocommit},
		},
		{"error with the number of a progress report", ComQuery, old, newReply().packet([]byte("\xff\xff\xff#HY000x")...), Response{Results: 1, Errno: 65535}},
		{"error", ComQuery, old, newReply().err(), Response{Results: 1, Errno: 1064}},
		{
			"rows", ComQuery, old, newReply().packet(2).column().column().eof(0).row().row().row().eof(StatusAutocommit),
			Response{Rows: 3, Results: 1, Warnings: 1, Status: StatusAutocommit},
		},
		{
			"rows, EOF deprecated", ComQuery, noEOF, newReply().packet(2).column().column().row().row().okEOF(StatusAutocommit),
			Response{Rows: 2, Results: 1, Warnings: 1, Status: StatusAutocommit},
		},
		{"no rows", ComQuery, noEOF, newReply().packet(1).column().okEOF(0), Response{Results: 1, Warnings: 1}},
		{"error after rows", ComQuery, noEOF, newReply().packet(1).column().row().err(), Response{Rows: 1, Results: 1, Errno: 1064}},
		{"progress reports", ComQuery, old, newReply().progress().progress().ok(0), Response{Affected: 3, LastInsertID: 7, Results: 1, Warnings: 2}},
		{
			"several results", ComQuery, noEOF,
			newReply().ok(StatusMoreResults).packet(1).column().row().okEOF(StatusMoreResults).ok(0),
			Response{Affected: 6, LastInsertID: 7, Rows: 1, Results: 3, Warnings: 5},
		},
		{
			"several results, the last an error", ComQuery, old, newReply().ok(StatusMoreResults).err(),
			Response{Affected: 3, LastInsertID: 7, Results: 2, Warnings: 2, Status: StatusMoreResults, Errno: 1064},
		},
		{
			"a row that begins like EOF", ComQuery, old,
			newReply().packet(1).column().eof(0).packet(append([]byte{0xFE}, make([]byte, 20)...)...).eof(0),
			Response{Rows: 1, Results: 1, Warnings: 1},
		},
		{
			"metadata cached", ComStmtExecute, noEOF | CapMariaCacheMetadata, newReply().packet(2, 0).row().okEOF(0),
			Response{Rows: 1, Results: 1, Warnings: 1},
		},
		{
			"metadata cached, EOF", ComStmtExecute, old | CapMariaCacheMetadata, newReply().packet(2, 0).eof(0).row().eof(0),
			Response{Rows: 1, Results: 1, Warnings: 1},
		},
		{
			"metadata sent", ComStmtExecute, noEOF | CapMariaCacheMetadata, newReply().packet(1, 1).column().row().okEOF(0),
			Response{Rows: 1, Results: 1, Warnings: 1},
		},
		{
			"cursor", ComStmtExecute, old, newReply().packet(1).column().eof(StatusCursorExists),
			Response{Cursor: CursorRequested, CursorOpen: true, Results: 1, Status: StatusCursorExists},
		},
		{
			"cursor, EOF deprecated", ComStmtExecute, noEOF, newReply().packet(1).column().okEOF(StatusCursorExists),
			Response{Cursor: CursorRequested, CursorOpen: true, Results: 1, Warnings: 1, Status: StatusCursorExists},
		},
		{
			"cursor requested, not opened", ComStmtExecute, old, newReply().packet(1).column().eof(0).row().eof(StatusCursorExists),
			Response{Cursor: CursorRequested, Rows: 1, Results: 1, Warnings: 1, Status: StatusCursorExists},
		},
		{
			"cursor requested, of a CALL with a cursor inside", ComStmtExecute, old,
			newReply().packet(1).column().eof(StatusCursorExists | StatusMoreResults).row().eof(StatusCursorExists | StatusMoreResults).ok(StatusCursorExists),
			Response{Cursor: CursorRequested, Rows: 1, Affected: 3, LastInsertID: 7, Results: 2, Warnings: 3, Status: StatusCursorExists},
		},
		{
			"cursor inside", ComStmtExecute, old, newReply().packet(1).column().eof(StatusCursorExists).row().eof(StatusCursorExists),
			Response{Rows: 1, Results: 1, Warnings: 1, Status: StatusCursorExists},
		},
		{
			"cursor inside, as text", ComQuery, old, newReply().packet(1).column().eof(StatusCursorExists).row().eof(StatusCursorExists),
			Response{Rows: 1, Results: 1, Warnings: 1, Status: StatusCursorExists},
		},
		{
			"cursor kept", ComStmtExecute, old, newReply().packet(1).column().packet(0, 0, 0, 2, 0, 0, 0),
			Response{Cursor: CursorKept, CursorOpen: true, Results: 1, Status: StatusAutocommit},
		},
		{
			"cursor kept, EOF deprecated", ComStmtExecute, noEOF, newReply().packet(1).column().packet(0, 0, 0, 2, 0, 0, 0),
			Response{Cursor: CursorKept, CursorOpen: true, Results: 1, Status: StatusAutocommit},
		},
		{
			"cursor not kept, EOF deprecated", ComStmtExecute, noEOF, newReply().packet(1).column().packet(0, 0, 5, 0, 0, 0).packet(0, 0, 0, 2, 0, 0, 0).okEOF(0),
			Response{Cursor: CursorKept, Rows: 2, Results: 1, Warnings: 1},
		},
		{
			"output parameters, EOF without more results", ComStmtExecute, old,
			newReply().packet(1).column().eof(statusPSOutParams | StatusMoreResults).row().eof(StatusAutocommit).ok(StatusAutocommit),
			Response{Rows: 1, Affected: 3, LastInsertID: 7, Results: 2, Warnings: 3, Status: StatusAutocommit},
		},
		{
			"two headers before the EOF", ComStmtExecute, old, newReply().packet(1).column().packet(2).column().column().eof(0).row().eof(0),
			Response{Rows: 1, Results: 1, Warnings: 1},
		},
		{
			"more columns than 16 bits", ComQuery, old, func() *reply {
				r := newReply().packet(0xFD, 0, 0, 1)
				for range 1 << 16 {
					r.column()
				}
				return r.eof(0).row().eof(0)
			}(),
			Response{Rows: 1, Results: 1, Warnings: 1},
		},
		{
			"prepare of more columns than counted", ComStmtPrepare, old, newReply().prepareOK(1, 0).column().column().column().eof(0),
			Response{Results: 1, Warnings: 4, StatementID: 9},
		},
		{"optional metadata", ComQuery, noEOF | optional, newReply().packet(1, 1).column().row().okEOF(0), Response{Rows: 1, Results: 1, Warnings: 1}},
		{"no metadata", ComQuery, noEOF | optional, newReply().packet(1, 0).row().okEOF(0), Response{Rows: 1, Results: 1, Warnings: 1}},
		{"no metadata, EOF", ComQuery, old | optional, newReply().packet(1, 0).eof(0).row().eof(0), Response{Rows: 1, Results: 1, Warnings: 1}},
		{
			"prepare, no metadata", ComStmtPrepare, noEOF | optional, newReply().packet(0x00, 9, 0, 0, 0, 2, 0, 1, 0, 0, 4, 0, 0),
			Response{Results: 1, Warnings: 4, StatementID: 9, Params: 1},
		},
		{
			"prepare, no metadata, EOF", ComStmtPrepare, old | optional, newReply().packet(0x00, 9, 0, 0, 0, 2, 0, 1, 0, 0, 4, 0, 0).eof(0).eof(0),
			Response{Results: 1, Warnings: 4, StatementID: 9, Params: 1},
		},
		{"EOF alone", ComQuery, old, newReply().eof(StatusAutocommit), Response{Results: 1, Warnings: 1, Status: StatusAutocommit}},
		{"an unknown command", Command(0x55), old, newReply().packet(1).column().eof(0).row().eof(0), Response{Rows: 1, Results: 1, Warnings: 1}},
		{"more results after a PING", ComPing, old, newReply().ok(StatusMoreResults), Response{Affected: 3, LastInsertID: 7, Results: 1, Warnings: 2, Status: StatusMoreResults}},
		{"more results after a FETCH", ComStmtFetch, old, newReply().row().eof(StatusMoreResults), Response{Rows: 1, Results: 1, Warnings: 1, Status: StatusMoreResults}},
		{"more results after a field list", ComFieldList, old, newReply().column().eof(StatusMoreResults), Response{Results: 1, Warnings: 1, Status: StatusMoreResults}},
		{"statistics refused", ComStatistics, old, newReply().err(), Response{Results: 1, Errno: 1064}},
		{"fetch", ComStmtFetch, old, newReply().row().row().eof(StatusLastRowSent), Response{Rows: 2, Results: 1, Warnings: 1, Status: StatusLastRowSent}},
		{
			"prepare", ComStmtPrepare, old, newReply().prepareOK(2, 1).column().eof(0).column().column().eof(0),
			Response{Results: 1, Warnings: 4, StatementID: 9, Params: 1},
		},
		{
			"prepare, EOF deprecated", ComStmtPrepare, noEOF, newReply().prepareOK(1, 2).column().column().column(),
			Response{Results: 1, Warnings: 4, StatementID: 9, Params: 2},
		},
		{
			"prepare of no columns", ComStmtPrepare, old, newReply().prepareOK(0, 1).column().eof(0),
			Response{Results: 1, Warnings: 4, StatementID: 9, Params: 1},
		},
		{"prepare of nothing", ComStmtPrepare, old, newReply().prepareOK(0, 0), Response{Results: 1, Warnings: 4, StatementID: 9}},
		{"prepare refused", ComStmtPrepare, old, newReply().err(), Response{Results: 1, Errno: 1064}},
		{"field list", ComFieldList, old, newReply().column().column().eof(0), Response{Results: 1, Warnings: 1}},
		{"set option", ComSetOption, old, newReply().eof(0), Response{Results: 1, Warnings: 1}},
		{"set option, EOF deprecated", ComSetOption, noEOF, newReply().okEOF(0), Response{Results: 1, Warnings: 1}},
		{"statistics", ComStatistics, old, newReply().packet([]byte("Uptime: 1")...), Response{}},
		{"ping", ComPing, old, newReply().ok(0), Response{Affected: 3, LastInsertID: 7, Results: 1, Warnings: 2}},
		{"close", ComStmtClose, old, newReply(), Response{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for cut := 0; cut <= len(c.r.b); cut += 1 + len(c.r.b)/1000 { // in any split
				var r Response
				r.Begin(c.cmd, c.caps, 1)
				r.Cursor = c.want.Cursor
				n, ev, err := r.Scan(c.r.b[:cut])
				if err != nil {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				if cut < len(c.r.b) && ev != EventMore {
					t.Fatalf("cut at %d of %d: event %d, want more", cut, len(c.r.b), ev)
				}
				m, ev, err := r.Scan(c.r.b[n:])
				if err != nil || ev != EventDone || n+m != len(c.r.b) {
					t.Fatalf("cut at %d: Scan = %d, %d, %v; want %d, done", cut, n+m, ev, err, len(c.r.b))
				}
				if !r.Done() || r.NextSeq() != c.r.seq {
					t.Fatalf("cut at %d: done %v, next sequence number %d; want %d", cut, r.Done(), r.NextSeq(), c.r.seq)
				}
				if got := seen(&r); !slices.Equal(got, seen(&c.want)) {
					t.Fatalf("cut at %d: saw %v, want %v", cut, got, seen(&c.want))
				}
			}
		})
	}
}

// seen returns the properties of a response in a comparable form.
func seen(r *Response) []uint64 {
	return []uint64{
		r.Rows, r.Affected, r.LastInsertID, uint64(r.Results), uint64(r.Warnings), uint64(r.Status),
		uint64(r.StatementID), uint64(r.Params), uint64(r.Errno), uint64(r.Cursor), map[bool]uint64{true: 1}[r.CursorOpen],
	}
}

func TestResponseLongRow(t *testing.T) {
	big := bytes.Repeat([]byte{0xFE}, 2*MaxPayload) // its continuations look like EOF
	b := newReply().packet(1).column().packet(append([]byte{0xFE, 0, 0, 0, 0, 2}, big...)...).row().okEOF(0).b
	var r Response
	r.Begin(ComQuery, CapProtocol41|CapDeprecateEOF, 1)
	n, ev, err := r.Scan(b)
	if n != len(b) || ev != EventDone || err != nil || r.Rows != 2 {
		t.Fatalf("Scan = %d, %d, %v with %d rows; want %d, done and 2 rows", n, ev, err, r.Rows, len(b))
	}
}

func TestResponseInfile(t *testing.T) {
	for _, cmd := range []Command{ComQuery, ComStmtExecute, ComStmtBulkExecute} {
		for _, length := range []int{1, InspectMax - 1, InspectMax, 3 * InspectMax, MaxPayload - 1, MaxPayload} {
			b := newReply().packet(append([]byte{0xFB}, bytes.Repeat([]byte("a"), length)...)...).b
			var r Response
			r.Begin(cmd, CapProtocol41, 1)
			n, ev, err := r.Scan(b[:len(b)-1])
			if ev != EventMore || err != nil {
				t.Fatalf("a name of %d bytes, cut: Scan = %d, %d, %v; want more", length, n, ev, err)
			}
			m, ev, err := r.Scan(b[n:])
			if n+m != len(b) || ev != EventInfile || err != nil || int(r.NextSeq()) != 2+(length+1)/MaxPayload {
				t.Fatalf("a name of %d bytes: Scan = %d, %d, %v; want %d and a file", length, n+m, ev, err, len(b))
			}
			r.ResumeInfile(5)
			rest := (&reply{seq: 5}).ok(0).b
			if n, ev, err = r.Scan(rest); n != len(rest) || ev != EventDone || err != nil || r.Affected != 3 {
				t.Fatalf("after the file: Scan = %d, %d, %v, %d rows affected", n, ev, err, r.Affected)
			}
		}
	}
}

func TestResponseBroken(t *testing.T) {
	for _, c := range []struct {
		name string
		cmd  Command
		b    []byte
		want error
	}{
		{"wrong sequence number", ComQuery, (&reply{seq: 2}).ok(0).b, errOutOfOrder},
		{"empty packet", ComQuery, newReply().packet().b, errUnexpectedPacket},
		{"no OK after PING", ComPing, newReply().packet(5).b, errUnexpectedPacket},
		{"short OK", ComQuery, newReply().packet(0, 1).b, errUnexpectedPacket},
		{"no columns", ComQuery, newReply().packet(0xFC, 0, 0).b, errUnexpectedPacket},
		{"short PREPARE", ComStmtPrepare, newReply().packet(0, 1, 0, 0, 0).b, errUnexpectedPacket},
		{"a file after a PING", ComPing, newReply().packet(0xFB, 'a').b, errUnexpectedPacket},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Response
			r.Begin(c.cmd, CapProtocol41, 1)
			if _, _, err := r.Scan(c.b); !errors.Is(err, c.want) {
				t.Fatalf("Scan: %v, want %v", err, c.want)
			}
		})
	}
}

// FuzzResponse feeds a response in two pieces and whole: the outcome must be the same.
func FuzzResponse(f *testing.F) {
	f.Add(byte(ComQuery), false, uint16(3), newReply().packet(2).column().column().eof(0).row().eof(0).b)
	f.Add(byte(ComStmtPrepare), true, uint16(9), newReply().prepareOK(1, 2).column().column().column().b)
	f.Add(byte(ComQuery), true, uint16(1), newReply().ok(StatusMoreResults).err().b)
	f.Fuzz(func(t *testing.T, cmd byte, noEOF bool, cut uint16, b []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		caps := CapProtocol41
		if noEOF {
			caps |= CapDeprecateEOF
		}
		var whole, split Response
		whole.Begin(Command(cmd), caps, 1)
		wantN, wantEv, wantErr := whole.Scan(b)
		if wantN > len(b) {
			t.Fatalf("%d bytes scanned of %d", wantN, len(b))
		}
		split.Begin(Command(cmd), caps, 1)
		n, ev, err := split.Scan(b[:min(int(cut), len(b))])
		if ev == EventMore && err == nil {
			var m int
			m, ev, err = split.Scan(b[n:])
			n += m
		}
		if n != wantN || ev != wantEv || !errors.Is(err, wantErr) {
			t.Fatalf("in two pieces: %d, %d, %v; whole: %d, %d, %v", n, ev, err, wantN, wantEv, wantErr)
		}
		if !slices.Equal(seen(&split), seen(&whole)) {
			t.Fatalf("in two pieces saw %v, whole %v", seen(&split), seen(&whole))
		}
	})
}

// TestResponsePrepared scans the results of a statement that was prepared with two columns: those with another number have
// StatusMetadataChanged in each status.
func TestResponsePrepared(t *testing.T) {
	const old, noEOF, changed = CapProtocol41, CapProtocol41 | CapDeprecateEOF, StatusAutocommit | StatusMetadataChanged
	for name, c := range map[string]struct {
		caps    Capability
		r, want *reply
		columns uint16
	}{
		"the same": {old, newReply().packet(2).column().column().eof(2).row().eof(2), newReply().packet(2).column().column().eof(2).row().eof(2), 2},
		"fewer":    {old, newReply().packet(1).column().eof(2).row().eof(2), newReply().packet(1).column().eof(changed).row().eof(changed), 1},
		"more, EOF deprecated": {
			noEOF, newReply().packet(3).column().column().column().row().okEOF(2), newReply().packet(3).column().column().column().row().okEOF(changed), 3,
		},
		"an error": {old, newReply().err(), newReply().err(), 2},
		"no rows":  {old, newReply().ok(2), newReply().ok(2), 2},
	} {
		for size := 1; size <= len(c.r.b); size++ { // of the pieces that arrive
			var r Response
			r.Begin(ComStmtExecute, c.caps, 1)
			r.Prepared = 2
			b, scanned := bytes.Clone(c.r.b), 0
			for end := 0; !r.Done(); {
				end = min(end+size, len(b))
				n, _, err := r.Scan(b[scanned:end])
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				scanned += n
			}
			if !bytes.Equal(b, c.want.b) || r.Prepared != c.columns {
				t.Errorf("%s, %d bytes each:\n got % x\nwant % x\n%d columns, want %d", name, size, b, c.want.b, r.Prepared, c.columns)
			}
		}
	}
}
