package testblock

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
)

// chunked is a series as chunks.
type chunked struct {
	labels labels.Labels
	chunks []chunks.Meta
}

// WriteChunks writes a block into dir in which a series has chunks of each item with its labels: they overlap where the
// samples do. It returns the block's id. The chunks of a series are in the order of their minimum times.
func WriteChunks(dir string, series []Series, external map[string]string) (ulid.ULID, error) {
	series = slices.Clone(series)
	slices.SortStableFunc(series, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	id := ulid.Make()
	meta := tsdb.BlockMeta{ULID: id, MinTime: math.MaxInt64, MaxTime: math.MinInt64, Version: 1}
	meta.Compaction = tsdb.BlockMetaCompaction{Level: 1, Sources: []ulid.ULID{id}}
	var all []chunked
	for _, s := range series {
		if len(s.Samples) == 0 {
			continue
		}
		if n := len(all); n == 0 || !labels.Equal(all[n-1].labels, s.Labels) {
			all = append(all, chunked{labels: s.Labels})
		}
		last := &all[len(all)-1]
		var samples []chunks.Sample
		for _, x := range s.Samples {
			samples = append(samples, written{x})
			meta.MinTime, meta.MaxTime = min(meta.MinTime, x.T), max(meta.MaxTime, x.T+1)
		}
		it := storage.NewSeriesToChunkEncoder(storage.NewListSeries(s.Labels, samples)).Iterator(nil)
		for it.Next() {
			last.chunks = append(last.chunks, it.At())
		}
		if it.Err() != nil {
			return ulid.ULID{}, it.Err()
		}
	}
	for _, s := range all {
		slices.SortStableFunc(s.chunks, func(a, b chunks.Meta) int { return cmp.Compare(a.MinTime, b.MinTime) })
		meta.Stats.NumChunks += uint64(len(s.chunks))
	}
	meta.Stats.NumSeries = uint64(len(all))
	out := filepath.Join(dir, id.String())
	if err := errors.Join(writeChunks(out, all), replaceEntries(filepath.Join(out, "index"), all)); err != nil {
		return ulid.ULID{}, err
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return ulid.ULID{}, err
	}
	if err := os.WriteFile(filepath.Join(out, "meta.json"), text, 0o600); err != nil || external == nil {
		return id, err
	}
	return id, writeThanos(out, Options{External: external})
}

// written is a sample as an encoder reads it.
type written struct{ s Sample }

var _ chunks.Sample = written{}

// T implements chunks.Sample.
func (w written) T() int64 { return w.s.T }

// ST implements chunks.Sample.
func (w written) ST() int64 { return w.s.ST }

// F implements chunks.Sample.
func (w written) F() float64 { return w.s.V }

// H implements chunks.Sample.
func (w written) H() *histogram.Histogram { return w.s.H }

// FH implements chunks.Sample.
func (w written) FH() *histogram.FloatHistogram { return w.s.FH }

// Type implements chunks.Sample.
func (w written) Type() chunkenc.ValueType { return kind(w.s) }

// Copy implements chunks.Sample.
func (w written) Copy() chunks.Sample {
	c := w.s
	if c.H != nil {
		c.H = c.H.Copy()
	}
	if c.FH != nil {
		c.FH = c.FH.Copy()
	}
	return written{c}
}

// writeChunks writes the chunks and the index of a block.
func writeChunks(dir string, all []chunked) (err error) {
	w, err := chunks.NewWriter(filepath.Join(dir, "chunks"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	ix, err := index.NewWriter(context.Background(), filepath.Join(dir, "index"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.Close()) }()
	symbols := make(map[string]bool)
	for _, s := range all {
		s.labels.Range(func(l labels.Label) { symbols[l.Name], symbols[l.Value] = true, true })
	}
	sorted := make([]string, 0, len(symbols))
	for s := range symbols {
		sorted = append(sorted, s)
	}
	slices.Sort(sorted)
	for _, s := range sorted {
		if err := ix.AddSymbol(s); err != nil {
			return err
		}
	}
	for n := range all {
		if err := w.WriteChunks(all[n].chunks...); err != nil { // sets their references
			return err
		}
		if err := ix.AddSeries(storage.SeriesRef(n), all[n].labels, listed(all[n].chunks)...); err != nil {
			return err
		}
	}
	return nil
}

// standIns is the number of chunks of the least entry that is as long as the longest entry of one chunk.
const standIns = 8

// inOrder reports whether Prometheus' writer accepts the chunks of a series.
func inOrder(cs []chunks.Meta) bool {
	for i := range cs[1:] {
		if cs[i+1].MinTime <= cs[i].MaxTime {
			return false
		}
	}
	return true
}

// listed returns the chunks to write into an index for a series: those of a longer entry in the place of chunks that
// Prometheus' writer refuses, because they overlap.
func listed(cs []chunks.Meta) (all []chunks.Meta) {
	if inOrder(cs) {
		return cs
	}
	for _, c := range cs {
		for range standIns {
			t := int64(len(all))
			all = append(all, chunks.Meta{Ref: c.Ref, MinTime: t, MaxTime: t})
		}
	}
	return all
}

// replaceEntries writes the entries of series whose chunks overlap over those of the chunks that listed returned.
func replaceEntries(file string, all []chunked) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	r, err := index.NewReader(sliceOf(slices.Clone(text)), index.DecodePostingsRaw)
	if err != nil {
		return err
	}
	defer r.Close()
	name, value := index.AllPostingsKey()
	p, err := r.Postings(context.Background(), name, value)
	if err != nil {
		return err
	}
	for n := 0; p.Next(); n++ {
		if !inOrder(all[n].chunks) {
			replaceEntry(text[16*p.At():], all[n].chunks)
		}
	}
	if p.Err() != nil {
		return p.Err()
	}
	return os.WriteFile(file, text, 0o600)
}

// sliceOf is a slice as an index.ByteSlice.
type sliceOf []byte

var _ index.ByteSlice = sliceOf(nil)

// Len implements index.ByteSlice.
func (s sliceOf) Len() int { return len(s) }

// Range implements index.ByteSlice.
func (s sliceOf) Range(start, end int) []byte { return s[start:end] }

// replaceEntry writes an entry with the labels of that at the start of text and other chunks.
func replaceEntry(text []byte, cs []chunks.Meta) {
	size, k := binary.Uvarint(text)
	old := text[k : k+int(size)]
	pairs, at := binary.Uvarint(old)
	for range 2 * pairs {
		_, n := binary.Uvarint(old[at:])
		at += n
	}
	body := binary.AppendUvarint(slices.Clone(old[:at]), uint64(len(cs)))
	for i, c := range cs {
		if i == 0 {
			body = binary.AppendVarint(body, c.MinTime)
			body = binary.AppendUvarint(body, uint64(c.MaxTime-c.MinTime))
			body = binary.AppendUvarint(body, uint64(c.Ref))
			continue
		}
		body = binary.AppendUvarint(body, uint64(c.MinTime-cs[i-1].MaxTime)) // negative if they overlap
		body = binary.AppendUvarint(body, uint64(c.MaxTime-c.MinTime))
		body = binary.AppendVarint(body, int64(c.Ref)-int64(cs[i-1].Ref))
	}
	entry := append(binary.AppendUvarint(nil, uint64(len(body))), body...)
	entry = binary.BigEndian.AppendUint32(entry, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	space := text[:k+int(size)+4]
	if len(entry) > len(space) {
		panic("BUG: an entry is longer than that of its stand-ins")
	}
	clear(space[copy(space, entry):])
}
