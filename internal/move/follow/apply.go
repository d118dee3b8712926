package follow

import (
	"hash/maphash"
	"slices"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// The applier turns a batch of changes into statements for one or several writers. It uses no server and no
// clock, so that its tests are lists of changes and the resulting statements (testdata/apply). It does not
// allocate per change once its buffers are warm.
//
// Why the statements yield the source's rows in the target, whatever its rows were before:
//
//   - A table's changes are applied in order, from a position at or before that of each of its chunks. The
//     last change that has a key in one of its images decides: REPLACE with the after image, or DELETE of the
//     before image's key.
//   - A REPLACE also removes rows that share a unique value with the new one. No such row is in the current
//     state of the source unless a later change adds it: at the time of the change the source had the new
//     row, and so no other with that value.
//   - A key without a change is in the target as it was read, and no REPLACE removes it, for the same
//     reason.
//
// So a batch may be applied again, and so may all batches since an older position.
//
// An update that keeps the key's bytes is a REPLACE. Any other update is a DELETE of the old key and a
// REPLACE, because only the server knows whether 'a' and 'A' are one key.
//
// Tables are independent: the target's foreign keys have no actions in the sessions that write, triggers are
// refused, and the actions of the source's keys are changes of the child table (binlog.Cascaded), which
// depend on no other table. So the statements of a transaction may be sorted by table. Within a table the
// order is kept, except for loose tables: those with no unique key besides the primary one, with a key whose
// equality is that of its bytes (RowSQL.ExactKey), and with no foreign key whose changes are derived. There,
// keys are independent: only the last image of a key in a batch is applied, and keys may be distributed over
// writers.
type applier struct {
	tables  []applyTable
	writers int
	scripts []script // of writer w for table t at w*len(tables)+t

	tracker *tracker // of the planned changes; nil: none

	batch         *binlog.ChangeBatch // planned last: wide rows are written from it
	before, after mysqlwire.TextRow   // the images of the current change, as views
	image         int                 // offset of the after image
	size          int                 // its length

	// The keys of the current batch's loose tables, as a hash table with open addressing.
	keys  []keyEntry
	slots []int32 // index of the entry + 1
	bytes []byte  // of the keys
	seed  maphash.Seed
}

// An applyTable has the statements for a table's changes.
type applyTable struct {
	sql      *rowstream.RowSQL
	loose    bool                // only the last image of a key is applied, and keys may be distributed
	owned    *tabledef.Owned     // nil unless several sources have rows of the table
	typed    *rowstream.RowSQL   // writes documents of rows that were replaced; nil: there are none
	cascades []*rowstream.RowSQL // actions of its foreign keys, by the number of the Cascade; nil for keys that are not derived

	// displaced delete the rows of the same source that have a unique key of a new row, before it is inserted; empty if rows are written by REPLACE.
	displaced []*rowstream.RowSQL
}

// A keyEntry is the state of a key within a batch.
type keyEntry struct {
	hash     uint64
	table    int32
	from, to int32 // its bytes
	image    int   // offset of the last image; for a deleted key, of the image before the deletion
	deleted  bool
}

// A script has the statements of one writer for one table in one batch.
type script struct {
	text       []byte
	statements []statement
	typed      []byte // the keys of the open REPLACE, for the statement that writes its documents
	open       bool   // the last statement accepts more rows
	insertion  insertion
}

// A statement is a part of a script's text.
type statement struct {
	from, to int
	rows     int
	kind     stmtKind
	cascade  uint8 // of cascadeRows: number of the Cascade
	wide     bool  // the text is followed by the row at image, which is not in it
	image    int   // offset in the rows of the batch
}

// A stmtKind is the kind of a statement.
type stmtKind uint8

const (
	replaceRows stmtKind = iota
	deleteRows
	cascadeRows   // the action of a foreign key
	displacedRows // DELETE by a unique key, before the rows are inserted
	typedRows     // has the server write the documents of the rows of the statement before
)

const (
	// applyBytes is the approximate length of a statement.
	applyBytes = 512 << 10

	// sharedRow is the length of the longest row that shares a statement with others.
	sharedRow = applyBytes / 4

	// streamedRow is the length of a row from which on it is written from the batch, and not from the script.
	streamedRow = 1 << 20

	// applyKeys is the maximum number of keys in a DELETE. Given many more, servers scan the table instead of
	// using the index.
	applyKeys = 250

	// scriptKeep is the maximum capacity for text kept per script between batches.
	scriptKeep = 2 << 20
)

// newApplier returns an applier that distributes changes over the given number of writers.
func newApplier(tables []applyTable, writers int) *applier {
	a := &applier{tables: tables, seed: maphash.MakeSeed()}
	a.spread(writers)
	return a
}

// spread sets the number of writers for the next batches.
func (a *applier) spread(writers int) {
	if writers == a.writers {
		return
	}
	a.writers = writers
	a.scripts = make([]script, writers*len(a.tables))
}

// script returns the script of a writer for a table.
func (a *applier) script(writer, table int) *script { return &a.scripts[writer*len(a.tables)+table] }

// empty reports whether a writer has no statements.
func (a *applier) empty(writer int) bool {
	for t := range a.tables {
		if len(a.script(writer, t).statements) > 0 {
			return false
		}
	}
	return true
}

// reset discards the previous batch.
func (a *applier) reset() {
	for i := range a.scripts {
		s := &a.scripts[i]
		s.text, s.statements, s.open = s.text[:0], s.statements[:0], false
		if s.insertion.count > 0 {
			s.insertion.reset(len(s.insertion.deletes))
		}
		s.typed = s.typed[:0]
		if cap(s.text) > scriptKeep {
			s.text = nil
		}
	}
	a.keys, a.bytes = a.keys[:0], a.bytes[:0]
	clear(a.slots)
}

// release discards the previous batch and all views of it.
func (a *applier) release() {
	a.reset()
	clear(a.before)
	clear(a.after)
}

// plan builds the statements of a batch.
func (a *applier) plan(b *binlog.ChangeBatch) error {
	a.reset()
	a.batch = b
	for i := range b.Changes {
		if err := a.planChange(b, &b.Changes[i]); err != nil {
			return err
		}
	}
	if err := a.writeKeys(b); err != nil {
		return err
	}
	a.closeScripts()
	return nil
}

// planChange reads the images of a change, and appends its statements or records its keys.
func (a *applier) planChange(b *binlog.ChangeBatch, c *binlog.Change) error {
	rows, table := &b.Tables[c.Table], &a.tables[c.Table]
	if c.Before >= 0 {
		if _, err := rows.Row(c.Before, &a.before); err != nil {
			return err
		}
	}
	if c.After >= 0 {
		if err := a.readAfter(rows, c.After); err != nil {
			return err
		}
		if table.owned != nil {
			if err := table.owned.Check(a.after); err != nil {
				return err
			}
		}
	}
	if a.tracker != nil {
		a.tracker.record(c, a.before, a.after)
	}
	switch {
	case c.Kind == binlog.Cascaded:
		a.cascade(c)
	case table.loose:
		a.recordKeys(c)
	default:
		a.strict(c)
	}
	return nil
}

// closeScripts completes the last statement of each script.
func (a *applier) closeScripts() {
	for w := range a.writers {
		for t := range a.tables {
			s := a.script(w, t)
			a.flush(s, t)
			a.closeStatement(s, t)
		}
	}
}

// readAfter reads the image to be written.
func (a *applier) readAfter(rows *rowstream.Batch, at int) error {
	next, err := rows.Row(at, &a.after)
	a.image, a.size = at, next-at
	return err
}

// strict appends a change in order.
func (a *applier) strict(c *binlog.Change) {
	t := int(c.Table)
	s := a.script(t%a.writers, t)
	sql := a.tables[t].sql
	if c.Before >= 0 && (c.After < 0 || !a.sameKey(sql)) {
		a.flush(s, t)
		a.appendKey(s, t, a.before)
	}
	switch {
	case c.After < 0:
	case len(a.tables[t].displaced) > 0:
		a.insert(s, t)
	default:
		a.appendRow(s, t, a.after)
	}
}

// cascade appends the action of a foreign key on its table, in order among the changes of that table. It does
// not depend on rows of the parent table.
func (a *applier) cascade(c *binlog.Change) {
	t := int(c.Table)
	s := a.script(t%a.writers, t)
	first := a.openStatement(s, t, cascadeRows, c.Cascade)
	s.text = a.tables[t].cascades[c.Cascade].AppendKey(s.text, a.before, first)
	s.countRow()
}

// sameKey reports whether both images have the same key, byte for byte.
func (a *applier) sameKey(sql *rowstream.RowSQL) bool {
	from := len(a.bytes)
	a.bytes = sql.AppendKeyBytes(a.bytes, a.before)
	middle := len(a.bytes)
	a.bytes = sql.AppendKeyBytes(a.bytes, a.after)
	same := string(a.bytes[from:middle]) == string(a.bytes[middle:])
	a.bytes = a.bytes[:from]
	return same
}

// recordKeys records the effect of a change on its keys.
func (a *applier) recordKeys(c *binlog.Change) {
	if c.Before >= 0 { // an update of the same row finds this entry again below
		e := a.entry(c.Table, a.before)
		e.deleted, e.image = true, c.Before
	}
	if c.After >= 0 {
		e := a.entry(c.Table, a.after)
		e.deleted, e.image = false, c.After
	}
}

// entry returns the entry of a key, adding it if it is missing.
func (a *applier) entry(table int32, row mysqlwire.TextRow) *keyEntry {
	if 2*len(a.keys) >= len(a.slots) {
		a.rehash()
	}
	from := len(a.bytes)
	a.bytes = a.tables[table].sql.AppendKeyBytes(a.bytes, row)
	key := a.bytes[from:]
	hash := maphash.Bytes(a.seed, key) + uint64(table)*0x9e3779b97f4a7c15
	mask := uint64(len(a.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		n := a.slots[at]
		if n == 0 {
			a.keys = append(a.keys, keyEntry{hash: hash, table: table, from: int32(from), to: int32(len(a.bytes))})
			a.slots[at] = int32(len(a.keys))
			return &a.keys[len(a.keys)-1]
		}
		if e := &a.keys[n-1]; e.hash == hash && e.table == table && string(a.bytes[e.from:e.to]) == string(key) {
			a.bytes = a.bytes[:from]
			return e
		}
	}
}

// rehash doubles the capacity for keys.
func (a *applier) rehash() {
	a.slots = make([]int32, max(1024, 2*len(a.slots)))
	mask := uint64(len(a.slots) - 1)
	for i := range a.keys {
		at := a.keys[i].hash & mask
		for a.slots[at] != 0 {
			at = (at + 1) & mask
		}
		a.slots[at] = int32(i + 1)
	}
}

// writeKeys writes the statements for the recorded keys: first the deletions, then the rows. Before rows that are inserted, their keys are
// deleted too.
func (a *applier) writeKeys(b *binlog.ChangeBatch) error {
	for _, deleted := range [...]bool{true, false} {
		for i := range a.keys {
			e := &a.keys[i]
			t := int(e.table)
			displaces := deleted && len(a.tables[t].displaced) > 0
			if e.deleted != deleted && !displaces {
				continue
			}
			if err := a.readAfter(&b.Tables[t], e.image); err != nil {
				return err
			}
			s := a.script(int(rowstream.ShardKey(a.bytes[e.from:e.to]))%a.writers, t)
			if deleted {
				a.appendKey(s, t, a.after)
			} else {
				a.appendRow(s, t, a.after)
			}
		}
	}
	return nil
}

// appendRow appends a row to the open REPLACE, or to a new one.
func (a *applier) appendRow(s *script, t int, row mysqlwire.TextRow) {
	first := a.openStatement(s, t, replaceRows, 0)
	if typed := a.tables[t].typed; typed != nil {
		s.typed = typed.AppendKey(s.typed, row, first)
	}
	if a.size >= streamedRow {
		last := &s.statements[len(s.statements)-1]
		last.wide, last.image = true, a.image
		s.countRow()
		a.closeStatement(s, t)
		return
	}
	if a.size > sharedRow {
		s.text = slices.Grow(s.text, rowstream.LiteralSize(row))
	}
	s.text = a.tables[t].sql.AppendRow(s.text, row, first)
	s.countRow()
}

// appendKey appends a row's key to the open DELETE, or to a new one.
func (a *applier) appendKey(s *script, t int, row mysqlwire.TextRow) {
	first := a.openStatement(s, t, deleteRows, 0)
	s.text = a.tables[t].sql.AppendKey(s.text, row, first)
	s.countRow()
}

// openStatement opens a statement, unless the open one is of the kind and has room for another row.
func (a *applier) openStatement(s *script, t int, kind stmtKind, cascade uint8) (first bool) {
	if s.open {
		last := &s.statements[len(s.statements)-1]
		if last.kind == kind && last.cascade == cascade && last.to-last.from < applyBytes && !(kind == replaceRows && a.size > sharedRow) && (kind == replaceRows && a.tables[t].typed == nil || last.rows < applyKeys) {
			return false
		}
		a.closeStatement(s, t)
	}
	s.statements = append(s.statements, statement{from: len(s.text), kind: kind, cascade: cascade})
	s.open = true
	switch kind {
	case replaceRows:
		s.text = a.tables[t].sql.AppendReplaceHead(s.text)
	case deleteRows:
		s.text = a.tables[t].sql.AppendDeleteHead(s.text)
	case cascadeRows:
		s.text = a.tables[t].cascades[cascade].AppendDeleteHead(s.text)
	}
	return true
}

// closeStatement closes the open statement.
func (a *applier) closeStatement(s *script, t int) {
	if !s.open {
		return
	}
	last := &s.statements[len(s.statements)-1]
	switch last.kind {
	case deleteRows:
		s.text = a.tables[t].sql.AppendDeleteTail(s.text)
	case cascadeRows:
		s.text = a.tables[t].cascades[last.cascade].AppendDeleteTail(s.text)
	}
	last.to = len(s.text)
	s.open = false
	if typed := a.tables[t].typed; typed != nil && last.kind == replaceRows {
		from, rows := last.to, last.rows
		s.text = typed.AppendDeleteTail(append(typed.AppendDeleteHead(s.text), s.typed...))
		s.statements = append(s.statements, statement{from: from, to: len(s.text), rows: rows, kind: typedRows})
		s.typed = s.typed[:0]
	}
}

// countRow counts another row of the open statement.
func (s *script) countRow() {
	last := &s.statements[len(s.statements)-1]
	last.rows++
	last.to = len(s.text)
}
