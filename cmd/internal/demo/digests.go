package demo

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// maxDigests bounds the table; further statements are counted together as otherID. A digest occupies some 10
// KiB, nearly all of it its histogram.
const maxDigests = 256

// otherID represents the digests without a separate row.
const otherID = "other"

// A digestRow is the state of one digest.
type digestRow struct {
	id     string // the digest, or a command's name in parentheses
	text   string
	calls  uint64
	rows   uint64 // returned and affected
	errors uint64
	times  stmtstats.Histogram

	shown uint64 // calls at the previous snapshot, for the rate
}

// A digestTable aggregates the records of the query log. It is safe for concurrent use.
type digestTable struct {
	mu      sync.Mutex
	rows    map[string]*digestRow // under mu, as all below
	all     stmtstats.Histogram
	errors  uint64
	dropped uint64
	seen    uint64 // statement records, including dropped ones
}

func newDigestTable() *digestTable { return &digestTable{rows: make(map[string]*digestRow)} }

// add counts one record.
func (t *digestTable) add(r *logRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r.Kind {
	case kindDropped:
		t.dropped += r.Records
		t.seen += r.Records
	case kindStatement:
		t.seen++
		t.all.Record(r.Total)
		row := t.row(r)
		row.calls++
		row.rows += r.RowsReturned + r.RowsAffected
		row.times.Record(r.Total)
		if r.ErrorNumber != 0 {
			row.errors++
			t.errors++
		}
	}
}

// row finds or creates the row of r. The caller holds mu.
func (t *digestTable) row(r *logRecord) *digestRow {
	id := cmp.Or(r.Digest, r.text())
	if row, ok := t.rows[id]; ok {
		return row
	}
	text := r.text()
	if len(t.rows) >= maxDigests {
		id, text = otherID, "(all further digests)"
		if row, ok := t.rows[id]; ok {
			return row
		}
	}
	row := &digestRow{id: id, text: strings.Clone(text)}
	t.rows[id] = row
	return row
}

// count returns the number of statements in the stream, including dropped ones.
func (t *digestTable) count() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// A snapshot is the table at one time, heaviest digest first.
type snapshot struct {
	digests    []digestView
	calls      uint64
	errors     uint64
	dropped    uint64
	p50, p99   time.Duration
	statements float64 // per second, since the previous snapshot
}

// A digestView is one row of a snapshot.
type digestView struct {
	id, text    string
	calls       uint64
	rows        uint64
	errors      uint64
	p50, p99    time.Duration
	share       float64 // fraction of the time of all statements, 0 to 1
	perSecond   float64 // since the previous snapshot
	firstToLast float64 // calls per second over the whole run
}

// snapshot reads the table; since is the time since the previous snapshot, elapsed the time of the whole run.
func (t *digestTable) snapshot(since, elapsed time.Duration) snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := snapshot{
		calls: t.all.Count(), errors: t.errors, dropped: t.dropped,
		p50: t.all.Quantile(0.5), p99: t.all.Quantile(0.99),
	}
	for _, row := range t.rows {
		v := digestView{
			id: row.id, text: row.text, calls: row.calls, rows: row.rows, errors: row.errors,
			p50: row.times.Quantile(0.5), p99: row.times.Quantile(0.99),
			perSecond: perSecond(row.calls-row.shown, since), firstToLast: perSecond(row.calls, elapsed),
		}
		if total := t.all.Sum(); total > 0 {
			v.share = row.times.Sum() / total
		}
		row.shown = row.calls
		s.statements += v.perSecond
		s.digests = append(s.digests, v)
	}
	slices.SortFunc(s.digests, func(a, b digestView) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.id, b.id))
	})
	return s
}

func perSecond(n uint64, in time.Duration) float64 {
	if in <= 0 {
		return 0
	}
	return float64(n) / in.Seconds()
}
