package stmtstats

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/querylog"
)

// A tally has the counts of a model's Key.
type tally struct {
	key      Key
	counters Counts // except Calls
	buckets  map[int]uint64
}

// effectsOf returns the effects of a statement, from the columns of the documentation.
func effectsOf(r *querylog.Record) Counts {
	return Counts{RowsSent: r.RowsReturned, RowsAffected: r.RowsAffected, BytesReceived: r.BytesIn, BytesSent: r.BytesOut, Warnings: uint64(r.Warnings)}
}

func newTally(k Key) *tally { return &tally{key: k, buckets: make(map[int]uint64)} }

func (c *tally) count(r *querylog.Record) {
	bucket := sort.Search(NumBuckets, func(b int) bool { return r.Total.Seconds() <= BoundOf(b-1) }) - 1
	c.buckets[bucket]++
	c.counters[Nanos] += uint64(r.Total)
	of := effectsOf(r)
	c.counters.Add(&of)
	if r.ErrorNumber != 0 {
		c.counters[int(Errors)+int(ClassOf(r.ErrorNumber, r.SQLState))]++
	}
}

func (c *tally) add(o *tally) {
	for i := range c.counters {
		c.counters[i] += o.counters[i]
	}
	for b, n := range o.buckets {
		c.buckets[b] += n
	}
}

func (c *tally) calls() (n uint64) {
	for _, k := range c.buckets {
		n += k
	}
	return n
}

// tallyOf returns a sample as a tally.
func tallyOf(s *Sample) *tally {
	c := newTally(s.Key)
	c.counters = s.Counts
	c.counters[Calls] = 0
	if s.Histogram.Zero > 0 {
		c.buckets[zeroBucket] = s.Histogram.Zero
	}
	for b, n := range s.Histogram.Buckets {
		if n > 0 {
			c.buckets[b] = n
		}
	}
	return c
}

func diff(got, want *tally) string {
	for b, n := range want.buckets {
		if n == 0 {
			delete(want.buckets, b)
		}
	}
	if got.key == want.key && got.counters == want.counters && maps.Equal(got.buckets, want.buckets) {
		return ""
	}
	return cmp.Diff(want, got, cmp.AllowUnexported(tally{}))
}

// A twin is a model of a table, built from maps. It is notified where the table has counted a statement, and
// predicts the table's samples from that.
type twin struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	opts    Options
	table   *Table
	live    map[uint64]*tally
	gone    map[uint64]Key // evicted and not collected
	changed map[uint64]bool
	ids     map[Key]uint64
	other   *tally
	evicted *tally
	texts   map[uint64]string
}

func newTwin(t *testing.T, seed uint64) *twin {
	rng := rand.New(rand.NewPCG(seed, 11))
	w := &twin{
		t: t, rng: rng, now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		live: make(map[uint64]*tally), gone: make(map[uint64]Key), changed: make(map[uint64]bool),
		ids: make(map[Key]uint64), other: newTally(Key{}), evicted: newTally(Key{}), texts: make(map[uint64]string),
	}
	w.opts = Options{
		Dir: t.TempDir(), Turnover: time.Minute, MinIdle: 2 * time.Second, Redaction: querylog.RedactLiterals,
		Now: func() time.Time { return w.now }, Slog: slog.New(slog.DiscardHandler),
	}
	w.resize()
	w.open()
	t.Cleanup(func() { _ = w.table.Close() })
	return w
}

// resize selects a size with too few entries, or too few pages, or both.
func (w *twin) resize() {
	w.opts.MaxDigests = 1 + w.rng.IntN(60)
	w.opts.Bytes = leastBytes(w.opts.MaxDigests) + int64(w.rng.IntN(100*pageBytes))
}

func (w *twin) open() { w.table = mustOpen(w.t, w.opts) }

func (w *twin) record() *querylog.Record {
	n := int(w.rng.ExpFloat64() * 25)
	r := &querylog.Record{
		Start: w.now, Total: time.Duration(w.rng.ExpFloat64() * float64(int(1)<<w.rng.IntN(30))),
		Digest: [16]byte{7, byte(n), byte(n >> 8)}, Normalized: fmt.Appendf(nil, "select %s from t%d", strings.Repeat("?, ", n*n), n),
		Schema: "shop", User: []string{"app", "batch"}[n&1], Backend: "127.0.0.1:3306",
		RowsReturned: uint64(w.rng.IntN(10)), RowsAffected: uint64(w.rng.IntN(2)), BytesIn: 30, BytesOut: uint64(w.rng.IntN(9000)),
	}
	switch {
	case n%7 == 3:
		r.Schema = strings.Repeat("wide", 25)
	case n%31 == 30:
		r.Schema = strings.Repeat("wider", 50) // longer than a tracked name
	case n%11 == 5 && w.rng.IntN(2) == 0:
		r.Normalized = nil // as of a prepared statement whose text was not kept
	}
	if w.rng.IntN(20) == 0 {
		r.ErrorNumber, r.SQLState = []uint16{1213, 1062, 1317, 4242}[w.rng.IntN(4)], "HY000"
	}
	if w.rng.IntN(40) == 0 {
		r.Digest = [16]byte{}
	}
	return r
}

// state returns the live entries of the table, read from its memory.
func (w *twin) state() (live map[uint64]Key, otherCalls uint64) {
	live = make(map[uint64]Key)
	var names nameTable
	for i := range w.table.mem.entries {
		if e := &w.table.mem.entries[i]; i > 0 && e.state() == gateLive {
			live[e.id] = names.key(e, w.table.mem.pages)
		}
	}
	w.table.read(&w.table.mem.entries[0], Other)
	return live, w.table.sample.Counts[Calls]
}

// follow moves Keys that the table has evicted to evicted.
func (w *twin) follow(live map[uint64]Key) {
	for id := range maps.Clone(w.live) {
		if _, ok := live[id]; !ok {
			w.evicted.add(w.live[id])
			w.gone[id] = w.live[id].key
			delete(w.ids, w.live[id].key)
			delete(w.live, id)
			delete(w.changed, id)
		}
	}
}

func (w *twin) observe() {
	r := w.record()
	w.table.Observe(r)
	live, otherCalls := w.state()
	w.follow(live)
	if otherCalls > w.other.calls() {
		w.other.count(r)
		return
	}
	key := Key{Digest: r.Digest, Schema: r.Schema, User: r.User, Backend: r.Backend}
	id, known := w.ids[key]
	if !known {
		for i, k := range live {
			if k == key {
				id = i
			}
		}
		if w.live[id] != nil || id < firstID {
			w.t.Fatalf("%v was counted in no entry of its own, nor in Other", key)
		}
		w.ids[key], w.live[id] = id, newTally(key)
	}
	w.live[id].count(r)
	w.changed[id] = true
}

// check compares samples with the twin's counts; those of Collect must be the changed ones.
func (w *twin) check(s *Sample) {
	var want *tally
	switch s.Kind {
	case Other:
		want = w.other
	case Evicted:
		want = w.evicted
	case Tracked:
		want = w.live[s.ID]
	case Removed:
		if w.gone[s.ID] != s.Key || s.Counts[Calls] != 0 {
			w.t.Fatalf("%v of ID %d is said to be gone, want %v", s.Key, s.ID, w.gone[s.ID])
		}
		delete(w.gone, s.ID)
		return
	}
	if want == nil {
		w.t.Fatalf("a sample of ID %d, which the twin does not have: %v", s.ID, s.Key)
	}
	if d := diff(tallyOf(s), want); d != "" {
		w.t.Fatalf("%s %d (-want +got):\n%s", s.Kind, s.ID, d)
	}
	if s.Counts[Calls] != want.calls() || s.Histogram.Count() != s.Counts[Calls] || s.Histogram.Native().Count != s.Counts[Calls] {
		w.t.Fatalf("%d calls, histograms of %d and %d, want %d", s.Counts[Calls], s.Histogram.Count(), s.Histogram.Native().Count, want.calls())
	}
	// A text that had no room in a smaller file is stored again, as far as there is room then.
	if before := w.texts[s.ID]; before != "" && s.Text != "" && s.Text != before && !(s.TextCut && strings.HasPrefix(before, s.Text)) && !strings.HasPrefix(s.Text, before) {
		w.t.Fatalf("the text of %d was %q, and is %q", s.ID, before, s.Text)
	}
	if s.Text != "" {
		w.texts[s.ID] = s.Text
	}
}

func (w *twin) collect(fail bool) {
	first := true
	pending := maps.Clone(w.changed)
	stop := -1
	if fail {
		stop = w.rng.IntN(len(w.live) + 3)
	}
	err := w.table.Collect(func(s *Sample) error {
		if first {
			first = false
			live := make(map[uint64]Key)
			for i := range w.table.mem.entries {
				if e := &w.table.mem.entries[i]; e.state() == gateLive {
					live[e.id] = Key{}
				}
			}
			w.follow(live) // Collect has evicted
			pending = maps.Clone(w.changed)
		}
		if stop--; stop == -1 {
			return io.ErrUnexpectedEOF
		}
		w.check(s)
		if s.Kind == Tracked {
			if !pending[s.ID] {
				w.t.Fatalf("%d is collected, and has not changed", s.ID)
			}
			delete(pending, s.ID)
			delete(w.changed, s.ID)
		}
		return nil
	})
	if err == nil && (len(pending) > 0 || len(w.gone) > 0) {
		w.t.Fatalf("not collected: %d that have changed, %d that are gone", len(pending), len(w.gone))
	}
}

// each compares everything.
func (w *twin) each() {
	seen := 0
	if err := w.table.Each(func(s *Sample) error {
		w.check(s)
		seen++
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if seen != len(w.live)+2 || w.table.Stats().Digests != len(w.live) {
		w.t.Fatalf("%d samples and %d digests, want %d digests", seen, w.table.Stats().Digests, len(w.live))
	}
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	if err := w.table.check(); err != nil {
		w.t.Fatal(err)
	}
}

// restart closes the table, or kills it, and opens it again, perhaps in another size.
func (w *twin) restart() {
	for _, d := range w.table.dropped { // known only to the process
		delete(w.gone, d.id)
	}
	switch w.rng.IntN(3) {
	case 0:
		if err := w.table.Close(); err != nil {
			w.t.Fatal(err)
		}
	default: // a kill leaves the file as it is
		content, err := os.ReadFile(filepath.Join(w.opts.Dir, tableName))
		if err != nil {
			w.t.Fatal(err)
		}
		w.opts.Dir = w.t.TempDir()
		if err := os.WriteFile(filepath.Join(w.opts.Dir, tableName), content, 0o600); err != nil {
			w.t.Fatal(err)
		}
		_ = w.table.Close() // the test continues with the copy above
	}
	if w.rng.IntN(2) == 0 {
		w.resize()
	}
	w.open()
	if aside := w.table.Stats().SetAside; aside != "" {
		w.t.Fatalf("a good table was set aside as %s", aside)
	}
	live, _ := w.state()
	w.follow(live)
	for id := range w.live {
		w.changed[id] = true
	}
}

// TestModel runs random operations on a table and its twin: nothing is lost, and a Key's sample has exactly
// the calls counted since it was admitted.
func TestModel(t *testing.T) {
	var evictions, untracked, admitted uint64
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newTwin(t, seed)
			for range 1000 {
				switch p := w.rng.IntN(1000); {
				case p < 950:
					w.observe()
				case p < 970:
					w.now = w.now.Add(time.Duration(w.rng.IntN(5000)) * time.Millisecond)
				case p < 975:
					w.now = w.now.Add(-time.Duration(w.rng.IntN(5000)) * time.Millisecond)
				case p < 990:
					w.collect(w.rng.IntN(4) == 0)
				case p < 995:
					w.each()
				default:
					s := w.table.Stats()
					evictions, untracked, admitted = evictions+s.Evictions, untracked+s.Untracked, admitted+s.Admitted
					w.restart()
				}
			}
			w.each()
			w.collect(false)
		})
	}
	if evictions == 0 || untracked == 0 || admitted == 0 {
		t.Errorf("%d evictions, %d untracked calls, %d digests admitted: a part of the table was not tested", evictions, untracked, admitted)
	}
}
