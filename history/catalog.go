package history

import (
	"math/bits"
	"sync"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/store/tsblock"
)

// seriesInfo is the number of the series with a digest's text, after those of an entry.
const seriesInfo = stmtseries.PerKey

// A place identifies a series of an entry: the number of the entry, shifted by placeBits, and the number of
// the series in the lower bits. The number after the last entry's is that of Evicted.
type place uint32

const placeBits = 5

func (p place) split() (number, series int) { return int(p >> placeBits), int(p & (1<<placeBits - 1)) }

// Numbers of entries and of series must fit.
const (
	_ = uint(1<<(32-placeBits) - (stmtstats.MostDigests + 2))
	_ = uint(1<<placeBits - (seriesInfo + 1))
)

// A knownKey is the catalog's record of an entry.
type knownKey struct {
	mark   stmtstats.Mark   // of the entry when it was read
	track  activeseries.Key // 0: nothing is known of the entry
	series uint32           // a bit for each series in the catalog
	gone   bool             // during update: the Key was evicted, its places are invalid
}

// A catalog has the series of a table's entries by the hash of their labels, which is computed once per
// series, and the time of each entry's last call.
type catalog struct {
	table *stmtstats.Table
	idle  time.Duration

	mu       sync.Mutex // never locked while the table is
	labeller *stmtseries.Labeller
	keys     []knownKey // by number; nil before the first request
	hashes   []uint64   // of the series in places
	places   []place
	tracker  *activeseries.Tracker
	swept    activeseries.Moment
	read     []readKey // read under one lock of the table; reused
	scratch  labels.Labels
}

// A readKey is the data read from an entry that has changed.
type readKey struct {
	number int
	series uint32 // new series
	last   time.Time
	key    stmtstats.Key // if series are new
	text   string        // if seriesInfo is new
}

// A activeRef is an active series.
type activeRef struct {
	id    uint64 // of the entry
	place place
}

func newCatalog(t *stmtstats.Table, labels map[string]string, idle time.Duration) catalog {
	return catalog{table: t, idle: idle, labeller: stmtseries.NewLabeller(labels)}
}

// kind returns the kind of an entry by its number.
func (c *catalog) kind(number int) stmtstats.Kind {
	switch number {
	case 0:
		return stmtstats.Other
	case c.table.Numbers() - 1:
		return stmtstats.Evicted
	}
	return stmtstats.Tracked
}

// active updates the catalog and returns the active series of a shard.
func (c *catalog) active(shard tsblock.Shard) []activeRef {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.table.Now()
	if c.keys == nil {
		c.keys = make([]knownKey, c.table.Numbers())
		c.track(now)
	}
	if !c.update() {
		return nil // the table was closed
	}
	moment := c.tracker.Moment(now)
	c.sweep(moment, now)
	count := max(shard.Count, 1)
	out := make([]activeRef, 0, uint64(len(c.places))/count*9/8)
	last, live := -1, false
	for i, hash := range c.hashes {
		if count > 1 && hash%count != shard.Index {
			continue
		}
		number, _ := c.places[i].split()
		k := &c.keys[number]
		if number != last {
			last, live = number, c.tracker.IsActive(k.track, moment)
		}
		if live {
			out = append(out, activeRef{id: k.mark.ID(), place: c.places[i]})
		}
	}
	return out
}

// track starts a new Tracker, whose time starts before all calls that can be active. Every entry is read
// again.
func (c *catalog) track(now time.Time) {
	step := max(c.idle/1200, 1)
	tracker, err := activeseries.NewTracker(now.Add(-2*c.idle), activeseries.TrackerOptions{Idle: c.idle.Truncate(step), Step: step, Stripes: 1})
	if err != nil {
		panic("BUG: history: " + err.Error())
	}
	c.tracker, c.swept = tracker, 0
	for i := range c.keys {
		c.keys[i].mark = stmtstats.Mark{}
	}
}

// sweepMoments is the interval between sweeps of the tracker, in moments.
const sweepMoments = 60

// sweep removes idle Keys from the tracker. Evicted Keys remain in it until they are idle, unless there are
// half as many as entries: then the tracker is created again.
func (c *catalog) sweep(moment activeseries.Moment, now time.Time) {
	if c.tracker.Counts(nil) > int64(len(c.keys))*3/2 {
		c.track(now)
		c.update()
		return
	}
	if moment-c.swept > sweepMoments {
		c.tracker.Sweep(moment)
		c.swept = moment
	}
}

const (
	// updateEntries is the number of entries read under one lock of the table. A session that inserts a
	// digest waits for that lock.
	updateEntries = 64

	// updatePasses is the maximum number of passes over evicted Keys in one update. After the last one, the
	// new Keys of their entries are left to the next request.
	updatePasses = 3
)

// update reads the changes since the last update. It reports false if the table was closed.
func (c *catalog) update() bool {
	for range updatePasses {
		evicted := false
		for from := 0; from < len(c.keys); from += updateEntries {
			gone, ok := c.readChanges(from, min(from+updateEntries, len(c.keys)))
			if !ok {
				return false
			}
			evicted = evicted || gone
			for i := range c.read {
				c.addSeries(&c.read[i])
			}
			clear(c.read)
		}
		if !evicted {
			break
		}
		c.compact()
	}
	return true
}

// readChanges reads the changed entries in [from, to) into c.read. Evicted Keys are only marked: the new Keys of
// their entries are read once the catalog has removed the old ones.
func (c *catalog) readChanges(from, to int) (gone, ok bool) {
	c.read = c.read[:0]
	mark := func(number int) stmtstats.Mark { return c.keys[number].mark }
	ok = c.table.Changes(from, to, mark, func(e *stmtstats.Change) {
		k := &c.keys[e.Number]
		if k.track != 0 && (!e.Live || e.Mark.ID() != k.mark.ID()) {
			*k = knownKey{gone: true}
			gone = true
		}
		if e.Live && !k.gone {
			k.mark = e.Mark
			c.addRead(e)
		}
	})
	return gone, ok
}

// addRead appends an entry to c.read.
func (c *catalog) addRead(e *stmtstats.Change) {
	if e.Last == 0 {
		return // nothing was counted
	}
	series := seriesOf(e.Counts())
	if e.HasText() {
		series |= 1 << seriesInfo
	}
	r := readKey{number: e.Number, series: series &^ c.keys[e.Number].series, last: time.Unix(0, e.Last)}
	if r.series != 0 {
		r.key = e.Key()
	}
	if r.series&(1<<seriesInfo) != 0 {
		r.text = e.Text()
	}
	c.read = append(c.read, r)
}

// addSeries adds an entry that was read to the catalog.
func (c *catalog) addSeries(r *readKey) {
	k, kind := &c.keys[r.number], c.kind(r.number)
	for fresh := r.series; fresh != 0; fresh &= fresh - 1 {
		series := bits.TrailingZeros32(fresh)
		if series == seriesInfo {
			c.labeller.SetInfo(r.key.Digest, r.text)
		} else {
			c.labeller.SetSeries(kind, &r.key, series)
		}
		c.labeller.Overwrite(&c.scratch)
		hash := labels.StableHash(c.scratch)
		if k.track == 0 {
			k.track = activeseries.Key(max(hash, 1)) // stmtseries.Queries is the first series and always present
		}
		c.hashes = append(c.hashes, hash)
		c.places = append(c.places, place(r.number<<placeBits|series))
	}
	k.series |= r.series
	moment := c.tracker.Moment(r.last)
	if !c.tracker.Update(k.track, moment) {
		if err := c.tracker.Add(k.track, moment, nil); err != nil {
			panic("BUG: history: no matchers, and yet: " + err.Error())
		}
	}
}

// compact removes the series of evicted Keys.
func (c *catalog) compact() {
	kept := 0
	for i, p := range c.places {
		if number, _ := p.split(); !c.keys[number].gone {
			c.hashes[kept], c.places[kept] = c.hashes[i], p
			kept++
		}
	}
	c.hashes, c.places = c.hashes[:kept], c.places[:kept]
	for i := range c.keys {
		c.keys[i].gone = false
	}
}

// bytes returns the heap bytes of the catalog.
func (c *catalog) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		return 0
	}
	return c.tracker.Bytes() + int64(heapsize.Array(uintptr(cap(c.keys)), unsafe.Sizeof(knownKey{}), false)+
		heapsize.Array(uintptr(cap(c.hashes)), 8, false)+heapsize.Array(uintptr(cap(c.places)), 4, false)+
		heapsize.Array(uintptr(cap(c.read)), unsafe.Sizeof(readKey{}), true))
}

// seriesOf returns the series of an entry that was called. Counters that were always 0 have no series.
func seriesOf(counts stmtstats.Counts) uint32 {
	series := uint32(1<<stmtseries.Queries | 1<<stmtseries.Duration)
	for number, n := range counts {
		if n > 0 {
			series |= 1 << number
		}
	}
	return series
}
