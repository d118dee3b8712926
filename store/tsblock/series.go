package tsblock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/taredb/tare/internal/crc32c"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/slab"
)

// Parameters of reading series.
const (
	firstWindow = 1024 // series that are read ahead at first
	maxWindow   = 4096
	windowPages = 256 // 4 MiB pinned at once

	// entryGuess is the assumed minimum size of a series entry when its pages are fetched; longer ones whose
	// next page is not pinned cost another read.
	entryGuess = 512

	// entryReach is the distance from its offset up to which the pages of a corrupt entry are dropped. It is
	// more than the longest entry that Prometheus writes.
	entryReach = 1 << 20

	// chunkGuess is the planned size of a chunk whose neighbours do not determine its size, before any chunk
	// of the block was read.
	chunkGuess = 1024

	// defaultBatchBytes is the default of Select.BatchBytes.
	defaultBatchBytes = 4 << 20
)

// A Select specifies which series and chunks to read.
type Select struct {
	MinTime, MaxTime int64 // milliseconds, both inclusive
	Shard            Shard

	// SkipChunks returns batches without chunks. The series are the same.
	SkipChunks bool

	// Keep, if not nil, reports whether a series is selected, given its labels, which are sorted by name. It
	// must not retain them. Series for which it returns false are skipped before their chunks are planned.
	Keep func([]Label) bool

	// Deleted, if not nil, reports whether all samples of a series' chunk were deleted. Such chunks are
	// skipped.
	Deleted func(ref uint32, mint, maxt int64) bool

	// BatchBytes is the planned size of a batch in bytes of chunks; a series with more is a batch alone.
	// Default: defaultBatchBytes.
	BatchBytes int64
}

// A SeriesReader reads the series of some postings in batches. It is valid until its Reader is closed.
// Between its first and its last call of Next, no method of the Reader except LoadChunks may be called.
type SeriesReader struct {
	reader   *Reader
	postings *Postings
	query    Select
	every    bool // include series without chunks in the range

	begun       bool
	any         bool // a series was returned, and its symbols are in scratch.last
	size        int  // of the next window
	next        int  // index in scratch.window
	ended       bool
	keepApplied bool // the window's entries were read once, and counted
	filter      *shardFilter
	mean        int64 // average size of the entries read so far
	chunk       int64 // planned size of a chunk of unknown size
	err         error
}

// Series returns a reader of the series of p. It skips series without a chunk that overlaps the time range,
// as Prometheus does. Series come in the order of the index, which is that of their labels.
func (r *Reader) Series(p *Postings, s Select) *SeriesReader {
	if s.BatchBytes <= 0 {
		s.BatchBytes = defaultBatchBytes
	}
	return &SeriesReader{reader: r, postings: p, query: s, size: firstWindow, mean: entryGuess}
}

// Next returns the next batch, which the caller releases, or ErrNoMoreSeries after the last one. It reserves
// the bytes of the batch before it allocates them. It costs a few allocations per batch, regardless of the
// number of series.
func (s *SeriesReader) Next(ctx context.Context) (*Batch, error) {
	if s.err != nil {
		return nil, s.err
	}
	b, err := s.batch(ctx)
	if err != nil {
		s.err = err
	}
	return b, err
}

// Ended reports whether the last batch is known to have been returned.
func (s *SeriesReader) Ended() bool { return s.ended && s.next == len(s.reader.scratch.window) }

func (s *SeriesReader) batch(ctx context.Context) (*Batch, error) {
	if _, err := s.reader.prepare(ctx); err != nil {
		return nil, err
	}
	for {
		if !s.begun || s.next == len(s.reader.scratch.window) {
			if err := s.refill(ctx); err != nil {
				return nil, err
			}
			if s.query.Keep != nil {
				if err := s.applyKeep(ctx); err != nil {
					return nil, err
				}
				continue
			}
		}
		b := newBatch(s.reader.block, s.reader.account.quota)
		s.chunk = s.reader.block.lengths.mean(chunkGuess)
		err := panics.Guard(func() error { return s.decode(ctx, b) })
		if err == nil && b.Len() > 0 {
			return b, nil
		}
		b.Release()
		if err != nil {
			return nil, err
		}
	}
}

// refill fills the window with the next references, and pins the pages of their entries.
func (s *SeriesReader) refill(ctx context.Context) error {
	r := s.reader
	if s.ended {
		return ErrNoMoreSeries
	}
	s.begun = true
	if s.filter == nil && !s.query.Shard.All() {
		h, err := r.block.hashes.get(ctx, r.block.options.Loads)
		if err != nil {
			return err
		}
		s.filter = &shardFilter{h: h, shard: s.query.Shard}
	}
	size := min(s.size, max(s.postings.most, 1))
	window, err := room(r, r.scratch.window[:0], size)
	if err != nil {
		return err
	}
	set := &r.scratch.index
	set.init(r.head.index, slab.Series, &r.stats.Series)
	for len(window) < size && len(set.pins) < windowPages {
		if !s.postings.next() {
			s.ended = true
			break
		}
		ref := s.postings.at
		if s.filter != nil {
			ok, err := s.filter.has(ctx, r, ref)
			if err != nil {
				return err
			}
			if !ok {
				r.stats.Foreign++
				continue
			}
		}
		off := r.head.seriesOffset(ref)
		if off < r.head.series.from || off >= r.head.series.to {
			return r.block.corrupt("index", off, fmt.Sprintf("series %d lies outside of the series", ref))
		}
		window = append(window, ref)
		if _, ok := r.scratch.known.entry(ref); !ok {
			set.request(off, min(max(s.mean, entryGuess), pageSize))
		}
	}
	r.scratch.window, s.next, s.keepApplied = window, 0, false
	s.size = min(2*s.size, maxWindow)
	if len(window) == 0 {
		return ErrNoMoreSeries
	}
	return set.load(ctx)
}

// seriesOffset returns the offset of a series entry in the index.
func (h *header) seriesOffset(ref uint32) int64 {
	if h.version == 1 {
		return int64(ref)
	}
	return int64(ref) * seriesAlign
}

// decode decodes series of the window into b until b is full, and resolves their labels.
func (s *SeriesReader) decode(ctx context.Context, b *Batch) error {
	r := s.reader
	sc := r.scratch
	left := sc.window[s.next:]
	if err := b.account.reserve(slab.Series, b.seriesArena.Need(len(left))); err != nil {
		return err
	}
	series := b.seriesArena.Make(len(left))
	n := 0
	sc.slots = sc.slots[:0]
	var before seriesPlan
	for _, ref := range left {
		body, off, err := s.entry(ctx, ref)
		if err != nil {
			return err
		}
		slots := len(sc.slots)
		p, err := s.series(body, off, ref)
		if err != nil {
			return err
		}
		if err := sc.known.addEntry(r, ref, body); err != nil {
			return err
		}
		if !s.query.SkipChunks {
			b.planned += before.correction(&p)
			if n > 0 && b.planned+p.bytes > s.query.BatchBytes {
				sc.slots = sc.slots[:slots]
				break
			}
		}
		before = p
		s.next++
		if p.count == 0 && !s.every {
			sc.slots = sc.slots[:slots]
			r.stats.Outside++
			continue
		}
		// Symbols are in order, so that their numbers compare as their texts.
		if s.any && slices.Compare(sc.last, sc.slots[slots:]) >= 0 {
			return r.block.corrupt("index", off, "series are not in the order of their labels")
		}
		if sc.last, err = room(r, sc.last[:0], len(sc.slots)-slots); err != nil {
			return err
		}
		sc.last, s.any = append(sc.last, sc.slots[slots:]...), true
		e := &series[n]
		*e = seriesEntry{ref: ref, first: int32(b.chunkCount)}
		pairs := (len(sc.slots) - slots) / 2
		if err := b.account.reserve(slab.Series, b.labelArena.Need(pairs)); err != nil {
			return err
		}
		e.labels = b.labelArena.Make(pairs)
		if !s.query.SkipChunks {
			if err := b.account.reserve(slab.Series, b.chunkArena.Need(p.count)); err != nil {
				return err
			}
			e.chunks = b.chunkArena.Make(p.count)
			copy(e.chunks, sc.chunks)
			b.chunkCount += p.count
			b.planned += p.bytes
		}
		n++
	}
	b.series = series[:n:n]
	if n == 0 {
		return nil
	}
	if err := s.resolve(ctx, &b.text, &b.account); err != nil {
		return err
	}
	slots := sc.slots
	for i := range b.series {
		set := b.series[i].labels
		sc.texts(set, slots)
		slots = slots[2*len(set):]
	}
	return nil
}

// resolve finds the texts of the symbols in scratch.slots and copies them to text. Each distinct symbol has a
// slot, so it is resolved once.
func (s *SeriesReader) resolve(ctx context.Context, text *textArena, a *account) error {
	r := s.reader
	sc := r.scratch
	sc.symbols.reset()
	for i, symbol := range sc.slots {
		slot, err := sc.symbols.slot(r, symbol)
		if err != nil {
			return err
		}
		sc.slots[i] = slot
	}
	err := r.resolveSymbols(ctx, &sc.symbols, func(symbol []byte) (string, error) { return text.add(symbol, a) })
	if err == nil && sc.known.read() {
		sc.known.keep(r.block)
	}
	return err
}

// texts fills set with the labels of the first slots.
func (s *scratch) texts(set []Label, slots []uint32) {
	for i := range set {
		set[i] = Label{s.symbols.texts[slots[2*i]], s.symbols.texts[slots[2*i+1]]}
	}
}

// each calls f for each series, with its symbols in scratch.slots, regardless of its chunks.
func (s *SeriesReader) each(ctx context.Context, f func() error) error {
	sc := s.reader.scratch
	for {
		if err := s.refill(ctx); errors.Is(err, ErrNoMoreSeries) {
			return nil
		} else if err != nil {
			return err
		}
		for _, ref := range sc.window {
			body, off, err := s.entry(ctx, ref)
			if err != nil {
				return err
			}
			sc.slots = sc.slots[:0]
			if _, err := s.series(body, off, ref); err != nil {
				return err
			}
			if err := f(); err != nil {
				return err
			}
		}
	}
}

// entry returns the body of a series entry with a correct checksum, and its offset. Pages that do not decode
// are fetched a second time before the entry counts as corrupt, and do not stay cached.
func (s *SeriesReader) entry(ctx context.Context, ref uint32) ([]byte, int64, error) {
	body, off, err := s.decodeEntry(ctx, ref)
	if err == nil || !isCorrupt(err) {
		return body, off, err
	}
	set := &s.reader.scratch.index
	set.forget(off, entryReach)
	if err := set.load(ctx); err != nil {
		return nil, 0, err
	}
	if body, off, err = s.decodeEntry(ctx, ref); err != nil && isCorrupt(err) {
		set.forget(off, entryReach)
	}
	return body, off, err
}

// decodeEntry decodes the length of an entry and checks its checksum.
func (s *SeriesReader) decodeEntry(ctx context.Context, ref uint32) ([]byte, int64, error) {
	r := s.reader
	set := &r.scratch.index
	off := r.head.seriesOffset(ref)
	if body, ok := r.scratch.known.entry(ref); ok {
		if !s.keepApplied {
			r.stats.Series.Items++
			r.stats.Series.Touched += int64(len(body))
		}
		return body, off, nil
	}
	data, err := set.page(ctx, uint32(off>>pageBits))
	if err != nil {
		return nil, off, err
	}
	data = data[off&(pageSize-1):]
	length, k := uvarint(data)
	if k <= 0 {
		// The length may continue on the next page.
		if data, err = set.view(ctx, off, int(min(binary.MaxVarintLen32, r.head.size-off))); err != nil {
			return nil, off, err
		}
		if length, k = uvarint(data); k <= 0 {
			return nil, off, r.block.corrupt("index", off, "series: "+badVarint)
		}
	}
	if length > uint64(r.head.series.to-off) || off+int64(k)+int64(length)+4 > r.head.series.to {
		return nil, off, r.block.corrupt("index", off, "series: "+badLength)
	}
	n := k + int(length) + 4
	if n > len(data) {
		if data, err = set.view(ctx, off, n); err != nil {
			return nil, off, err
		}
	}
	body := data[k : k+int(length)]
	if binary.BigEndian.Uint32(data[k+int(length):]) != crc32c.Checksum(body) {
		return nil, off, r.block.corrupt("index", off, "series: "+badChecksum)
	}
	s.mean = (7*s.mean + int64(n)) / 8
	if !s.keepApplied {
		r.stats.Series.Items++
		r.stats.Series.Touched += int64(n)
	}
	return body, off, nil
}

// A seriesPlan is the planned size of the chunks of a series that overlap the time range.
type seriesPlan struct {
	count int   // number of those chunks
	bytes int64 // total size
	tail  int64 // part of bytes for the series' last chunk: guessed; 0 if that chunk is not selected

	first, last uint64 // references of the series' first and last chunk; 0 if it has none
}

// correction returns the error of p's bytes, given the plan of the next series. Chunks usually lie in the
// order of their series, so p's last chunk ends where next's first one starts if that is near. If it is far,
// other chunks lie between them.
func (p *seriesPlan) correction(next *seriesPlan) int64 {
	if p.tail == 0 || next.first <= p.last || next.first>>32 != p.last>>32 {
		return 0
	}
	if n := int64(next.first - p.last); n <= 2*p.tail {
		return n - p.tail
	}
	return 0
}

// series decodes an entry: it appends its symbols to scratch.slots, and sets scratch.chunks to the chunks
// that overlap the time range.
func (s *SeriesReader) series(b []byte, off int64, number uint32) (seriesPlan, error) {
	r := s.reader
	sc := r.scratch
	var err error
	d := decoder{rest: b}
	pairs := d.count(2)
	if sc.slots, err = room(r, sc.slots, int(2*pairs)); err != nil {
		return seriesPlan{}, err
	}
	unordered := false
	for last := int64(-1); pairs > 0; pairs-- {
		name, value := d.short(), d.short()
		if (name|value)>>32 != 0 {
			d.bad = true
		}
		// Symbols are in order. Merges and PromQL rely on that of names, and on names that differ.
		unordered = unordered || int64(name) <= last
		last = int64(name)
		sc.slots = append(sc.slots, uint32(name), uint32(value))
	}
	chunks := d.count(3)
	if sc.chunks, err = room(r, sc.chunks[:0], int(chunks)); err != nil {
		return seriesPlan{}, err
	}
	out := sc.chunks
	// before is the reference of the previous chunk if it was selected: it ends where this one starts.
	var p seriesPlan
	var before uint64
	taken, known, total := false, int64(0), int64(0)
	var at int64
	var ref uint64
	var last int64 // start of the previous chunk
	disorder := false
	for i := range chunks {
		var from, to int64
		if i == 0 {
			from = unzigzag(d.short())
			to = from + int64(d.short())
			ref = d.short()
			p.first = ref
		} else {
			from = at + int64(d.short())
			to = from + int64(d.short())
			step := unzigzag(d.short())
			ref += uint64(step)
			if step == 0 && from == last && to == at && !d.bad {
				continue // the same chunk, listed twice
			}
			// Chunks may overlap: old compactors wrote such blocks.
			disorder = disorder || from < last || step == 0
		}
		d.bad = d.bad || to < from
		last, at = from, to
		if taken && ref > before && ref>>32 == before>>32 {
			known++
			total += int64(ref - before)
		}
		taken = to >= s.query.MinTime && from <= s.query.MaxTime &&
			(s.query.Deleted == nil || !s.query.Deleted(number, from, to))
		before = ref
		if taken {
			out = append(out, Chunk{Ref: ref, MinTime: from, MaxTime: to})
		}
	}
	sc.chunks = out
	switch {
	case d.bad:
		return seriesPlan{}, r.block.corrupt("index", off, "series entry ends early or has a number out of range")
	case unordered:
		return seriesPlan{}, r.block.corrupt("index", off, "the labels of a series are not in the order of their names, or a name repeats")
	case disorder:
		return seriesPlan{}, r.block.corrupt("index", off, "the chunks of a series are not in the order of their times")
	}
	// Assume that chunks of unknown size are like the series' other chunks, or the block's.
	guess := s.chunk
	if known > 0 {
		guess = total / known
	}
	p.count, p.last = len(out), ref
	p.bytes = total + guess*(int64(len(out))-known)
	if taken {
		p.tail = guess
	}
	return p, nil
}

// short reads a number that usually has one to three bytes.
func (d *decoder) short() uint64 {
	if b := d.rest; len(b) >= 2 {
		if b[0] < 0x80 {
			d.rest = b[1:]
			return uint64(b[0])
		}
		if b[1] < 0x80 {
			d.rest = b[2:]
			return uint64(b[0]&0x7f) | uint64(b[1])<<7
		}
		if len(b) >= 3 && b[2] < 0x80 {
			d.rest = b[3:]
			return uint64(b[0]&0x7f) | uint64(b[1]&0x7f)<<7 | uint64(b[2])<<14
		}
	}
	return d.uvarint()
}

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
