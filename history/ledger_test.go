package history

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/history/localdb"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/stmtseries"
)

// TestLedgerFindsLoss removes samples from the database directly: the self-check counts them, and the same
// check finds nothing before.
func TestLedgerFindsLoss(t *testing.T) {
	queries := labels.MustNewMatcher(labels.MatchEqual, promlabel.MetricNameLabel, stmtseries.Queries.String())
	one := labels.MustNewMatcher(labels.MatchRegexp, stmtseries.LabelDigest, "0001.*")
	for _, c := range []struct {
		name           string
		lose           func(h *hourglass, at []int64) // at: times of the rounds
		samples, calls uint64
	}{
		{"one sample", func(h *hourglass, at []int64) {
			// The calls of the sample appear in the next one's increase.
			h.must(h.archive.current().db.Current().Head().Delete(t.Context(), at[5], at[5], queries, one))
		}, 1, 2},
		{"the last two samples of all series", func(h *hourglass, at []int64) {
			all := labels.MustNewMatcher(labels.MatchRegexp, promlabel.MetricNameLabel, ".+")
			h.must(h.archive.current().db.Current().Head().Delete(t.Context(), at[8], at[9], all))
		}, 2 * 2 * 4, 2 * 2}, // each round writes 4 series of 2 Keys
		{"a zero sample", func(h *hourglass, at []int64) {
			h.must(h.archive.current().db.Current().Head().Delete(t.Context(), math.MinInt64, at[0]-1, queries, one))
		}, 0, 1},
		{"the write-ahead log", func(h *hourglass, _ []int64) {
			dir := filepath.Join(h.archive.options.Dir, localdb.WALName)
			h.must(h.archive.Close())
			segments, err := filepath.Glob(filepath.Join(dir, "0*"))
			h.must(err)
			for _, s := range segments {
				h.must(os.Truncate(s, 0))
			}
			h.reopen()
		}, 0, 0},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			h := newHourglass(t, nil)
			h.day.t, h.lossy = t, true
			var at []int64
			for range 10 {
				h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
				h.model.call(2, h.now.Add(time.Second), time.Millisecond, false)
				h.round(10 * time.Second)
				at = append(at, h.archive.current().writer.last)
			}
			h.checkSelf()
			c.lose(h, at)
			h.archive.current().ledger.recheck()
			h.must(h.archive.current().checkLedger(t.Context()))
			found := h.archive.Unexplained()
			if c.samples+c.calls == 0 { // all
				c.calls = 20
				for _, start := range h.archive.current().ledger.list() {
					lines, _, err := h.archive.current().ledger.read(start)
					h.must(err)
					for _, l := range lines {
						c.samples += l.samples
					}
				}
			}
			if len(found) != 1 || found[0].Samples != c.samples || found[0].Calls != c.calls {
				t.Errorf("%+v is unexplained, want %d samples and %d calls", found, c.samples, c.calls)
			}
		})
	}
}

// nineHours returns an archive with nine hours of samples, one per minute, and its local blocks, at least
// three.
func nineHours(t *testing.T) (*hourglass, []tsdb.BlockMeta) {
	t.Helper()
	h := newHourglass(t, func(o *ArchiveOptions) { o.Interval = time.Minute })
	for range 9 * 60 {
		h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
		h.round(time.Minute)
	}
	h.must(h.archive.current().maintainOnce(t.Context()))
	blocks := h.archive.current().db.Current().BlockMetas()
	if len(blocks) < 3 {
		t.Fatalf("%d blocks, want at least 3", len(blocks))
	}
	return h, blocks
}

// TestMissingBlock removes a local block, between others, that the bucket has: queries read it from there.
func TestMissingBlock(t *testing.T) {
	h, blocks := nineHours(t)
	h.must(h.archive.current().shipper.ship(t.Context(), blocks))
	h.must(h.rig.gateway.Sync(t.Context()))
	count := `count_over_time(tare_queries_total[9h])`
	want := h.value(count, h.now)
	h.must(h.archive.Close())
	if want < 9*60 {
		t.Fatalf("%v samples", want)
	}
	h.must(os.RemoveAll(filepath.Join(h.archive.options.Dir, blocks[1].ULID.String())))
	h.reopen()
	if got := h.value(count, h.now); got != want {
		t.Errorf("%s without a block is %v, want %v", count, got, want)
	}
	h.checkSelf()
}

// TestUploadUnderWay syncs the gateway while a block is uploaded: no result lacks it, and the self-check
// compares the part that is already in the bucket. Once the block is not local either, results have a
// warning.
func TestUploadUnderWay(t *testing.T) {
	h, blocks := nineHours(t)
	h.must(h.archive.current().shipper.ship(t.Context(), blocks[:1]))
	under := filepath.Join(h.archive.options.Dir, blocks[1].ULID.String())
	uploaded := filepath.Join(h.rig.bucketDir, blocks[1].ULID.String())
	h.must(os.CopyFS(filepath.Join(uploaded, "chunks"), os.DirFS(filepath.Join(under, "chunks"))))
	h.must(h.rig.gateway.Sync(t.Context()))
	warnings := func() []error {
		t.Helper()
		q, err := h.archive.Queryable().Querier(blocks[0].MinTime, blocks[2].MaxTime)
		h.must(err)
		defer func() { h.must(q.Close()) }()
		set := q.Select(t.Context(), false, nil, labels.MustNewMatcher(labels.MatchEqual, promlabel.MetricNameLabel, stmtseries.Queries.String()))
		for set.Next() {
		}
		h.must(set.Err())
		_, named, err := q.LabelNames(t.Context(), nil)
		h.must(err)
		return append(set.Warnings().AsErrors(), named.AsErrors()...)
	}
	if w := warnings(); len(w) > 0 {
		t.Errorf("a result has warnings of a block that is here: %v", w)
	}
	h.checkSelf()
	if start := ledgerStart(blocks[0].MinTime); slices.Contains(h.archive.current().ledger.list(), start) {
		t.Error("the rounds of the uploaded block were not compared with the bucket")
	}
	h.must(h.archive.Close())
	h.must(os.RemoveAll(under))
	h.reopen()
	if w := warnings(); len(w) != 2 {
		t.Errorf("the warnings are %v, want one of the series and one of the names", w)
	}
	if err := h.archive.current().checkLedger(t.Context()); err == nil {
		t.Error("the self-check compares rounds of a block that is nowhere whole")
	}
}

// TestLedgerRotates ships a day of rounds to the bucket: each file is compared in blocks and in the bucket,
// and removed. A block that is missing there keeps its file and is counted.
func TestLedgerRotates(t *testing.T) {
	h := newHourglass(t, func(o *ArchiveOptions) { o.Interval = time.Minute })
	stages := make(map[ledgerStage]int)
	h.must(h.rig.gateway.Sync(t.Context()))
	turn := func() {
		h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
		h.model.call(2, h.now.Add(2*time.Second), time.Millisecond, true)
		h.round(time.Minute)
	}
	for range 10 * 60 {
		turn()
		h.must(h.archive.current().maintainOnce(t.Context()))
		h.must(h.archive.current().checkLedger(t.Context()))
		for _, f := range h.archive.current().ledger.files {
			stages[f.from]++
		}
	}
	if n := len(h.archive.current().ledger.list()); n < 4 || stages[stageBlock] == 0 || stages[stageBucket] != 0 {
		t.Errorf("%d files, by stage %v: nothing was uploaded", n, stages)
	}
	h.must(h.archive.current().shipper.ship(t.Context(), h.archive.current().db.Current().BlockMetas()))
	h.must(h.rig.gateway.Sync(t.Context()))
	h.checkSelf()
	if n := len(h.archive.current().ledger.list()); n > 2 {
		t.Errorf("%d files are left after all blocks were uploaded, want at most those of the head", n)
	}
}

// TestLedgerOfEmptyRounds compares a file while the head is empty, and again after samples of its range: they
// are read from the head.
func TestLedgerOfEmptyRounds(t *testing.T) {
	h := newHourglass(t, nil)
	h.must(h.rig.gateway.Sync(t.Context()))
	h.round(10 * time.Second)
	h.must(h.archive.current().checkLedger(t.Context()))
	for range 3 {
		h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
		h.round(10 * time.Second)
		h.checkSelf()
	}
}

// TestLedgerDamaged sets aside a file with a changed byte, and ignores a partly written last line.
func TestLedgerDamaged(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(text []byte) []byte
		losses uint64
		lines  int
	}{
		{"whole", func(text []byte) []byte { return text }, 0, 11},
		{"a digit", func(text []byte) []byte { text[20]++; return text }, 1, 0},
		{"shorter", func(text []byte) []byte { return text[:len(text)-200] }, 1, 0},
		{"a line twice", func(text []byte) []byte { return append(text, text[len(text)/2+1:]...) }, 1, 0},
		{"the last line in part", func(text []byte) []byte { return append(text, text[:30]...) }, 0, 11},
		{"other bytes without a line", func(text []byte) []byte { return slices.Repeat([]byte{0xff}, 10*len(text)) }, 1, 0},
		{"no line", func([]byte) []byte { return nil }, 1, 0},
		{"zeros behind the last line", func(text []byte) []byte { return append(text, make([]byte, 100)...) }, 0, 11},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			h := newHourglass(t, nil)
			h.day.t = t
			for range 10 {
				h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
				h.round(10 * time.Second)
			}
			h.must(h.archive.Close()) // writes a round too
			path := h.archive.current().ledger.path(h.archive.current().ledger.list()[0])
			text, err := os.ReadFile(path)
			h.must(err)
			h.must(os.WriteFile(path, c.damage(text), 0o600))
			h.reopen()
			if n := h.archive.options.State.Counts()[ledgerPiece.Name]; n != c.losses {
				t.Errorf("%d losses are reported, want %d", n, c.losses)
			}
			h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
			h.round(10 * time.Second)
			h.checkSelf()
			lines, _, err := h.archive.current().ledger.read(h.archive.current().ledger.list()[0])
			h.must(err)
			if len(lines) != c.lines+1 {
				t.Errorf("%d lines, want %d", len(lines), c.lines+1)
			}
		})
	}
}

// TestLedgerLines parses written lines, and checks that each changed byte is detected.
func TestLedgerLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 1))
	var text []byte
	var want []ledgerLine
	at := int64(0)
	for range 50 {
		l := ledgerLine{since: at, began: at + 1 + rng.Int64N(1e12), samples: rng.Uint64(), calls: rng.Uint64()}
		l.last = l.began + rng.Int64N(1e6)
		at = l.last
		want, text = append(want, l), l.append(text)
	}
	got, whole, err := parseLedger(text)
	if err != nil || whole != len(text) || !slices.Equal(got, want) {
		t.Fatalf("%v: %d bytes of %d", err, whole, len(text))
	}
	for i := range text {
		changed := slices.Clone(text)
		for changed[i] == text[i] {
			changed[i] = byte(rng.IntN(256))
		}
		got, _, err := parseLedger(changed)
		if last := i >= len(text)-1; err == nil && !(last && len(got) == len(want)-1) {
			t.Fatalf("byte %d changed from %q to %q: no error, %d lines", i, text[i], changed[i], len(got))
		}
	}
}

// TestLedgerBound removes the oldest files, and continues in a file that was set aside while it was open.
func TestLedgerBound(t *testing.T) {
	dir := t.TempDir()
	state := localstate.Open(dir, nil, slog.New(slog.DiscardHandler))
	l, err := openLedger(dir, state, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.limit = 1000
	at := int64(0)
	add := func() {
		t.Helper()
		line := ledgerLine{since: at, began: at + BlockRange.Milliseconds()/10, last: at + BlockRange.Milliseconds()/10}
		at = line.last
		if err := l.add(&line); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		add()
	}
	var bytes int64
	files, err := os.ReadDir(filepath.Join(dir, ledgerName))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	if bytes > 1000+500 || len(files) < 2 {
		t.Errorf("%d bytes in %d files, want 1000 besides the newest", bytes, len(files))
	}
	starts := l.list()
	newest := starts[len(starts)-1]
	if err := os.WriteFile(l.path(newest), []byte("x"+strings.Repeat("y", 500)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.read(newest); err == nil {
		t.Error("a damaged file is read")
	}
	add()
	if lines, _, err := l.read(ledgerStart(at)); err != nil || len(lines) != 1 {
		t.Errorf("%d lines after it was set aside (%v), want 1", len(lines), err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
}
