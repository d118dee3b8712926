package history_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	promlabel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
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
			h.must(h.db().Head().Delete(t.Context(), at[5], at[5], queries, one))
		}, 1, 2},
		{"the last two samples of all series", func(h *hourglass, at []int64) {
			all := labels.MustNewMatcher(labels.MatchRegexp, promlabel.MetricNameLabel, ".+")
			h.must(h.db().Head().Delete(t.Context(), at[8], at[9], all))
		}, 2 * 2 * (2 + uint64(len(stmtstats.Effects()))), 2 * 2}, // each round writes the calls, durations and effects of 2 Keys
		{"a zero sample", func(h *hourglass, at []int64) {
			h.must(h.db().Head().Delete(t.Context(), math.MinInt64, at[0]-1, queries, one))
		}, 0, 1},
		{"the write-ahead log", func(h *hourglass, _ []int64) {
			dir := filepath.Join(h.archive.Options().Dir, localdb.WALName)
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
				at = append(at, h.newest())
			}
			h.checkSelf()
			c.lose(h, at)
			h.archive.RecheckLedgers()
			_, err := h.archive.CheckLedgers(t.Context())
			h.must(err)
			found := h.archive.Unexplained()
			if c.samples+c.calls == 0 { // all
				c.calls = 20
				for _, file := range h.ledger() {
					for _, line := range h.ledgerLines(file) {
						samples, err := strconv.ParseUint(strings.Fields(line)[3], 10, 64)
						h.must(err)
						c.samples += samples
					}
				}
			}
			if len(found) != 1 || found[0].Samples != c.samples || found[0].Calls != c.calls {
				t.Errorf("%+v is unexplained, want %d samples and %d calls", found, c.samples, c.calls)
			}
		})
	}
}

// ledger returns the names of the ledger's files, the oldest first.
func (h *hourglass) ledger() []string {
	h.t.Helper()
	files, err := filepath.Glob(filepath.Join(h.archive.Options().Dir, "ledger", "*.txt"))
	h.must(err)
	slices.Sort(files)
	return files
}

// ledgerLines returns the whole lines of a file of the ledger.
func (h *hourglass) ledgerLines(file string) []string {
	h.t.Helper()
	text, err := os.ReadFile(file)
	h.must(err)
	lines := strings.Split(string(text), "\n")
	return lines[:len(lines)-1]
}

// nineHours returns an archive with nine hours of samples, one per minute, and its local blocks, at least
// three. shipped: the oldest one is in the bucket.
func nineHours(t *testing.T, shipped bool) (*hourglass, []tsdb.BlockMeta) {
	t.Helper()
	h := newHourglass(t, func(o *history.ArchiveOptions) { o.Interval = time.Minute })
	for n := range 9 * 60 {
		if shipped && n == 4*60 { // it is the only one
			h.must(h.archive.Maintain(t.Context()))
			h.must(h.archive.Ship(t.Context()))
		}
		h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
		h.round(time.Minute)
	}
	h.must(h.archive.Maintain(t.Context()))
	blocks := h.db().BlockMetas()
	if len(blocks) < 3 {
		t.Fatalf("%d blocks, want at least 3", len(blocks))
	}
	if n := h.metric("blocks_shipped_total"); shipped && n != 1 {
		t.Fatalf("%v blocks were shipped, want the oldest", n)
	}
	return h, blocks
}

// TestMissingBlock removes a local block, between others, that the bucket has: queries read it from there. The start of the
// samples is known once the bucket is, and stays the same without the oldest local block.
func TestMissingBlock(t *testing.T) {
	h, blocks := nineHours(t, false)
	h.must(h.archive.Ship(t.Context()))
	if at, ok := h.archive.Earliest(); ok {
		t.Errorf("the samples start at %v, before the bucket is known", at)
	}
	h.must(h.rig.gateway.Sync(t.Context()))
	checkStart := func() {
		t.Helper()
		if at, ok := h.archive.Earliest(); !ok || at.UnixMilli() != blocks[0].MinTime {
			t.Errorf("the samples start at %v, %t; want %d", at, ok, blocks[0].MinTime)
		}
	}
	checkStart()
	count := `count_over_time(tare_queries_total[9h])`
	want := h.value(count, h.now)
	h.must(h.archive.Close())
	if want < 9*60 {
		t.Fatalf("%v samples", want)
	}
	h.must(os.RemoveAll(filepath.Join(h.archive.Options().Dir, blocks[1].ULID.String())))
	h.reopen()
	if got := h.value(count, h.now); got != want {
		t.Errorf("%s without a block is %v, want %v", count, got, want)
	}
	h.checkSelf()
	h.must(h.archive.Close())
	h.must(os.RemoveAll(filepath.Join(h.archive.Options().Dir, blocks[0].ULID.String())))
	h.reopen()
	checkStart()
}

// TestUploadUnderWay syncs the gateway while a block is uploaded: no result lacks it, and the self-check
// compares the part that is already in the bucket. Once the block is not local either, results have a
// warning.
func TestUploadUnderWay(t *testing.T) {
	h, blocks := nineHours(t, true)
	under := filepath.Join(h.archive.Options().Dir, blocks[1].ULID.String())
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
	start := blocks[0].MinTime - blocks[0].MinTime%history.BlockRange.Milliseconds()
	if slices.ContainsFunc(h.ledger(), func(file string) bool { return filepath.Base(file) == fmt.Sprintf("%d.txt", start) }) {
		t.Error("the rounds of the uploaded block were not compared with the bucket")
	}
	h.must(h.archive.Close())
	h.must(os.RemoveAll(under))
	h.reopen()
	if w := warnings(); len(w) != 2 {
		t.Errorf("the warnings are %v, want one of the series and one of the names", w)
	}
	if _, err := h.archive.CheckLedgers(t.Context()); err == nil {
		t.Error("the self-check compares rounds of a block that is nowhere whole")
	}
}

// TestLedgerRotates ships a day of rounds to the bucket: each file is compared in blocks and in the bucket,
// and removed. A block that is missing there keeps its file and is counted.
func TestLedgerRotates(t *testing.T) {
	h := newHourglass(t, func(o *history.ArchiveOptions) { o.Interval = time.Minute })
	stages := make(map[string]int)
	h.must(h.rig.gateway.Sync(t.Context()))
	turn := func() {
		h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
		h.model.call(2, h.now.Add(2*time.Second), time.Millisecond, true)
		h.round(time.Minute)
	}
	for range 10 * 60 {
		turn()
		h.must(h.archive.Maintain(t.Context()))
		_, err := h.archive.CheckLedgers(t.Context())
		h.must(err)
		for _, stage := range h.archive.LedgerStages() {
			stages[stage]++
		}
	}
	if n := len(h.ledger()); n < 4 || stages["blocks"] == 0 || stages["bucket"] != 0 {
		t.Errorf("%d files, by stage %v: nothing was uploaded", n, stages)
	}
	h.must(h.archive.Ship(t.Context()))
	h.must(h.rig.gateway.Sync(t.Context()))
	h.checkSelf()
	if n := len(h.ledger()); n > 2 {
		t.Errorf("%d files are left after all blocks were uploaded, want at most those of the head", n)
	}
}

// TestLedgerOfEmptyRounds compares a file while the head is empty, and again after samples of its range: they
// are read from the head.
func TestLedgerOfEmptyRounds(t *testing.T) {
	h := newHourglass(t, nil)
	h.must(h.rig.gateway.Sync(t.Context()))
	h.round(10 * time.Second)
	_, err := h.archive.CheckLedgers(t.Context())
	h.must(err)
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
			path := h.ledger()[0]
			text, err := os.ReadFile(path)
			h.must(err)
			h.must(os.WriteFile(path, c.damage(text), 0o600))
			h.reopen()
			if n := h.archive.Options().State.Counts()["ledger"]; n != c.losses {
				t.Errorf("%d losses are reported, want %d", n, c.losses)
			}
			h.model.call(1, h.now.Add(time.Second), time.Millisecond, false)
			h.round(10 * time.Second)
			h.checkSelf()
			lines := h.ledgerLines(h.ledger()[0])
			if len(lines) != c.lines+1 {
				t.Errorf("%d lines, want %d", len(lines), c.lines+1)
			}
		})
	}
}
