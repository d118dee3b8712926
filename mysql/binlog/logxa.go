package binlog

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"unsafe"
)

// A preparedXA is an XA transaction in the log. Its rows are committed by another, later group. Until then,
// no later position is returned as one to resume from.
type preparedXA struct {
	at      Position    // before its group
	rows    ChangeBatch // its changes
	size    int         // bytes of rows
	dropped bool        // its rows are not kept: they are read again at its commit

	early  map[uint64]int // tables at whose start its group is not yet, by the ids of their maps
	missed []int          // those of them with changes, which are not in rows
}

// A preparedLog has the XA transactions that are prepared and not committed.
type preparedLog struct {
	open     *preparedXA            // of the current group, if it is an XA transaction; otherwise nil
	prepared map[string]*preparedXA // by identifier
	size     int                    // bytes of rows in them and in open
	most     int                    // the limit of size
}

// missing returns a table with changes in an XA transaction that were not read, because it was prepared before the
// table's start, if the current group, its commit, is after that: then neither the table's rows that were copied
// nor the changes that are read contain them.
func (r *logReader) missing(x *preparedXA) (f *followedTable, ok bool) {
	if x == nil {
		return nil, false
	}
	for _, number := range x.missed {
		if f = &r.tables[number]; !r.before(f) {
			return f, true
		}
	}
	return nil, false
}

// startXA starts an XA transaction. In a reader of one prepared transaction, it is treated as a plain
// transaction.
func (r *logReader) startXA() {
	if r.xas.open != nil || r.scan != nil || r.only != nil {
		return
	}
	r.xas.open = &preparedXA{at: r.position()}
	r.xas.open.rows.Reset(r.columns, 0)
}

// skip records that the rows of a table map in an XA transaction are skipped, because the table's start is later.
func (p *preparedLog) skip(id uint64, table int) {
	if p.open == nil {
		return
	}
	if p.open.early == nil {
		p.open.early = make(map[uint64]int)
	}
	p.open.early[id] = table
}

// miss records that changes of a skipped table map were not read.
func (p *preparedLog) miss(id uint64) {
	if p.open == nil {
		return
	}
	if table, ok := p.open.early[id]; ok && !slices.Contains(p.open.missed, table) {
		p.open.missed = append(p.open.missed, table)
	}
}

// drop discards the current XA transaction.
func (p *preparedLog) drop() {
	if p.open != nil {
		p.size -= p.open.size
		p.open = nil
	}
}

// out returns the batch that changes of the group are appended to.
func (r *logReader) out() *ChangeBatch {
	if r.xas.open != nil {
		return &r.xas.open.rows
	}
	return r.batch
}

// resume returns the position to resume from once all batches are applied: before the oldest prepared XA
// transaction. Changes after it are then returned again.
func (r *logReader) resume() (p Position, held bool) {
	p = r.position()
	for _, x := range r.xas.prepared {
		if !held || x.at.Compare(p) < 0 { // each is before the current position, whose file may be another server's
			p, held = x.at, true
		}
	}
	return p, held
}

// xaPrepare ends the first phase of an XA transaction, or all of it.
//
// Specification: XA_prepare_log_event of both servers.
func (r *logReader) xaPrepare(e *event) error {
	const fixed = 1 + 4 + 4 + 4 // one phase, format, two lengths
	if len(e.body) < fixed {
		return r.unknown("the end of an XA transaction", errShortEvent)
	}
	if e.body[0] != 0 {
		r.commitXA(e, "", r.xas.open)
		return nil
	}
	global, branch := binary.LittleEndian.Uint32(e.body[5:]), binary.LittleEndian.Uint32(e.body[9:])
	data := e.body[fixed:]
	if uint64(global)+uint64(branch) > uint64(len(data)) {
		return r.unknown("the end of an XA transaction", errShortEvent)
	}
	id := hex.EncodeToString(data[:global]) + "," + hex.EncodeToString(data[global:global+branch]) + "," +
		strconv.FormatUint(uint64(binary.LittleEndian.Uint32(e.body[1:])), 10)
	if r.only != nil {
		r.only.found = id == r.only.id
		r.commit(e)
		return nil
	}
	if r.scan == nil {
		r.startXA()
		if r.xas.prepared == nil {
			r.xas.prepared = make(map[string]*preparedXA)
		}
		r.xas.prepared[id] = r.xas.open
	}
	r.close(e)
	return nil
}

// xaEnd processes the second phase of an XA transaction.
func (r *logReader) xaEnd(e *event, s statement) error {
	x, ok := r.xas.prepared[s.name]
	switch {
	case s.kind == statementXARollback || r.scan != nil:
	case !ok && !r.ignored():
		err := r.stop(StopRolledBack, "", fmt.Sprintf("XA transaction %s was prepared before the start position: its rows are unknown", s.name),
			"copy the tables again with option restart, while no XA transaction is prepared (XA RECOVER)", nil)
		return r.stopAt(err, r.redacted())
	default:
		if f, ok := r.missing(x); ok && !r.ignored() {
			err := r.stop(StopRolledBack, f.table.FullName(), fmt.Sprintf("XA transaction %s was prepared before the rows of the table were copied, and is committed after that: its rows are unknown", s.name),
				"copy the table again with option restart, while no XA transaction is prepared (XA RECOVER)", nil)
			return r.stopAt(err, r.redacted())
		}
		r.commitXA(e, s.name, x)
		return nil
	}
	r.xas.forget(s.name, x)
	r.commit(e)
	return nil
}

// commitXA commits the group with the changes of an XA transaction, now or after they were read again.
func (r *logReader) commitXA(e *event, id string, x *preparedXA) {
	if x != nil && x.dropped {
		r.reread = &rereadXA{x: x, id: id, seconds: e.seconds}
		return
	}
	r.batch.merge(x)
	r.xas.forget(id, x)
	r.commit(e)
}

// forget discards a prepared XA transaction; id is empty if it was never prepared.
func (p *preparedLog) forget(id string, x *preparedXA) {
	if x != nil {
		p.size -= x.size
		delete(p.prepared, id)
	}
}

// merge adds an XA transaction's changes; nil: there is none.
func (b *ChangeBatch) merge(x *preparedXA) {
	if x == nil {
		return
	}
	base := make([]int, len(b.Tables))
	for i := range b.Tables {
		t := &b.Tables[i]
		base[i] = len(t.Bytes)
		t.Bytes = append(t.Bytes, x.rows.Tables[i].Bytes...)
		t.Rows += x.rows.Tables[i].Rows
	}
	for _, c := range x.rows.Changes {
		if c.Before >= 0 {
			c.Before += base[c.Table]
		}
		if c.After >= 0 {
			c.After += base[c.Table]
		}
		b.Changes = append(b.Changes, c)
	}
}

// hold counts the rows that an event has added to the current XA transaction. Beyond the limit they are
// dropped.
func (p *preparedLog) hold() {
	size := len(p.open.rows.Changes) * int(unsafe.Sizeof(Change{}))
	for i := range p.open.rows.Tables {
		size += len(p.open.rows.Tables[i].Bytes)
	}
	p.size += size - p.open.size
	p.open.size = size
	if p.size > p.most {
		p.size -= size
		p.open.rows, p.open.size, p.open.dropped = ChangeBatch{}, 0, true
	}
}
