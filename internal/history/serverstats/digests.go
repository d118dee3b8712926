package serverstats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	mysqlsession "github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

const (
	readEvery = time.Minute
	firstRead = 5 * time.Second

	// recentSeconds is the age of the last call of the rows that are read: two readings and a half, in the server's time.
	recentSeconds = 150

	maxRows       = 1000 // of one reading
	maxTexts      = 200  // read in one reading
	keptRows      = 4096 // of the server whose counters are kept
	maxStatements = 512  // with intervals
	maxIntervals  = 20   // of one statement
)

// Counts are the counts of the calls of a statement at the server.
type Counts struct {
	Calls           uint64
	Time            uint64 // nanoseconds, as the next
	LockTime        uint64
	RowsExamined    uint64
	RowsSent        uint64
	RowsAffected    uint64
	TempTables      uint64
	TempDiskTables  uint64
	SortMergePasses uint64
	NoIndex         uint64 // calls that read a table without an index
}

// fields returns pointers to the counts in the order of columns.
func (c *Counts) fields() [10]*uint64 {
	return [...]*uint64{
		&c.Calls, &c.Time, &c.LockTime, &c.RowsExamined, &c.RowsSent, &c.RowsAffected, &c.TempTables, &c.TempDiskTables, &c.SortMergePasses, &c.NoIndex,
	}
}

const columns = "COUNT_STAR, SUM_TIMER_WAIT DIV 1000, SUM_LOCK_TIME DIV 1000, SUM_ROWS_EXAMINED, SUM_ROWS_SENT, SUM_ROWS_AFFECTED, " +
	"SUM_CREATED_TMP_TABLES, SUM_CREATED_TMP_DISK_TABLES, SUM_SORT_MERGE_PASSES, SUM_NO_INDEX_USED"

// Add adds other to c.
func (c *Counts) Add(other *Counts) {
	from := other.fields()
	for i, to := range c.fields() {
		*to += *from[i]
	}
}

// since returns the difference between two readings, and false if a counter has decreased.
func (c *Counts) since(before *Counts) (Counts, bool) {
	d := *c
	from := before.fields()
	for i, to := range d.fields() {
		if *to < *from[i] {
			return Counts{}, false
		}
		*to -= *from[i]
	}
	return d, true
}

// An Interval has the counts of the calls between two readings.
type Interval struct {
	From, To time.Time
	Counts   Counts
}

// A Statement has the counts of a statement at the server.
type Statement struct {
	Intervals []Interval // with calls, the oldest first
	Reset     time.Time  // when its counters were seen to be reset; zero: never
}

// A rowID identifies a row of the server. The digest is the server's.
type rowID struct{ schema, digest string }

// A row is a row of the server with its last counters.
type row struct {
	known  bool // the text was read
	called bool // it counts calls, of the statements with key if joined
	joined bool
	key    key
	digest sqldigest.Digest // of one of the statements; zero: unknown
	last   Counts
	at     time.Time // of last; zero: none
	fresh  Counts    // difference to the reading before last; not yet part of an interval
	from   time.Time // start of fresh; zero: there is none
	reset  bool      // a counter has decreased
}

// digests are the counts of all statements.
type digests struct {
	rows       map[rowID]*row
	statements map[key]*Statement
	read       time.Time // of the last reading; zero: none
	server     time.Time // the same by the server's clock
	cut        bool      // it did not have all rows
	addr       string    // of the server

	other  Counts // last counters of the row of all digests that the table had no room for
	isFull bool
}

func newDigests() digests {
	return digests{rows: make(map[rowID]*row), statements: make(map[key]*Statement)}
}

// A reading is the content of the server's table.
type reading struct {
	at     time.Time
	server time.Time
	addr   string
	rows   []readRow
	other  *Counts // of the row without digest; nil: none
	cut    bool    // there are more rows
}

type readRow struct {
	id     rowID
	first  time.Time
	counts Counts
}

// readDigests reads the rows that were called recently, those with the most time first.
func readDigests(ctx context.Context, conn *mysqlconn.Client, addr string, at time.Time) (*reading, error) {
	r := &reading{at: at, addr: addr}
	var now float64
	if err := queryRow(ctx, conn, "SELECT UNIX_TIMESTAMP(NOW(6))", &now); err != nil {
		return nil, fmt.Errorf("read time: %w", err)
	}
	r.server = unixTime(now)
	err := query(ctx, conn, fmt.Sprintf("SELECT SCHEMA_NAME, DIGEST, UNIX_TIMESTAMP(FIRST_SEEN), %s FROM performance_schema.events_statements_summary_by_digest"+
		" WHERE DIGEST IS NULL OR LAST_SEEN >= NOW() - INTERVAL %d SECOND ORDER BY SUM_TIMER_WAIT DESC LIMIT %d", columns, recentSeconds, maxRows+1), func(row mysqlwire.TextRow) error {
		var id rowID
		var first float64
		var c Counts
		to := []any{&id.schema, &id.digest, &first}
		for _, f := range c.fields() {
			to = append(to, f)
		}
		if err := scan(row, to...); err != nil {
			return err
		}
		switch {
		case row[1] == nil:
			r.other = &c
		case len(r.rows) == maxRows:
			r.cut = true
		default:
			r.rows = append(r.rows, readRow{id, unixTime(first), c})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read digests: %w", err)
	}
	return r, nil
}

func unixTime(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }

// update takes over a reading. It returns the digests whose texts are unknown, and the calls that the server counted
// without a digest since the last reading.
func (d *digests) update(r *reading) (unknown []string, uncounted uint64) {
	if d.addr != r.addr { // another server: nothing can be compared
		*d = newDigests()
		d.addr = r.addr
	}
	if r.other != nil {
		if delta, ok := r.other.since(&d.other); ok && d.isFull {
			uncounted = delta.Calls
		}
		d.other, d.isFull = *r.other, true
	} else {
		d.other, d.isFull = Counts{}, false
	}
	for i := range r.rows {
		read := &r.rows[i]
		known := d.rows[read.id]
		if known == nil {
			known = &row{}
			d.rows[read.id] = known
			// It was created since the last reading, which did not have it. MariaDB's times are whole seconds.
			if !d.read.IsZero() && !d.cut && !read.first.Before(d.server.Truncate(time.Second)) {
				known.at = d.read
			}
		}
		known.observe(&read.counts, d.read, r.at)
		if !known.known {
			unknown = append(unknown, read.id.digest)
		}
	}
	d.read, d.server, d.cut = r.at, r.server, r.cut
	d.evictRows()
	return unknown, uncounted
}

// observe compares the counters of a row with those of the reading before.
func (k *row) observe(c *Counts, before, at time.Time) {
	if k.at.IsZero() {
		k.last, k.at = *c, at
		return
	}
	if delta, ok := c.since(&k.last); ok {
		if k.fresh.Add(&delta); k.from.IsZero() {
			k.from = cmp.Or(before, k.at)
		}
	} else {
		k.fresh, k.from, k.reset = Counts{}, time.Time{}, true
	}
	k.last, k.at = *c, at
}

// join adds the differences of rows with known texts to the intervals of their statements.
func (d *digests) join() {
	resets := make(map[key]bool)
	for _, k := range d.rows {
		if !k.known {
			continue
		}
		if k.joined && k.reset {
			resets[k.key] = true
		}
		k.reset = false
	}
	for k := range resets {
		d.statements[k] = &Statement{Reset: d.read}
	}
	for _, k := range d.rows {
		if !k.known || k.from.IsZero() {
			continue
		}
		if k.joined && k.fresh.Calls > 0 {
			d.add(k.key, Interval{From: k.from, To: k.at, Counts: k.fresh})
		}
		k.fresh, k.from = Counts{}, time.Time{}
	}
	d.evictStatements()
}

// add adds counts to the last interval of a statement if that is of the same reading.
func (d *digests) add(k key, i Interval) {
	s := d.statements[k]
	if s == nil {
		s = &Statement{}
		d.statements[k] = s
	}
	if n := len(s.Intervals); n > 0 && s.Intervals[n-1].To.Equal(i.To) {
		s.Intervals[n-1].Counts.Add(&i.Counts)
		if i.From.Before(s.Intervals[n-1].From) {
			s.Intervals[n-1].From = i.From
		}
		return
	}
	if len(s.Intervals) == maxIntervals {
		s.Intervals = slices.Delete(s.Intervals, 0, 1)
	}
	s.Intervals = append(s.Intervals, i)
}

// evictRows removes the rows that were read the longest time ago.
func (d *digests) evictRows() {
	if len(d.rows) <= keptRows {
		return
	}
	ids := make([]rowID, 0, len(d.rows))
	for id := range d.rows {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b rowID) int { return d.rows[a].at.Compare(d.rows[b].at) })
	for _, id := range ids[:len(ids)-keptRows] {
		delete(d.rows, id)
	}
}

// evictStatements removes the statements with the least time in their last interval, those without a recent call first.
func (d *digests) evictStatements() {
	if len(d.statements) <= maxStatements {
		return
	}
	all := make([]key, 0, len(d.statements))
	for k := range d.statements {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b key) int {
		x, y := d.statements[a].last(), d.statements[b].last()
		return cmp.Or(x.To.Compare(y.To), cmp.Compare(x.Counts.Time, y.Counts.Time))
	})
	for _, k := range all[:len(all)-maxStatements] {
		delete(d.statements, k)
	}
}

func (s *Statement) last() Interval {
	if len(s.Intervals) == 0 {
		return Interval{}
	}
	return s.Intervals[len(s.Intervals)-1]
}

// texts are the texts of a server's rows, by the server's digest.
type texts map[string]struct{ sample, normalized string }

// readTexts reads the texts of rows.
func readTexts(ctx context.Context, conn *mysqlconn.Client, server sqldigest.ServerKind, wanted []string) (texts, error) {
	all := make(texts)
	if len(wanted) == 0 {
		return all, nil
	}
	sample := "QUERY_SAMPLE_TEXT"
	if server == sqldigest.ServerMariaDB {
		sample = "NULL"
	}
	digests := make([]string, len(wanted))
	for i, digest := range wanted {
		digests[i] = mysqlsession.Quote(digest)
	}
	read := func(sample string) error {
		return query(ctx, conn, "SELECT DIGEST, "+sample+", DIGEST_TEXT FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST IN ("+
			strings.Join(digests, ", ")+")", func(row mysqlwire.TextRow) error {
			var digest string
			var t struct{ sample, normalized string }
			err := scan(row, &digest, &t.sample, &t.normalized)
			all[digest] = t
			return err
		})
	}
	err := read(sample)
	if ErrorNumber(err) == unknownColumn { // MySQL before 8.0
		err = read("NULL")
	}
	if err != nil {
		return nil, fmt.Errorf("read texts of digests: %w", err)
	}
	return all, nil
}

const unknownColumn = 1054

// resolve sets the keys of the rows with the texts. Rows without a text stay unknown.
func (d *digests) resolve(t texts, mode sqldigest.Mode, l limits) {
	var digester sqldigest.Digester
	for id, k := range d.rows {
		text, ok := t[id.digest]
		if !ok || k.known {
			continue
		}
		k.known = true
		k.key, k.digest, k.called, k.joined = keyOfRow(&digester, mode, text.sample, text.normalized, l)
	}
}

// keyOf returns the key of the statement with a digest.
func (d *digests) keyOf(digest sqldigest.Digest) key {
	for _, k := range d.rows {
		if k.joined && k.digest == digest && digest != (sqldigest.Digest{}) {
			return k.key
		}
	}
	return key{}
}

// coverage returns the rows called since the reading before the last, and those of them that belong to no statement.
func (d *digests) coverage() (rows, unjoined int) {
	for _, k := range d.rows {
		if !k.at.Equal(d.read) {
			continue
		}
		rows++
		if k.known && k.called && !k.joined {
			unjoined++
		}
	}
	return rows, unjoined
}

// heapBytes returns the bytes charged for rows and statements.
func (d *digests) heapBytes() int64 {
	n := int64(len(d.rows)) * 416 // with the strings of its key, 64 and up to 64 bytes
	for _, s := range d.statements {
		n += 100 + int64(cap(s.Intervals))*144
	}
	return n
}
