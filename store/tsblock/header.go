package tsblock

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"unsafe"
)

// sampleEvery is the sampling interval: the position of one in sampleEvery symbols and label values is kept
// in memory.
const sampleEvery = 32

// A header is the part of an index that is in memory while the block is in use. The pages of its file have
// two parts, in this order:
//
//   - symbols: as in the index, each a length and that many bytes;
//   - table: the postings offset table, in runs of at most sampleEvery values of one label name. A value is a
//     length, that many bytes, the distance of its list from the end of the previous list (a signed varint;
//     in a run's first value from 0), and the size of its list in bytes (0: unknown).
type header struct {
	file    *pagedFile
	version int   // of the index
	size    int64 // of the index
	index   *pagedFile

	series   bounds // of series entries in the index
	postings bounds // of postings lists

	symbolBase  int64 // version 1, whose symbol references are offsets in the index: offset of the first symbol
	symbolCount uint64
	symbolEnd   int64   // in the file
	symbols     []int64 // offsets of the sampled symbols, version 2

	names []labelName // sorted

	text uintptr // bytes referenced by names and values
}

// bounds are the start and the end of a part of the index.
type bounds struct{ from, to int64 }

// A labelName is a label name and the position of its values.
type labelName struct {
	name   string
	values uint64
	runs   []valueRun
	last   string // greatest value
	end    int64  // end of its values in the file
}

// A valueRun is a run of values that starts with value, at the offset at of the file.
type valueRun struct {
	value string
	at    int64
}

// appendTo appends the part of the header that is kept in memory.
func (h *header) appendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(h.version))
	for _, v := range [...]int64{h.series.from, h.series.to, h.postings.from, h.postings.to, h.symbolBase, h.symbolEnd} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	b = binary.AppendUvarint(b, h.symbolCount)
	b = binary.AppendUvarint(b, uint64(len(h.symbols)))
	last := int64(0)
	for _, at := range h.symbols {
		b = binary.AppendUvarint(b, uint64(at-last))
		last = at
	}
	b = binary.AppendUvarint(b, uint64(len(h.names)))
	for i := range h.names {
		n := &h.names[i]
		b = appendText(b, n.name)
		b = binary.AppendUvarint(b, n.values)
		b = binary.AppendUvarint(b, uint64(len(n.runs)))
		last = 0
		for _, r := range n.runs {
			b = appendText(b, r.value)
			b = binary.AppendUvarint(b, uint64(r.at-last))
			last = r.at
		}
		b = appendText(b, n.last)
		b = binary.AppendUvarint(b, uint64(n.end-last))
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// errMemoryPart reports an invalid memory part whose checksum is right: another program wrote the file.
var errMemoryPart = errStale{"its memory part does not make sense"}

// parseHeader decodes the output of appendTo. Texts are views of b.
func parseHeader(b []byte, pagesSize int64) (*header, error) {
	d := decoder{rest: b}
	h := &header{version: int(d.uvarint()), text: uintptr(cap(b))}
	for _, v := range [...]*int64{&h.series.from, &h.series.to, &h.postings.from, &h.postings.to, &h.symbolBase, &h.symbolEnd} {
		*v = d.int63()
	}
	h.symbolCount = d.uvarint()
	h.symbols = make([]int64, d.count(1))
	last := int64(0)
	for i := range h.symbols {
		last += d.int63()
		h.symbols[i] = last
		d.check(last >= 0 && last <= h.symbolEnd)
	}
	h.names = make([]labelName, d.count(5))
	for i := range h.names {
		n := &h.names[i]
		n.name = d.text()
		n.values = d.uvarint()
		n.runs = make([]valueRun, d.count(2))
		last = 0
		for j := range n.runs {
			n.runs[j].value = d.text()
			last += d.int63()
			n.runs[j].at = last
			d.check(last >= h.symbolEnd && last <= pagesSize)
		}
		n.last = d.text()
		n.end = last + d.int63()
		d.check(n.end >= last && n.end <= pagesSize && len(n.runs) > 0)
		d.check(i == 0 || h.names[i-1].name < n.name)
	}
	wanted := uint64(0)
	if h.version == 2 {
		wanted = (h.symbolCount + sampleEvery - 1) / sampleEvery
	}
	d.check(len(d.rest) == 0 && h.symbolEnd <= pagesSize && uint64(len(h.symbols)) == wanted)
	if d.bad {
		return nil, errMemoryPart
	}
	return h, nil
}

// A decoder reads numbers and texts of a part whose checksum is right. Invalid input sets bad.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) check(ok bool) { d.bad = d.bad || !ok }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// int63 reads a size or an offset.
func (d *decoder) int63() int64 {
	v := d.uvarint()
	d.check(v < 1<<62)
	return int64(v & (1<<62 - 1))
}

// count reads the number of following items, each of at least size bytes.
func (d *decoder) count(size uint64) uint64 {
	v := d.uvarint()
	if v > uint64(len(d.rest))/size {
		d.bad, d.rest = true, nil
		return 0
	}
	return v
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return ""
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// name returns the label name, or nil if the block does not have it.
func (h *header) name(name string) *labelName {
	lo, hi := 0, len(h.names)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if h.names[mid].name < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(h.names) && h.names[lo].name == name {
		return &h.names[lo]
	}
	return nil
}

// run returns the index of the run that would contain value, or -1 if value is less than all values.
func (n *labelName) run(value string) int {
	lo, hi := 0, len(n.runs)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if strings.Compare(n.runs[mid].value, value) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// loadHeader loads the header from the local file, and builds the file if it is unusable.
func (b *Block) loadHeader(ctx context.Context) (*header, error) {
	if !b.retain() {
		defer b.release()
		return nil, b.closedError()
	}
	defer b.release()
	size, err := b.source.Size(ctx, b.object("index"))
	if err != nil {
		return nil, b.failed("size of index", err)
	}
	path, id := filepath.Join(b.dir, headerName), identity{b.meta.ULID, size}
	h, err := b.openHeader(path, id)
	if err == nil {
		return h, nil
	}
	b.logDamaged(path, err)
	b.options.Cache.forget(b.number) // cached pages may be of the replaced file
	if err = b.buildHeader(ctx, path, id); err != nil && isCorrupt(err) {
		err = b.buildHeader(ctx, path, id) // the first read may have been damaged in transit
	}
	if err != nil {
		return nil, err
	}
	if h, err = b.openHeader(path, id); err != nil {
		return nil, b.justBuilt(headerName, err)
	}
	return h, nil
}

// discard removes a local file with a damaged page, so that it is built again. drop reports whether the
// loaded form of the file is still the damaged one: if not, another reader has removed the file.
func (b *Block) discard(path string, drop func() bool) {
	b.repair.Lock()
	defer b.repair.Unlock()
	if !drop() {
		return
	}
	b.options.Log.Warn("local file damaged; rebuilding", "block", b.prefix, "file", filepath.Base(path))
	removeDamaged(path)
}

// logDamaged logs why a local file is rebuilt, unless it is missing.
func (b *Block) logDamaged(path string, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		b.options.Log.Warn("local file unusable; rebuilding it", "block", b.prefix, "file", filepath.Base(path), "error", err)
	}
}

func (b *Block) openHeader(path string, id identity) (*header, error) {
	l, err := openLocal(path, headerFile, id)
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(l.memory, l.paged)
	if err != nil {
		return nil, err
	}
	h.size = id.size
	h.file = l.pages(b, path, headerFile, func(ctx context.Context) error {
		b.discard(path, func() bool { return b.header.dropThis(h) })
		_, err := b.header.get(ctx, nil) // waits while another reader builds it
		return err
	})
	h.index = &pagedFile{
		name: "index", kind: indexFile, size: id.size,
		read: b.readIndex, costs: CostsOf(b.source),
	}
	return h, nil
}
