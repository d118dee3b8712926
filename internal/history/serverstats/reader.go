package serverstats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/internal/quantity"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
)

// Options configures a Reader.
type Options struct {
	Login func() mysqlconn.Config // how to log in to the server that clients currently use
	Now   func() time.Time        // nil: the system's
	Log   *slog.Logger

	// Slow returns the number of sessions whose statement takes unusually long; nil: locks are not read.
	Slow func() int

	// Locked is called with each new wait for locks; may be nil.
	Locked func(LockWait)

	// ClientOf returns the address of the gateway's client with a connection to the server; may be nil.
	ClientOf func(connection uint32) (string, bool)

	// TablesOf returns the tables of a normalized text, as schema.table; required with Slow.
	TablesOf func(text, schema string) []string
}

// A Reader reads from the server. It is safe for concurrent use.
type Reader struct {
	opts     Options
	client   *Client
	requests chan tableRequest

	mu      sync.Mutex
	digests digests // guarded by mu, as all below
	status  Status
	tables  map[string]Table // by schema.table
	counts  map[string]uint64
	seconds float64
	locks   lockWatch

	lockReadings uint64

	pause  time.Duration // after failures; used by Run only, as the next
	resume time.Time
	next   time.Time // of the next reading of digests
}

// A Status describes the last reading of statements.
type Status struct {
	At      time.Time // of the last successful reading; zero: none
	Problem string    // reason for which the counts cannot be read; "" if they can
	Notes   []string  // differences between the server's counts and those of all statements, as sentences
}

// Counted results.
const (
	resultOK          = "ok"
	resultUnavailable = "unavailable" // the server does not count
	resultFailed      = "failed"
)

const maxPause = 5 * time.Minute

// New returns a Reader that is idle before Run.
func New(o Options) (*Reader, error) {
	if o.Log == nil || o.Login == nil || o.Slow != nil && o.TablesOf == nil {
		return nil, errors.New("BUG: serverstats: options without log, login or tables")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reader{
		opts: o, client: NewClient(o.Login), requests: make(chan tableRequest, maxRequests),
		digests: newDigests(), tables: make(map[string]Table), counts: make(map[string]uint64),
	}, nil
}

// Run reads until ctx is done.
func (r *Reader) Run(ctx context.Context) error {
	defer r.client.Close()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	r.next = r.opts.Now().Add(firstRead)
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-r.requests:
			r.serve(ctx, q)
		case <-every.C:
			now := r.opts.Now()
			if r.opts.Slow != nil && r.locks.due(r.opts.Slow(), now) {
				r.readLocks(ctx, now)
			}
			if !now.Before(r.next) {
				r.next = now.Add(readEvery)
				r.readStatements(ctx, now)
			}
		}
	}
}

// readStatements reads the counts of statements unless the server has failed recently.
func (r *Reader) readStatements(ctx context.Context, now time.Time) {
	if now.Before(r.resume) {
		return
	}
	began := time.Now()
	problem, err := r.tryStatements(ctx, now)
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seconds += time.Since(began).Seconds()
	switch {
	case err != nil:
		r.counts[resultFailed]++
		r.pause = min(max(2*r.pause, 10*time.Second), maxPause)
		r.resume = now.Add(r.pause)
		r.report(reason(err))
	case problem != "":
		r.counts[resultUnavailable]++
		r.report(problem)
	default:
		r.counts[resultOK]++
		r.pause = 0
		r.status.Problem = ""
	}
}

// report stores a problem and logs it once. The caller holds mu.
func (r *Reader) report(problem string) {
	if r.status.Problem != problem {
		r.opts.Log.Info("counts of the server unavailable", "reason", problem)
	}
	r.status.Problem = problem
}

// tryStatements reads the counts once.
func (r *Reader) tryStatements(ctx context.Context, now time.Time) (problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*CallTime)
	defer cancel()
	conn, err := r.client.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer r.client.Release()
	problem, notes, err := checkPremises(ctx, conn)
	if err != nil || problem != "" {
		return problem, err
	}
	bounds, err := readLimits(ctx, conn)
	if err != nil {
		return "", err
	}
	read, err := readDigests(ctx, conn, r.client.Addr(), now)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	unknown, uncounted := r.digests.update(read)
	r.mu.Unlock()
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	wanted := unknown[:min(len(unknown), maxTexts)]
	found, err := readTexts(ctx, conn, r.client.Server().Kind, wanted)
	if err != nil {
		return "", err
	}
	mode := sqldigest.Mode(0).WithServer(r.client.Server())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digests.resolve(found, mode, bounds)
	r.digests.join()
	rows, unjoined := r.digests.coverage()
	if unjoined > 0 {
		notes = append(notes, fmt.Sprintf("%s of the server's %s of the last minutes not joined with statements: the text is missing or truncated (performance_schema_max_digest_length).",
			quantity.Of(unjoined, "row"), quantity.Of(rows, "row")))
	}
	if late := len(unknown) - len(wanted); late > 0 {
		notes = append(notes, quantity.Of(late, "row")+" of the server not joined yet: texts are read in the next minutes.")
	}
	if read.cut {
		notes = append(notes, fmt.Sprintf("More than %d statements ran at the server within the last minutes; only those with the most time are read.", maxRows))
	}
	if read.other != nil {
		notes = append(notes, fmt.Sprintf("The server's table of digests is full: it counts all further statements in one row, %s in the last minute (performance_schema_digests_size).",
			quantity.Of(uncounted, "call")))
	}
	if r.client.Server().Kind == sqldigest.ServerMariaDB {
		notes = append(notes, "MariaDB does not count executions of prepared statements by digest.")
	}
	r.status.At, r.status.Notes = now, notes
	return "", nil
}

// Statement returns the counts of the statement with a digest and a normalized text, and false if the server had no recent call
// of it. Without a text, because it is hidden or truncated, a statement is found by its digest, if the server has a whole sample
// of it. The Status is that of the last reading.
func (r *Reader) Statement(digest sqldigest.Digest, normalized string) (Statement, Status, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := keyOf(normalized)
	if normalized == "" {
		k = r.digests.keyOf(digest)
	}
	status := r.status
	status.Notes = slices.Clone(status.Notes)
	s := r.digests.statements[k]
	if s == nil {
		return Statement{}, status, false
	}
	found := *s
	found.Intervals = slices.Clone(found.Intervals)
	return found, status, true
}

// HeapBytes returns the bytes charged for counts and tables.
func (r *Reader) HeapBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.digests.heapBytes()
	for i := range r.locks.waits {
		w := &r.locks.waits[i]
		n += 300 + int64(len(w.Table)+len(w.Holder.User)+len(w.Holder.Client)+len(w.Holder.Text)+16*cap(w.Waiting))
	}
	for name := range r.tables {
		t := r.tables[name]
		n += t.bytes()
	}
	return n
}

var (
	readingsDesc = prometheus.NewDesc("tare_server_readings_total", "Readings of the server's counts: ok, unavailable (it does not count), failed.", []string{"result"}, nil)
	secondsDesc  = prometheus.NewDesc("tare_server_reading_seconds_total", "Time of the readings of the server's counts.", nil, nil)
	locksDesc    = prometheus.NewDesc("tare_server_lock_readings_total", "Readings of the server's lock waits.", nil, nil)
	joinedDesc   = prometheus.NewDesc("tare_server_statements", "Statements for which counts of the server are kept.", nil, nil)
)

// Describe implements prometheus.Collector.
func (r *Reader) Describe(ch chan<- *prometheus.Desc) {
	ch <- readingsDesc
	ch <- secondsDesc
	ch <- locksDesc
	ch <- joinedDesc
}

// Collect implements prometheus.Collector.
func (r *Reader) Collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, result := range []string{resultOK, resultUnavailable, resultFailed} {
		ch <- prometheus.MustNewConstMetric(readingsDesc, prometheus.CounterValue, float64(r.counts[result]), result)
	}
	ch <- prometheus.MustNewConstMetric(secondsDesc, prometheus.CounterValue, r.seconds)
	ch <- prometheus.MustNewConstMetric(locksDesc, prometheus.CounterValue, float64(r.lockReadings))
	ch <- prometheus.MustNewConstMetric(joinedDesc, prometheus.GaugeValue, float64(len(r.digests.statements)))
}
