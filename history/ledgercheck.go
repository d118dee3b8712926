package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/store/blocksync"
)

// A ledgerStage is the place from which the samples of a ledger file are read. Each file is compared once per
// stage.
type ledgerStage int

const (
	stageHead   ledgerStage = iota // some are only in the head
	stageBlock                     // all are in blocks
	stageBucket                    // the bucket has these blocks
)

func (s ledgerStage) String() string { return [...]string{"head", "blocks", "bucket"}[s] }

// Times of the check.
const (
	ledgerEvery = time.Hour

	// ledgerUnsettled is the interval while the blocks of the bucket are unknown, or samples move to blocks and
	// to the bucket.
	ledgerUnsettled = 5 * time.Second

	// ledgerAge is how long a file with differences is kept after its range, and counted in the metrics.
	ledgerAge = 24 * time.Hour
)

// checkLedgers compares the ledger with the samples after the start, after the database was reopened, and
// hourly.
func (in *instance) checkLedgers(ctx context.Context) {
	for {
		next := ledgerEvery
		switch err := in.checkLedger(ctx); {
		case err == nil:
		case ctx.Err() != nil:
			return
		case errors.Is(err, blocksync.ErrNotSynced), errors.Is(err, errStageFell):
			next = ledgerUnsettled
		default:
			in.log.Warn("history self-check failed; it is retried", "err", err)
			next = shipEvery
		}
		if wait(ctx, in.recheck, next) != nil {
			return
		}
	}
}

// checkLedger compares each file of the ledger whose stage has changed, or that has lines that were not
// compared yet.
func (in *instance) checkLedger(ctx context.Context) error {
	var errs []error
	for _, start := range in.ledger.list() {
		err := in.checkLedgerFile(ctx, start)
		if errors.Is(err, errStageFell) {
			err = in.checkLedgerFile(ctx, start) // from the current stage
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// errStageFell means that samples moved while they were read: they were compacted, or a block is no longer
// served.
var errStageFell = errors.New("a block is no longer served")

func (in *instance) checkLedgerFile(ctx context.Context, start int64) error {
	settled := in.settled.Load()
	lines, file, err := in.ledger.read(start)
	if err != nil || len(lines) == 0 {
		return err
	}
	first, last := lines[0].since, lines[len(lines)-1].last
	end := start + BlockRange.Milliseconds()
	stage, finished := in.stageOf(first, last, end)
	if stage > file.from {
		file.checked = 0
	}
	if file.checked == 0 {
		file.found = Difference{}
	}
	if stage == stageHead && settled > 0 { // lines of the current round
		for len(lines) > 0 && lines[len(lines)-1].last > settled {
			lines = lines[:len(lines)-1]
		}
	}
	if n := len(lines); file.checked < n {
		ls := lines[file.checked:]
		found, err := in.readLedger(ctx, stage, ls)
		if err != nil {
			return fmt.Errorf("compare rounds of %s with the %s: %w", time.UnixMilli(start).UTC().Format(time.RFC3339), stage, err)
		}
		if now, _ := in.stageOf(first, last, end); now < stage {
			return fmt.Errorf("compare rounds of %s with the %s: %w", time.UnixMilli(start).UTC().Format(time.RFC3339), stage, errStageFell)
		}
		if d := compareLedger(ls, found); d.Samples+d.Calls > 0 {
			in.log.Error("history differs from its ledger", "read_from", stage.String(), "from", d.From, "to", d.To, "samples", d.Samples, "calls", d.Calls)
			file.found.add(d)
		}
		in.ledger.compared.Add(uint64(len(ls)))
		file.checked, file.from = n, stage
		in.ledger.update(start, file)
	}
	expired := in.Now().UnixMilli()-last > ledgerAge.Milliseconds()
	if finished && stage == stageBucket && (file.found.From.IsZero() || expired) {
		in.ledger.remove(start)
	}
	return nil
}

// stageOf returns the stage of the samples of a range. finished reports that no line will be added to a file
// that ends at end.
func (in *instance) stageOf(from, to, end int64) (stage ledgerStage, finished bool) {
	db := in.db.Current()
	if head := db.Head(); head.MinTime() <= to && !(in.past.Load() && head.NumSeries() == 0) {
		return stageHead, false
	}
	finished = in.past.Load() || in.Now().UnixMilli() > end
	for _, m := range db.BlockMetas() {
		if m.MinTime <= to && m.MaxTime > from-stmtseries.Lookback.Milliseconds() && !in.served(m.ULID) {
			return stageBlock, finished
		}
	}
	return stageBucket, finished
}

// A Difference is a range in which the series differ from the ledger.
type Difference struct {
	From, To time.Time
	Samples  uint64
	Calls    uint64 // difference of the increases of tare_queries_total
}

// compareLedger returns the difference between the series and the ledger.
func compareLedger(lines, found []ledgerLine) (d Difference) {
	for i := range lines {
		l, f := &lines[i], &found[i]
		samples, calls := apart(l.samples, f.samples), apart(l.calls, f.calls)
		if samples+calls > 0 {
			d.add(Difference{From: time.UnixMilli(l.began).UTC(), To: time.UnixMilli(l.last).UTC(), Samples: samples, Calls: calls})
		}
	}
	return d
}

// add adds a later Difference.
func (d *Difference) add(o Difference) {
	if o.From.IsZero() {
		return
	}
	if d.From.IsZero() {
		d.From = o.From
	}
	d.To = o.To
	d.Samples += o.Samples
	d.Calls += o.Calls
}

func apart(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// readLedger returns lines with the samples and calls found in the ranges of the given ones.
func (in *instance) readLedger(ctx context.Context, stage ledgerStage, lines []ledgerLine) ([]ledgerLine, error) {
	found := slices.Clone(lines)
	for i := range found {
		found[i].samples, found[i].calls = 0, 0
	}
	var source storage.Queryable = in.queryable
	if stage == stageBucket {
		source = in.queryable.bucket
	}
	// The series' samples before the first line may be as old as PromQL still finds.
	mint, maxt := lines[0].since-stmtseries.Lookback.Milliseconds(), lines[len(lines)-1].last
	if mint < in.db.WholeStart() && in.options.Gateway.Status().LastGood.IsZero() {
		return nil, blocksync.ErrNotSynced
	}
	for i, digests := range digestParts(stage) {
		var names []string
		if i == 0 { // the first part includes series without a digest
			names = tagMetricNames()
		}
		for m := range stmtseries.NumMetrics {
			names = append(names, stmtseries.Metric(m).String())
		}
		for _, name := range names {
			if err := in.readLedgerPart(ctx, source, mint, maxt, name, digests, found); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// digestParts returns matchers of digests that together match all of them. The data read from the bucket in
// one query is bounded by the query's budget.
func digestParts(stage ledgerStage) []*labels.Matcher {
	if stage != stageBucket {
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, stmtseries.LabelDigest, ".*")}
	}
	parts := []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotRegexp, stmtseries.LabelDigest, "[0-9a-f]{32}")}
	for _, c := range "0123456789abcdef" {
		parts = append(parts, labels.MustNewMatcher(labels.MatchRegexp, stmtseries.LabelDigest, string(c)+"[0-9a-f]{31}"))
	}
	return parts
}

func (in *instance) readLedgerPart(ctx context.Context, source storage.Queryable, mint, maxt int64, name string, digests *labels.Matcher, found []ledgerLine) error {
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, promlabel.MetricNameLabel, name), digests}
	for _, own := range slices.Sorted(maps.Keys(in.labels)) {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, own, in.labels[own]))
	}
	q, err := source.Querier(mint, maxt)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	set := q.Select(ctx, false, nil, matchers...)
	c := lineCounter{lines: found}
	for set.Next() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.series(set.At(), name == stmtseries.Queries.String()); err != nil {
			return fmt.Errorf("read series %s: %w", set.At().Labels(), err)
		}
	}
	if warnings := set.Warnings().AsErrors(); len(warnings) > 0 { // some samples are missing
		return errors.Join(warnings...)
	}
	return set.Err()
}

// A lineCounter adds samples to the lines in whose ranges they are.
type lineCounter struct {
	lines []ledgerLine
	it    chunkenc.Iterator
	h     histogram.Histogram
	fh    histogram.FloatHistogram
}

func (c *lineCounter) series(s storage.Series, calls bool) error {
	c.it = s.Iterator(c.it)
	lines := c.lines
	before := -1.0
	for kind := c.it.Next(); kind != chunkenc.ValNone; kind = c.it.Next() {
		t, v, zero, stale := c.sample(kind)
		if stale {
			continue
		}
		for len(lines) > 0 && lines[0].last < t {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return nil
		}
		increase := 0.0
		if before >= 0 {
			increase = v - before
		}
		if increase < 0 {
			increase = v // the counter was reset
		}
		before = v
		if t < lines[0].began || zero {
			continue
		}
		lines[0].samples++
		if calls {
			lines[0].calls += uint64(increase)
		}
	}
	return c.it.Err()
}

// sample returns the current sample's time, its value or number of observations, and whether it is a zero sample or a
// staleness marker.
func (c *lineCounter) sample(kind chunkenc.ValueType) (t int64, v float64, zero, stale bool) {
	switch kind {
	case chunkenc.ValHistogram:
		t, h := c.it.AtHistogram(&c.h)
		return t, float64(h.Count), h.Count == 0 && h.Sum == 0, value.IsStaleNaN(h.Sum)
	case chunkenc.ValFloatHistogram:
		t, h := c.it.AtFloatHistogram(&c.fh)
		return t, h.Count, h.Count == 0 && h.Sum == 0, value.IsStaleNaN(h.Sum)
	}
	t, v = c.it.At()
	return t, v, v == 0, value.IsStaleNaN(v)
}

// Unexplained returns the differences between the series and the ledger as of the last self-check, the oldest
// first. There are none unless samples were lost after they had been written.
func (a *Archive) Unexplained() (all []Difference) {
	for _, in := range a.all() {
		all = append(all, in.ledger.differences()...)
	}
	return all
}

// forgetLedger removes the ledger files of a block that is deleted before it was uploaded: that loss is
// counted separately.
func (in *instance) forgetLedger(m tsdb.BlockMeta) {
	for start := ledgerStart(m.MinTime); start < m.MaxTime; start += BlockRange.Milliseconds() {
		in.ledger.remove(start)
	}
}
