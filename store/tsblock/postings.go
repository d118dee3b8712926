package tsblock

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
)

// Postings are ascending series references: the lists selected by matchers, combined while iterating. They
// are valid until their Reader is closed, and can be iterated once.
type Postings struct {
	root  stream // nil: empty
	at    uint32 // the current reference
	begun bool
	ended bool
	most  int // an upper bound of the number of references
}

// A stream is a set of references.
type stream interface {
	// seek returns the first reference that is not less than ref. Successive calls must not pass smaller
	// references.
	seek(ref uint32) (uint32, bool)
}

// next advances to the next reference and reports whether there is one. It does not allocate.
func (p *Postings) next() bool {
	if !p.begun {
		return p.seek(0)
	}
	if p.at == math.MaxUint32 {
		p.ended = true
	}
	return !p.ended && p.find(p.at+1)
}

// seek advances to the first reference that is not less than ref, unless the current one satisfies that, and
// reports whether there is one. It does not allocate.
func (p *Postings) seek(ref uint32) bool {
	if p.ended || p.begun && p.at >= ref {
		return !p.ended
	}
	p.begun = true
	return p.find(ref)
}

func (p *Postings) find(ref uint32) bool {
	if p.root == nil {
		p.ended = true
		return false
	}
	at, ok := p.root.seek(ref)
	p.at, p.ended = at, !ok
	return ok
}

// A list is a set of references in memory.
type list struct {
	refs []uint32 // ascending
}

// seek uses galloping search: near references take a few steps, far ones a number logarithmic in their
// distance.
func (l *list) seek(ref uint32) (uint32, bool) {
	refs := l.refs
	if len(refs) == 0 {
		return 0, false
	}
	if refs[0] >= ref {
		return refs[0], true
	}
	// refs[lo] < ref; refs[hi], if it exists, is not.
	lo, hi := 0, 1
	for hi < len(refs) && refs[hi] < ref {
		lo, hi = hi, 2*hi
	}
	hi = min(hi, len(refs))
	for lo+1 < hi {
		if mid := int(uint(lo+hi) >> 1); refs[mid] < ref {
			lo = mid
		} else {
			hi = mid
		}
	}
	l.refs = refs[hi:]
	if len(l.refs) == 0 {
		return 0, false
	}
	return l.refs[0], true
}

// An intersection is the intersection of its sets. The first should be the smallest.
type intersection struct{ sets []stream }

func (x *intersection) seek(ref uint32) (uint32, bool) {
	agreed := 0
	for i := 0; ; i = (i + 1) % len(x.sets) {
		at, ok := x.sets[i].seek(ref)
		if !ok {
			return 0, false
		}
		if at == ref && agreed > 0 {
			agreed++
		} else {
			ref, agreed = at, 1
		}
		if agreed == len(x.sets) {
			return ref, true
		}
	}
}

// A difference is the set from without the sets less.
type difference struct {
	from stream
	less []stream
}

func (d *difference) seek(ref uint32) (uint32, bool) {
next:
	for {
		at, ok := d.from.seek(ref)
		if !ok {
			return 0, false
		}
		for _, l := range d.less {
			if have, ok := l.seek(at); ok && have == at {
				if at == math.MaxUint32 {
					return 0, false
				}
				ref = at + 1
				continue next
			}
		}
		return at, true
	}
}

// Bounds of a selection that is kept.
const (
	knownRefs  = 16   // series
	knownBytes = 4096 // matchers, series entries and symbols
)

// A knownSelection is the result of matchers in a block: the references of the series and, once they were read, their
// entries and symbols. Small ones are kept in the cache of pages, since the pages that they were decoded from are a
// hundred times as large: where few series of many blocks are read, the pages of all blocks may exceed the cache.
// All of it was checked when it was decoded.
type knownSelection struct {
	key  []byte // the matchers
	page uint32 // of the key in the cache

	found  bool // data is from the cache
	record bool // the selection is not in the cache, and small so far

	data    []byte
	own     []byte // memory of data while the selection is recorded
	series  []knownPart
	symbols []knownPart
}

// A knownPart is the entry of a series, by its reference, or the text of a symbol, by its number. An entry that was
// not read is empty.
type knownPart struct {
	number   uint32
	from, to uint32 // in data
}

// knownSeed is the seed of the hash of matchers.
var knownSeed = maphash.MakeSeed() //nolint:gochecknoglobals // of the process

func (k *knownSelection) reset() {
	k.found, k.record, k.data = false, false, nil
	k.key, k.own, k.series, k.symbols = k.key[:0], k.own[:0], k.series[:0], k.symbols[:0]
}

func (k *knownSelection) bytes() int64 {
	return int64(cap(k.key)+cap(k.own)) + sliceBytes(k.series) + sliceBytes(k.symbols)
}

func (k *knownSelection) cacheKey(b *Block) pageKey {
	return pageKey{block: b.number, page: k.page, file: selectionFile}
}

// known looks up the selection of matchers. It returns nil if the selection is not known, which is then recorded.
func (r *Reader) known(ms []*labels.Matcher) (*Postings, error) {
	k := &r.scratch.known
	k.reset()
	size := 0
	for _, m := range ms {
		size += 1 + 2*binary.MaxVarintLen32 + len(m.Name) + len(m.Value)
	}
	if size > knownBytes/2 {
		return nil, nil
	}
	var err error
	if k.key, err = room(r, k.key, size); err != nil {
		return nil, err
	}
	for _, m := range ms {
		k.key = append(k.key, byte(m.Type))
		k.key = appendText(k.key, m.Name)
		k.key = appendText(k.key, m.Value)
	}
	k.page = uint32(maphash.Bytes(knownSeed, k.key))
	data, ok := r.block.options.Cache.pages.Get(k.cacheKey(r.block))
	d := decoder{rest: data}
	if !ok || d.text() != view(k.key) {
		k.record = true
		return nil, nil
	}
	if err := r.account.reserve(slab.Postings, int64(cap(data))); err != nil {
		return nil, err
	}
	k.found, k.data = true, data
	if k.series, err = k.parts(r, k.series, &d); err != nil {
		return nil, err
	}
	if k.symbols, err = k.parts(r, k.symbols, &d); err != nil {
		return nil, err
	}
	if d.bad || len(d.rest) > 0 {
		panic("BUG: a known selection does not decode")
	}
	r.stats.Postings.Cached += int64(len(data))
	return r.postingsOf(k.series)
}

// parts decodes a list of parts.
func (k *knownSelection) parts(r *Reader, parts []knownPart, d *decoder) ([]knownPart, error) {
	n := int(d.count(2))
	parts, err := room(r, parts, n)
	if err != nil {
		return parts, err
	}
	number := uint32(0)
	for range n {
		number += uint32(d.uvarint())
		size := uint32(len(d.text()))
		to := uint32(len(k.data) - len(d.rest))
		parts = append(parts, knownPart{number: number, from: to - size, to: to})
	}
	return parts, nil
}

// postingsOf returns the postings of a selection's series.
func (r *Reader) postingsOf(series []knownPart) (*Postings, error) {
	if len(series) == 0 {
		return &Postings{}, nil
	}
	buffer, err := r.alloc(slab.Postings, 4*len(series))
	if err != nil {
		return nil, err
	}
	refs := refsIn(buffer)
	for _, p := range series {
		refs = append(refs, p.number)
	}
	r.stats.Refs += int64(len(refs))
	return &Postings{root: &list{refs}, most: len(refs)}, nil
}

// recordPostings records the postings of the matchers that known was called with, if they are few. It returns them
// to be iterated.
func (r *Reader) recordPostings(p *Postings) (*Postings, error) {
	k := &r.scratch.known
	if !k.record {
		return p, nil
	}
	if p.root != nil && p.most > knownRefs {
		k.record = false
		return p, nil
	}
	var err error
	if k.series, err = room(r, k.series, knownRefs); err != nil {
		return nil, err
	}
	for p.next() {
		k.series = append(k.series, knownPart{number: p.at})
	}
	k.keep(r.block)
	counted := r.stats.Refs
	p, err = r.postingsOf(k.series)
	r.stats.Refs = counted
	return p, err
}

// entry returns the known entry of a series.
func (k *knownSelection) entry(ref uint32) ([]byte, bool) {
	if !k.found {
		return nil, false
	}
	return k.find(k.series, ref)
}

// symbol returns the known text of a symbol.
func (k *knownSelection) symbol(number uint32) ([]byte, bool) {
	if !k.found {
		return nil, false
	}
	return k.find(k.symbols, number)
}

func (k *knownSelection) find(parts []knownPart, number uint32) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(parts, number, func(p knownPart, number uint32) int { return int(int64(p.number) - int64(number)) })
	if !ok || parts[i].from == parts[i].to {
		return nil, false
	}
	return k.data[parts[i].from:parts[i].to:parts[i].to], true
}

// addEntry records the entry of a series.
func (k *knownSelection) addEntry(r *Reader, ref uint32, entry []byte) error {
	if !k.record {
		return nil
	}
	for i := range k.series {
		if p := &k.series[i]; p.number == ref && p.from == p.to {
			var err error
			*p, err = k.add(r, ref, entry)
			return err
		}
	}
	return nil
}

// addSymbol records the text of a symbol. Symbols ascend within a batch; only those of the first batch are recorded.
func (k *knownSelection) addSymbol(r *Reader, number uint32, text []byte) error {
	if !k.record || len(k.symbols) > 0 && k.symbols[len(k.symbols)-1].number >= number {
		return nil
	}
	symbols, err := room(r, k.symbols, 1)
	if err != nil {
		return err
	}
	p, err := k.add(r, number, text)
	k.symbols = append(symbols, p)
	return err
}

// add copies bytes to own. It stops recording if there are too many.
func (k *knownSelection) add(r *Reader, number uint32, b []byte) (knownPart, error) {
	if len(k.own)+len(b) > knownBytes {
		k.record = false
		return knownPart{number: number}, nil
	}
	own, err := room(r, k.own, len(b))
	if err != nil {
		return knownPart{number: number}, err
	}
	from := uint32(len(own))
	k.own = append(own, b...)
	return knownPart{number: number, from: from, to: uint32(len(k.own))}, nil
}

// read reports whether the entries of all series were recorded.
func (k *knownSelection) read() bool {
	return k.record && !slices.ContainsFunc(k.series, func(p knownPart) bool { return p.from == p.to })
}

// keep adds the selection to the cache.
func (k *knownSelection) keep(b *Block) {
	if !k.record {
		return
	}
	size := len(k.key) + len(k.own) + binary.MaxVarintLen32*(3+2*len(k.series)+2*len(k.symbols))
	data := appendText(make([]byte, 0, size), view(k.key))
	for _, parts := range [...][]knownPart{k.series, k.symbols} {
		data = binary.AppendUvarint(data, uint64(len(parts)))
		last := uint32(0)
		for _, p := range parts {
			data = binary.AppendUvarint(data, uint64(p.number-last))
			data = appendText(data, view(k.own[p.from:p.to]))
			last = p.number
		}
	}
	b.options.Cache.pages.Set(k.cacheKey(b), slices.Clone(data))
}
