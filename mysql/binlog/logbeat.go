package binlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// HeartbeatTable is the name of the table that heartbeats are written to, in each followed schema.
const HeartbeatTable = "_tare_heartbeat"

// A mark is the last heartbeat before a position. Its token is random, so that it proves that a log is the
// one that was read. File names and GTIDs do not: both restart after RESET MASTER.
type mark struct {
	token  string
	file   string // start of the heartbeat's transaction
	offset uint64

	// gtid is on MySQL that of the transaction; on MariaDB that of the previous one in its domain, or that of
	// the transaction after firstMark if there is none. Empty: the log is read by file and offset.
	gtid string
}

const firstMark = "!"

func (m *mark) String() string {
	if m.token == "" {
		return ""
	}
	return m.token + "/" + strconv.FormatUint(m.offset, 10) + "/" + m.gtid + "/" + m.file
}

func parseMark(text string) (m mark, err error) {
	if text == "" {
		return m, nil
	}
	fields := strings.SplitN(text, "/", 4)
	if len(fields) != 4 || fields[0] == "" {
		return m, fmt.Errorf("heartbeat %q of a position is not of the form token/offset/gtid/file", text)
	}
	m = mark{token: fields[0], gtid: fields[2], file: fields[3]}
	m.offset, err = strconv.ParseUint(fields[1], 10, 64)
	return m, err
}

// A beatLog recognizes heartbeats in the log.
type beatLog struct {
	prefix  []byte         // of the run's tokens; empty: none are recognized
	schemas []string       // each has one row
	tables  map[uint64]int // table ids of heartbeat tables: the index of the schema, or -1

	seen   []uint64 // by schema: number of the last committed heartbeat
	number uint64   // the minimum of seen

	open       bool // the current group has one
	openSchema int
	openNumber uint64

	mark mark // the last one of the first schema

	// After a lost connection the log is read again from the mark: groups that were read before are skipped.
	replays  bool
	skipping bool   // the current group
	await    string // token that must be seen before any new group; empty: it was seen
}

const (
	tokenMark   = "beat:"
	tokenDigits = 16
)

// heartbeatToken returns the token of a run's heartbeat with a number.
func heartbeatToken(run string, number uint64) string {
	return fmt.Sprintf("%s%s:%0*x", tokenMark, run, tokenDigits, number)
}

func (b *beatLog) start(run string, schemas []string) {
	b.schemas, b.seen, b.tables = schemas, make([]uint64, len(schemas)), make(map[uint64]int)
	if run != "" {
		b.prefix = []byte(tokenMark + run + ":")
	}
}

// tableMap records whether a table that is not followed is a heartbeat table.
func (b *beatLog) tableMap(id uint64, schema, name []byte) {
	if string(name) != HeartbeatTable {
		delete(b.tables, id)
		return
	}
	b.tables[id] = slices.IndexFunc(b.schemas, func(s string) bool { return strings.EqualFold(s, string(schema)) })
}

// beatRows processes the rows of a heartbeat table, as they are after their change.
func (r *logReader) beatRows(schema int, rest []byte, kind ChangeKind, compressed bool) error {
	b := &r.beats
	if compressed {
		var rows rowsEvent
		m := tableMap{columns: make([]logColumn, heartbeatColumns)}
		err := rows.decode(kind, rest, &m)
		if err == nil {
			rest, err = r.inflate.inflate(rows.rows)
		}
		if err != nil {
			return r.unknown("a heartbeat", err)
		}
	}
	if b.await != "" && bytes.Contains(rest, []byte(b.await)) {
		b.await = ""
	}
	at := bytes.LastIndex(rest, b.prefix)
	if len(b.prefix) == 0 || at < 0 || schema < 0 || b.skipping {
		return nil
	}
	digits := rest[at+len(b.prefix):]
	var number [tokenDigits / 2]byte
	if len(digits) < tokenDigits {
		return r.unknown("a heartbeat", errShortEvent)
	}
	if _, err := hex.Decode(number[:], digits[:tokenDigits]); err != nil {
		return r.unknown("a heartbeat", err)
	}
	b.open, b.openSchema, b.openNumber = true, schema, binary.BigEndian.Uint64(number[:])
	return nil
}

// committed records the heartbeat of the group that ends. The position is the group's start.
func (b *beatLog) committed(file string, offset uint64, group *pendingGTID, before *gtids) {
	b.open = false
	b.seen[b.openSchema] = max(b.seen[b.openSchema], b.openNumber)
	b.number = slices.Min(b.seen)
	if b.openSchema != 0 {
		return
	}
	b.mark = mark{token: string(b.prefix) + fmt.Sprintf("%0*x", tokenDigits, b.openNumber), file: file, offset: offset}
	switch group.mode {
	case mariaGTIDs:
		if before.mode != mariaGTIDs {
			break
		}
		if b.mark.gtid = before.domain(group.maria.domain); b.mark.gtid == "" {
			one := gtids{maria: []mariaGTID{group.maria}, mode: mariaGTIDs}
			b.mark.gtid = firstMark + one.String()
		}
	case mysqlGTIDs:
		var one gtids
		one.addMySQL(group.source, group.number)
		b.mark.gtid = one.String()
	}
}

// domain returns the last transaction of a domain, empty if there is none.
func (g *gtids) domain(domain uint32) string {
	for _, t := range g.maria {
		if t.domain == domain {
			one := gtids{maria: []mariaGTID{t}, mode: mariaGTIDs}
			return one.String()
		}
	}
	return ""
}

// contains reports whether a group is before the position.
func (g *gtids) contains(p *pendingGTID) bool {
	switch {
	case g.mode == mariaGTIDs && p.mode == mariaGTIDs:
		return slices.ContainsFunc(g.maria, func(t mariaGTID) bool { return t.domain == p.maria.domain && t.sequence >= p.maria.sequence })
	case g.mode == mysqlGTIDs && p.mode == mysqlGTIDs:
		i, ok := slices.BinarySearchFunc(g.mysql, p.source, func(a sourceIDs, s gtidSource) int { return compareSources(a.gtidSource, s) })
		return ok && slices.ContainsFunc(g.mysql[i].spans, func(s idSpan) bool { return s.first <= p.number && p.number < s.end })
	}
	return false
}

// replayFrom returns the position from which the log is read after a lost connection: the last heartbeat, so
// that the log proves to be the same, otherwise the current position.
func (r *logReader) replayFrom() (Position, gtids, error) {
	at, m := r.position(), &r.beats.mark
	if m.token == "" {
		return at, r.gtids, nil
	}
	from := Position{File: m.file, Offset: m.offset}
	known, err := parseGTIDs(at.GTID)
	if err != nil || m.gtid == "" {
		return from, gtids{}, err
	}
	switch known.mode {
	case mariaGTIDs:
		own, first := strings.CutPrefix(m.gtid, firstMark)
		before, err := parseGTIDs(own)
		if err != nil || len(before.maria) != 1 {
			return at, known, errors.Join(err, errMariaGTID)
		}
		if t := before.maria[0]; first {
			known.maria = slices.DeleteFunc(known.maria, func(k mariaGTID) bool { return k.domain == t.domain })
		} else {
			known.addMaria(t)
		}
	case mysqlGTIDs:
		own, err := parseGTIDs(m.gtid)
		if err != nil {
			return at, known, err
		}
		for _, s := range own.mysql {
			known.remove(s.gtidSource, s.spans[0].first)
		}
	}
	from.GTID = known.String()
	return from, known, nil
}

// remove removes a transaction from the set.
func (g *gtids) remove(s gtidSource, number uint64) {
	for i := range g.mysql {
		ids := &g.mysql[i]
		if ids.gtidSource != s {
			continue
		}
		var spans []idSpan
		for _, span := range ids.spans {
			if number < span.first || number >= span.end {
				spans = append(spans, span)
				continue
			}
			if span.first < number {
				spans = append(spans, idSpan{span.first, number})
			}
			if number+1 < span.end {
				spans = append(spans, idSpan{number + 1, span.end})
			}
		}
		ids.spans = spans
	}
	g.mysql = slices.DeleteFunc(g.mysql, func(ids sourceIDs) bool { return len(ids.spans) == 0 })
}

// replay prepares reading again from the mark.
func (r *logReader) replay() {
	b := &r.beats
	b.open, b.skipping = false, false
	clear(b.tables)
	b.replays, b.await = b.mark.token != "", b.mark.token
	if b.replays {
		r.file, r.offset = b.mark.file, b.mark.offset
	}
}

// isReplay reports whether an event belongs to a group that was read before the connection was lost. The first
// one that does not ends the replay: by then the mark must have been seen.
func (r *logReader) isReplay(e *event) (bool, error) {
	b := &r.beats
	if !e.kind.matters() {
		return true, nil
	}
	if r.gtids.mode == noGTID {
		b.skipping = (Position{File: r.file, Offset: r.offset}).Compare(Position{File: r.uptoFile, Offset: r.uptoOffset}) <= 0
	} else if e.kind.startsGroup() {
		if err := r.gtid(e); err != nil {
			return false, err
		}
		b.skipping = r.gtids.contains(&r.pending)
		r.open, r.single, r.pending = false, false, pendingGTID{}
	}
	if b.skipping {
		return true, r.checkSkipped(e)
	}
	b.replays = false
	return false, r.proveMark()
}

// proveMark returns an error if the log does not have the last heartbeat at its position.
func (r *logReader) proveMark() error {
	if r.beats.await == "" {
		return nil
	}
	return r.stop(StopLogGone, "", "the log does not have the last heartbeat that was read: it was started again (RESET MASTER), or is another server's",
		"copy the tables again (option restart)", nil)
}

// checkSkipped checks a skipped group for the mark.
func (r *logReader) checkSkipped(e *event) error {
	if kind, version, compressed, ok := e.kind.isRows(); ok {
		id, rest, err := splitRows(e.body, version)
		if err != nil {
			return r.unknown("rows", err)
		}
		if schema, ok := r.beats.tables[id]; ok {
			return r.beatRows(schema, rest, kind, compressed)
		}
		return nil
	}
	switch e.kind {
	case eventTableMap:
		id, schema, name, _, err := splitTableMap(e.body)
		if err != nil {
			return r.unknown("a table map", err)
		}
		r.beats.tableMap(id, schema, name)
	case eventPayload:
		return r.payload(e)
	}
	return nil
}

// matters reports whether an event is part of a group.
func (t eventType) matters() bool {
	_, _, _, rows := t.isRows()
	switch t {
	case eventQuery, eventQueryCompressed, eventXID, eventTableMap, eventExecuteLoad, eventXAPrepare, eventPayload, eventPartialUpdate, eventIncident:
		return true
	}
	return rows || t.startsGroup()
}

// startsGroup reports whether an event is the first of a group.
func (t eventType) startsGroup() bool {
	switch t {
	case eventMariaGTID, eventGTID, eventAnonymousGTID, eventTaggedGTID:
		return true
	}
	return false
}
