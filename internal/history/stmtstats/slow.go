package stmtstats

import (
	"hash/crc32"
	"slices"
	"time"
	"unsafe"

	"github.com/taredb/tare/querylog"
)

const (
	// numSlow is the number of slowest calls kept per entry.
	numSlow = 3

	// slowWindow is the age at which a call may be replaced by any other.
	slowWindow = time.Hour

	// slowTextPart is the reciprocal of the fraction of the pages that their texts may use.
	slowTextPart = 32
)

// A slowRef is one of the slowest calls. Its sum detects a kill during a write.
type slowRef struct {
	start, nanos, rows int64
	connection         uint64
	errno              uint16
	_                  uint16
	sum                uint32 // CRC-32C of all fields before it
	text               textRef
	_                  uint32
}

func (s *slowRef) checksum() uint32 {
	b := (*[unsafe.Sizeof(slowRef{})]byte)(unsafe.Pointer(s))
	return crc32.Checksum(b[:unsafe.Offsetof(s.sum)], castagnoli)
}

// learn stores a statement's text, if there is none yet, and the call, if it is one of the slowest. The entry
// may have been reused since the statement was counted.
func (t *Table) learn(e *entry, id uint64, r *querylog.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.state() != gateLive || e.id != id {
		return
	}
	if e.textless.Load() != 0 && len(r.Normalized) != 0 {
		t.learnText(e, r)
	}
	if int64(r.Total) > e.floor.Load() {
		t.learnSlow(e, r)
	}
}

// learnText stores a statement's text, or none if there is no room for it now.
func (t *Table) learnText(e *entry, r *querylog.Record) {
	if len(r.Normalized) == 0 {
		return
	}
	e.textless.Store(0)
	if t.mem.putText(&t.pages, &e.text, r.Normalized, r.NormalizedCut, t.textLimit(len(r.Normalized))) {
		t.longPages += longPages(int(e.text.bytes))
		e.fresh.Store(1)
		e.changed.Store(1)
	}
}

// learnSlow replaces the fastest of the slow calls, or one that is not recent.
func (t *Table) learnSlow(e *entry, r *querylog.Record) {
	start := r.Start.UnixNano()
	recent := start - int64(slowWindow)
	place := &e.slow[0]
	for i := range e.slow {
		if s := &e.slow[i]; s.rank(recent) < place.rank(recent) {
			place = s
		}
	}
	t.dropSlow(place)
	*place = slowRef{
		start: start, nanos: int64(r.Total), rows: int64(max(r.RowsReturned, r.RowsAffected)),
		connection: r.ConnectionID, errno: r.ErrorNumber,
	}
	place.sum = place.checksum()
	if t.opts.Redaction == querylog.RedactNone && t.slowTexts < len(t.mem.pages)/slowTextPart {
		if t.mem.putText(&t.pages, &place.text, r.Text, r.TextBytes > len(r.Text), pageText) {
			t.slowTexts++
		}
	}
	e.refloor(recent)
}

// dropSlow frees the page of a slow call's text.
func (t *Table) dropSlow(s *slowRef) {
	if s.text.page != 0 {
		t.slowTexts--
	}
	t.dropText(&s.text)
}

// rank orders the calls: the lowest is replaced first.
func (s *slowRef) rank(recent int64) int64 {
	if s.start < recent {
		return 0
	}
	return s.nanos
}

// refloor sets floor to the shortest of the calls that started after recent.
func (e *entry) refloor(recent int64) {
	floor := e.slow[0].rank(recent)
	for i := range e.slow {
		floor = min(floor, e.slow[i].rank(recent))
	}
	e.floor.Store(floor)
}

// SlowCalls appends the slowest recent calls of the entry with this ID to dst, the slowest first.
func (t *Table) SlowCalls(dst []SlowCall, id uint64) []SlowCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID(id)
	if e == nil {
		return dst
	}
	first := len(dst)
	recent := t.opts.Now().Add(-slowWindow).UnixNano()
	for i := range e.slow {
		s := &e.slow[i]
		if s.start == 0 || s.start < recent {
			continue
		}
		t.text, _ = t.mem.appendText(t.text[:0], &s.text)
		dst = append(dst, SlowCall{
			Start: at(s.start), Duration: time.Duration(s.nanos), Rows: uint64(s.rows),
			ConnectionID: s.connection, ErrorNumber: s.errno, Text: string(t.text), TextCut: s.text.cut != 0,
		})
	}
	slices.SortFunc(dst[first:], func(a, b SlowCall) int { return int(b.Duration - a.Duration) })
	return dst
}

// Text returns the text of the statements that the entry with this ID counts, "" if there is none.
func (t *Table) Text(id uint64) (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID(id)
	if e == nil {
		return "", false
	}
	return t.textOf(e)
}

func (t *Table) textOf(e *entry) (text string, cut bool) {
	t.text, _ = t.mem.appendText(t.text[:0], &e.text)
	return string(t.text), e.text.cut != 0
}

// byID returns the entry with an ID, or nil. The caller holds the lock.
func (t *Table) byID(id uint64) *entry {
	if t.closed.Load() {
		return nil
	}
	for i := range t.mem.entries {
		if e := &t.mem.entries[i]; e.id == id && e.state() == gateLive {
			return e
		}
	}
	return nil
}
