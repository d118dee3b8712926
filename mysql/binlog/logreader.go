package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A logReader turns the events of a binary log into changes in a batch, and the position that was read. It
// does no I/O.
//
// The log consists of groups of events: single statements, and transactions from begin to end. A group that
// is read again after a lost connection has the same rows in the same order, so that counting them is
// sufficient to resume within it.
type logReader struct {
	tables []followedTable
	names  map[string]int // schema, NUL, name: index in tables
	tableMaps
	batch *ChangeBatch

	checksum bool   // events have one
	maria    bool   // the server is MariaDB, by its version
	file     string // position of the next event
	offset   uint64

	uptoFile   string // end of the last group
	uptoOffset uint64
	gtids      gtids // of the groups before it
	moved      bool  // the position has moved since the last batch
	seconds    uint32

	open       bool   // within a group
	openFile   string // start of the group
	single     bool   // the group is one statement
	ours       bool   // the group changed a followed table
	pending    pendingGTID
	rows       uint64 // rows of the group read so far
	skip       uint64 // rows of the group that were read before the connection was lost
	handed     uint64 // rows of the group that were returned in earlier batches
	first      int    // index of the group's first change in the batch
	savepoints []savepoint

	xas     preparedLog
	reread  *rereadXA // an XA transaction whose commit was read, and whose changes come next; nil: none
	only    *onlyXA   // the only group that is read; nil: all are
	columns []int     // of the returned rows, by table

	// scan is called with changes of definitions, and rows are not decoded; nil: rows are read.
	scan func(SchemaChange)

	statementText

	beats    beatLog
	cascades cascadeLog
	inflate  inflater
	unpack   unpacker
	row      rowstream.Batch // an image before the filter
	view     mysqlwire.TextRow
}

// A pendingGTID is the GTID of the current group.
type pendingGTID struct {
	mode   gtidMode
	maria  mariaGTID
	source gtidSource
	number uint64
	alter  alterPhase // of MariaDB's binlog_alter_two_phase
}

// A place is a position with which groups are compared.
type place struct {
	at    Position
	gtids gtids
}

func newPlace(p Position) (place, error) {
	g, err := parseGTIDs(p.GTID)
	return place{at: p, gtids: g}, err
}

// A savepoint is a point to which a transaction may be rolled back.
type savepoint struct {
	name    string
	rows    uint64 // of the group before it
	changes int    // of the batch before it
}

// position returns the position from which to resume.
func (r *logReader) position() Position {
	return Position{GTID: r.gtids.String(), File: r.uptoFile, Offset: r.uptoOffset, Heartbeat: r.beats.mark.String()}
}

// startBatch empties the batch.
func (r *logReader) startBatch(b *ChangeBatch, columns []int, limit int) {
	b.Reset(columns, limit)
	r.batch, r.columns, r.moved = b, columns, false
	r.first, r.handed = 0, max(r.rows, r.skip)
	for i := range r.savepoints {
		if r.xas.open == nil {
			r.savepoints[i].changes = 0
		}
	}
	if cap(r.row.Bytes) > limit {
		r.row.Bytes = nil
	}
}

// finishBatch sets the position of the batch.
func (r *logReader) finishBatch() {
	b := r.batch
	var held bool
	b.Upto, held = r.resume()
	b.Boundary, b.Heartbeat = r.between(), r.beats.number
	if !b.Boundary && !held {
		b.Skip = max(r.rows, r.skip)
	}
	if r.seconds != 0 {
		b.Commit = time.Unix(int64(r.seconds), 0)
	}
}

// between reports whether the log was read up to the end of a group.
func (r *logReader) between() bool { return !r.open && r.skip == 0 }

// resetConnection resets the state of one connection: the group is read again.
func (r *logReader) resetConnection() {
	r.tableMaps.clear()
	clear(r.cascades.maps)
	r.xas.drop()
	r.skip, r.rows = max(r.skip, r.rows), 0
	r.open, r.single, r.pending = false, false, pendingGTID{}
	r.file, r.offset, r.checksum = r.uptoFile, r.uptoOffset, false
	r.replay()
}

// read processes an event as sent by the server. It reports whether it was a heartbeat event.
func (r *logReader) read(raw []byte) (heartbeat bool, err error) {
	if len(raw) < eventHeaderLen {
		return false, r.unknown("an event", errShortEvent)
	}
	var e event
	kind, flags := eventType(raw[4]), binary.LittleEndian.Uint16(raw[17:])
	switch {
	case kind == eventFormat:
		err = e.decode(raw, false)
		if err == nil {
			r.checksum, err = e.format()
			r.maria = e.fromMariaDB()
		}
		if err == nil && r.checksum {
			err = e.decode(raw, true)
		}
	case kind == eventRotate && flags&eventArtificial != 0:
		err = e.decodeAny(raw)
	default:
		err = e.decode(raw, r.checksum)
	}
	if err != nil {
		return false, r.unknown(fmt.Sprintf("an event of type %d", kind), err)
	}
	if e.kind == eventRotate {
		return false, r.rotate(&e)
	}
	heartbeat = e.kind == eventHeartbeat || e.kind == eventHeartbeat2
	real := e.next != 0 && e.flags&eventArtificial == 0
	if heartbeat {
		real = e.kind == eventHeartbeat && e.next != 0 && string(e.body) == r.file
	}
	if real {
		r.advance(&e)
	}
	if r.beats.replays {
		if heartbeat && r.gtids.mode == noGTID {
			return true, r.proveMark()
		}
		if pass, err := r.isReplay(&e); pass || err != nil {
			return heartbeat, err
		}
	}
	if err := r.event(&e); err != nil {
		return false, err
	}
	if real {
		r.advanceUpto()
	}
	return heartbeat, nil
}

// advanceUpto moves the position to resume from past events between groups. A server that looks up a GTID sends a
// file's first events again, which are before it.
func (r *logReader) advanceUpto() {
	if !r.beats.replays && r.between() && (r.uptoFile == "" || (Position{File: r.file, Offset: r.offset}).Compare(Position{File: r.uptoFile, Offset: r.uptoOffset}) > 0) {
		r.uptoFile, r.uptoOffset, r.moved = r.file, r.offset, true
	}
}

// advance sets the offset of the event after e. Events contain only its low 32 bits.
func (r *logReader) advance(e *event) {
	if e.next == 0 {
		return
	}
	next := r.offset&^(1<<32-1) | uint64(e.next)
	if next < r.offset && r.offset-next > 1<<31 {
		next += 1 << 32
	}
	r.offset = max(r.offset, next)
}

// rotate switches to another file.
func (r *logReader) rotate(e *event) error {
	if len(e.body) < 9 {
		return r.unknown("the end of a log file", errShortEvent)
	}
	r.file, r.offset = string(e.body[8:]), binary.LittleEndian.Uint64(e.body)
	r.tableMaps.clear()
	if e.flags&eventArtificial == 0 {
		r.advanceUpto()
	}
	return nil
}

// event processes an event, from the log or from a compressed transaction.
func (r *logReader) event(e *event) error {
	if r.beats.skipping { // from a compressed transaction
		return r.checkSkipped(e)
	}
	if kind, version, compressed, ok := e.kind.isRows(); ok {
		return r.rowsEvent(e, kind, version, compressed)
	}
	switch e.kind {
	case eventTableMap:
		return r.tableMap(e)
	case eventMariaGTID, eventGTID, eventAnonymousGTID, eventTaggedGTID:
		return r.gtid(e)
	case eventMariaGTIDList:
		return r.gtidList(e)
	case eventXID:
		r.commitXA(e, "", r.xas.open)
		return nil
	case eventQuery, eventQueryCompressed:
		return r.queryEvent(e)
	case eventExecuteLoad:
		return r.loadEvent(e)
	case eventXAPrepare:
		return r.xaPrepare(e)
	case eventPayload:
		return r.payload(e)
	case eventPartialUpdate:
		return r.partialUpdate(e)
	case eventIncident:
		return r.stop(StopUnknown, "", "the server says that events were lost", "copy the tables again with option restart", nil)
	}
	if !e.kind.known() && e.flags&eventIgnorable == 0 {
		return r.unknown(fmt.Sprintf("an event of type %d", e.kind), errEventType)
	}
	return nil
}

// gtid starts a group.
func (r *logReader) gtid(e *event) error {
	if err := r.noEnd(); err != nil {
		return err
	}
	r.openFile = r.file
	r.open, r.single, r.pending = true, false, pendingGTID{}
	r.xas.drop()
	switch b := e.body; e.kind {
	case eventMariaGTID:
		var ok bool
		if r.pending.maria, ok = e.mariaGTID(); !ok {
			return r.unknown("a GTID", errShortEvent)
		}
		r.pending.mode = mariaGTIDs
		r.single = b[12]&1 != 0
		if r.pending.alter, ok = mariaAlter(b); !ok {
			return r.unknown("a GTID", errMariaFlags)
		}
		if b[12]&mariaPreparedXA != 0 {
			r.startXA()
		}
	case eventGTID:
		if len(b) < 25 {
			return r.unknown("a GTID", errShortEvent)
		}
		r.pending.mode = mysqlGTIDs
		copy(r.pending.source.uuid[:], b[1:])
		r.pending.number = binary.LittleEndian.Uint64(b[17:])
		if r.pending.number == 0 || r.pending.number >= 1<<63-1 {
			return r.unknown("a GTID", errMySQLGTID)
		}
		r.single = true // until BEGIN
	case eventAnonymousGTID:
		r.single = true
	default:
		var ok bool
		if r.pending.source, r.pending.number, ok = taggedGTID(b); !ok {
			return r.unknown("a GTID with a tag", errMySQLGTID)
		}
		r.pending.mode, r.single = mysqlGTIDs, true
	}
	return nil
}

// scanned ends a group for a scan. count reports whether its rows are committed.
func (r *logReader) scanned(count bool) {
	if r.scan == nil {
		return
	}
	for i := range r.tables {
		f := &r.tables[i]
		f.rows, f.group = f.rows || count && f.group, false
	}
}

// commit ends a group whose rows are committed.
func (r *logReader) commit(e *event) {
	if n := len(r.batch.Changes); n > r.first {
		r.batch.Changes[n-1].LastOfTransaction = true
	}
	r.close(e)
}

// close ends a group.
func (r *logReader) close(e *event) {
	if r.only != nil {
		r.only.ended = true
	}
	r.scanned(true)
	if r.beats.open {
		r.beats.committed(r.uptoFile, r.uptoOffset, &r.pending, &r.gtids)
	}
	switch {
	case r.gtids.mode == mariaGTIDs && r.pending.mode == mariaGTIDs:
		r.gtids.addMaria(r.pending.maria)
	case r.gtids.mode == mysqlGTIDs && r.pending.mode == mysqlGTIDs:
		r.gtids.addMySQL(r.pending.source, r.pending.number)
	}
	if e.seconds != 0 {
		r.seconds = e.seconds
	}
	r.open, r.single, r.ours, r.pending, r.xas.open = false, false, false, pendingGTID{}, nil
	r.rows, r.skip, r.handed, r.first = 0, 0, 0, len(r.batch.Changes)
	r.savepoints = r.savepoints[:0]
	r.uptoFile, r.uptoOffset, r.moved = r.file, r.offset, true
}

// rollBack ends a group whose rows are not committed.
func (r *logReader) rollBack(e *event) error {
	r.beats.open = false
	r.scanned(false)
	if r.xas.open != nil {
		r.xas.drop()
	} else if err := r.undo(savepoint{changes: r.first}); err != nil {
		return err
	}
	r.close(e)
	return nil
}

// undo removes the changes after a savepoint from the batch.
func (r *logReader) undo(to savepoint) error {
	if r.xas.open == nil && to.rows < r.handed && r.ours {
		return r.stop(StopRolledBack, "", "a transaction was rolled back, whole or to a savepoint, of which rows have been applied already: it is larger than a batch",
			"copy the tables again with option restart, while no transaction of this size is rolled back to a savepoint", nil)
	}
	if r.xas.open == nil || !r.xas.open.dropped {
		cut(r.out(), to.changes)
	}
	return nil
}

// cut removes the changes from an index on from a batch.
func cut(b *ChangeBatch, from int) {
	for i := len(b.Changes) - 1; i >= from; i-- {
		t := &b.Tables[b.Changes[i].Table]
		for _, at := range [...]int{b.Changes[i].After, b.Changes[i].Before} {
			if at >= 0 {
				t.Bytes = t.Bytes[:at]
				t.Rows--
			}
		}
	}
	b.Changes = b.Changes[:from]
}

// partialUpdate processes an update whose JSON values are logged as differences.
func (r *logReader) partialUpdate(e *event) error {
	id, _, err := splitRows(e.body, 2)
	if err != nil {
		return r.unknown("rows", err)
	}
	if m := r.maps[id]; m != nil && r.scan == nil {
		return r.stop(StopImage, r.tables[m.table].table.FullName(), "JSON values were logged in part",
			"SET GLOBAL binlog_row_value_options = '' and copy the table again with option restart", nil)
	}
	return nil
}

// tableMap records the layout of a followed table's rows.
func (r *logReader) tableMap(e *event) error {
	id, schema, name, rest, err := splitTableMap(e.body)
	if err != nil {
		return r.unknown("a table map", err)
	}
	var key [512]byte // names have at most 64 characters
	r.cascades.tableMap(id, schema, name)
	number, ok := r.names[string(append(append(append(key[:0], schema...), 0), name...))]
	if !ok || r.before(&r.tables[number]) {
		r.tableMaps.forget(id) // it is reused
		if ok {
			r.xas.skip(id, number)
		}
		r.beats.tableMap(id, schema, name)
		return nil
	}
	m := r.maps[id]
	if m == nil {
		m = &tableMap{id: id}
		r.maps[id] = m
		r.mapBytes += m.heapBytes()
	}
	if m.is(e.body) {
		return nil
	}
	before := m.heapBytes()
	defer func() { r.mapBytes += m.heapBytes() - before }()
	m.table = number
	f := &r.tables[number]
	if r.scan != nil {
		f.group = true
		return nil
	}
	if err := m.set(f, e.body, rest); err != nil {
		m.body = m.body[:0]
		return r.stop(StopSchema, f.table.FullName(), "its rows are logged in another form than it was described with",
			"copy the table again with option restart", err)
	}
	return nil
}

// before reports whether the group is before the position at which a table's rows were copied.
func (r *logReader) before(f *followedTable) bool {
	return f.start.isAfter(r.uptoFile, r.uptoOffset, &r.pending)
}

// isAfter reports whether the group at a position of the log is before the place. Files and offsets are valid on one server: after a
// failover the place may be another server's, so its GTIDs must include the group too. A group that is
// skipped wrongly is lost; one that is not skipped is only read twice.
func (p *place) isAfter(file string, offset uint64, group *pendingGTID) bool {
	if p.at.IsZero() || (Position{File: file, Offset: offset}).Compare(p.at) >= 0 {
		return false
	}
	return p.gtids.mode == noGTID || group.mode == noGTID || p.gtids.contains(group)
}

// rowsEvent processes rows.
func (r *logReader) rowsEvent(e *event, kind ChangeKind, version int, compressed bool) error {
	id, rest, err := splitRows(e.body, version)
	if err != nil {
		return r.unknown("rows", err)
	}
	if err := r.checkCascade(id, e, kind); err != nil {
		return err
	}
	m := r.maps[id]
	if m == nil || r.scan != nil {
		if schema, ok := r.beats.tables[id]; ok {
			return r.beatRows(schema, rest, kind, compressed)
		}
		r.xas.miss(id)
		return nil // the table is not followed, or later
	}
	f := &r.tables[m.table]
	var rows rowsEvent
	err = rows.decode(kind, rest, m)
	if errors.Is(err, errImage) {
		return r.stop(StopImage, f.table.FullName(), err.Error(), "SET GLOBAL binlog_row_image = FULL, end the sessions that have another, and copy the table again with option restart", nil)
	}
	if err == nil && compressed {
		rows.rows, err = r.inflate.inflate(rows.rows)
	}
	r.open, r.ours = true, true
	if err == nil && r.xas.open != nil && r.xas.open.dropped {
		return nil
	}
	for err == nil && len(rows.rows) > 0 {
		err = r.change(&rows, m, f)
	}
	if errors.Is(err, errUnderivable) {
		return err
	}
	if err == nil && r.xas.open != nil {
		r.xas.hold()
	}
	return r.stopRows(f, err)
}

// change processes one row.
func (r *logReader) change(rows *rowsEvent, m *tableMap, f *followedTable) (err error) {
	out := r.out()
	t := &out.Tables[m.table]
	mark, images := len(t.Bytes), t.Rows
	c := Change{Table: int32(m.table), Before: -1, After: -1}
	if rows.kind != Insert {
		c.Before, err = r.image(t, rows, m, f, true)
	}
	if rows.kind != Delete && err == nil {
		c.After, err = r.image(t, rows, m, f, false)
	}
	if err != nil {
		t.Bytes, t.Rows = t.Bytes[:mark], images
		return err
	}
	if r.xas.open == nil { // an XA transaction is returned as a whole
		r.rows++
	}
	switch {
	case r.xas.open == nil && r.rows <= r.skip:
		t.Bytes, t.Rows = t.Bytes[:mark], images
		return nil
	case c.Before >= 0 && c.After >= 0:
		c.Kind = Update
	case c.Before >= 0:
		c.Kind = Delete
	case c.After >= 0:
		c.Kind = Insert
	default:
		return nil // excluded by the plan
	}
	out.Changes = append(out.Changes, c)
	return r.cascade(out, c)
}

// image appends a before or after image to the batch and returns its offset, -1 if the plan excludes it.
func (r *logReader) image(t *rowstream.Batch, rows *rowsEvent, m *tableMap, f *followedTable, before bool) (at int, err error) {
	at = len(t.Bytes)
	present := rows.after
	if before {
		present = rows.before
	}
	if f.filter == nil {
		if t.Bytes, err = rows.image(t.Bytes, m, present, before); err == nil {
			t.Rows++
		}
		return at, err
	}
	r.row.Bytes, err = rows.image(r.row.Bytes[:0], m, present, before)
	if err == nil {
		err = r.view.Decode(r.row.Bytes, m.wanted)
	}
	if err != nil {
		return 0, err
	}
	out, ok := f.filter.Apply(r.view)
	if !ok {
		return -1, f.filter.Err()
	}
	if before && f.before != nil {
		for i := range out {
			if !f.before[i] {
				out[i] = nil
			}
		}
	}
	t.AppendRow(out)
	return at, nil
}

// size returns the bytes of rows in the batch.
func (b *ChangeBatch) size() (n int) {
	for i := range b.Tables {
		n += len(b.Tables[i].Bytes)
	}
	return n
}

// stop returns the error that stops the reader.
func (r *logReader) stop(reason StopReason, table, what, try string, err error) *StopError {
	return &StopError{Reason: reason, At: r.position(), Table: table, What: what, Try: try, Err: err}
}

// unknown returns the error for unreadable data.
func (r *logReader) unknown(what string, err error) error {
	return r.stop(StopUnknown, "", what+" at "+fmt.Sprintf("%s %d", r.file, r.offset)+" cannot be read", "report it, and copy the tables again with option restart", err)
}
