package tsblock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/taredb/tare/internal/crc32c"
)

// Constants of the index format.
const (
	indexMagic   = 0xBAAAD700
	indexHead    = 5       // magic and version
	indexTOC     = 6*8 + 4 // six offsets and their CRC32C, at the end
	seriesAlign  = 16      // version 2: series entries start at multiples, which are their references
	maxIndexSize = 1 << 46 // pages are numbered in 32 bits
)

// Bounds of memory beyond the budgets of queries.
const (
	// maxHeaderHeap bounds a header in memory. It exceeds that of any index with few label names, as large as its format
	// allows.
	maxHeaderHeap = 512 << 20

	// maxSortHeap bounds a table that is sorted in memory.
	maxSortHeap = 256 << 20
)

// errHeaderHeap reports an index whose header would exceed them.
var errHeaderHeap = errors.New("its label names and values take too much memory")

// errUnordered reports a postings offset table that is not sorted. Version 1 does not require it to be.
var errUnordered = errors.New("postings offset table is not in order")

// buildHeader writes the local file of the index header from ranges of the index: head, table of contents,
// symbols, postings offset table. It checks all their checksums.
func (b *Block) buildHeader(ctx context.Context, path string, id identity) error {
	err := b.writeHeader(ctx, path, id, false)
	if errors.Is(err, errUnordered) {
		err = b.writeHeader(ctx, path, id, true)
	}
	if err != nil {
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			return err // it names the block already
		}
		return fmt.Errorf("build index header of block %s: %w", b.prefix, err)
	}
	return nil
}

func (b *Block) writeHeader(ctx context.Context, path string, id identity, sort bool) error {
	if id.size <= wholeIndex {
		release, err := b.readWhole(ctx, id.size)
		if err != nil {
			return err
		}
		defer release()
	}
	h, toc, err := b.readTOC(ctx, id.size)
	if err != nil {
		return err
	}
	w, err := createLocal(path)
	if err != nil {
		return err
	}
	defer w.abandon()
	if err := b.writeSymbols(ctx, w, h, toc); err != nil {
		return err
	}
	t := tableWriter{w: w, h: h}
	if sort {
		err = b.sortTable(ctx, &t, toc)
	} else {
		err = b.writeTable(ctx, &t, toc)
	}
	if errors.Is(err, errHeaderHeap) {
		return b.corrupt("index", toc.table, err.Error())
	}
	if err != nil {
		return err
	}
	slices.SortFunc(h.names, func(a, b labelName) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(h.names); i++ {
		if h.names[i].name == h.names[i-1].name {
			return errUnordered
		}
	}
	memory := h.appendTo(nil)
	if len(memory) > maxMemoryPart {
		return fmt.Errorf("the part to keep in memory has %d bytes", len(memory))
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return w.commit(headerFile, id, memory)
}

// A contents is the table of contents of the index.
type contents struct {
	symbols, series, postings, table int64
	end                              int64 // offset of the table of contents
}

// readTOC reads the head and the table of contents.
func (b *Block) readTOC(ctx context.Context, size int64) (*header, *contents, error) {
	if size < indexHead+indexTOC || size > maxIndexSize {
		return nil, nil, b.corrupt("index", 0, fmt.Sprintf("it cannot be that it has %d bytes", size))
	}
	be := binary.BigEndian
	var head [indexHead]byte
	if err := b.readIndex(ctx, head[:], 0); err != nil {
		return nil, nil, err
	}
	if be.Uint32(head[:]) != indexMagic {
		return nil, nil, b.corrupt("index", 0, "it does not begin as an index does")
	}
	h := &header{version: int(head[4]), size: size}
	if h.version != 1 && h.version != 2 {
		return nil, nil, b.corrupt("index", 4, fmt.Sprintf("version %d is neither 1 nor 2", h.version))
	}
	var toc [indexTOC]byte
	t := &contents{end: size - indexTOC}
	if err := b.readIndex(ctx, toc[:], t.end); err != nil {
		return nil, nil, err
	}
	if crc32c.Checksum(toc[:indexTOC-4]) != be.Uint32(toc[indexTOC-4:]) {
		return nil, nil, b.corrupt("index", t.end, "table of contents: "+badChecksum)
	}
	var all [6]int64
	for i := range all {
		v := be.Uint64(toc[8*i:])
		if v > uint64(t.end) {
			return nil, nil, b.corrupt("index", t.end+int64(8*i), "table of contents: an offset past the end")
		}
		all[i] = int64(v)
	}
	// A section ends where the next one starts.
	part := func(from int64) bounds {
		to := t.end
		for _, v := range all {
			if v > from {
				to = min(to, v)
			}
		}
		return bounds{from, to}
	}
	// symbols, series, label indices, their table, postings, their table
	t.symbols, t.series, t.postings, t.table = all[0], all[1], all[4], all[5]
	h.series, h.postings = part(t.series), part(t.postings)
	h.symbolBase = t.symbols + 8
	return h, t, nil
}

// writeSymbols copies the symbols.
func (b *Block) writeSymbols(ctx context.Context, w *localWriter, h *header, t *contents) error {
	s, err := b.openSection(ctx, t.symbols, t.end)
	if err != nil {
		return err
	}
	count, err := s.uint32(ctx)
	if err != nil {
		return err
	}
	h.symbolCount = uint64(count)
	var length, before []byte
	for i := range count {
		if h.version == 2 && i%sampleEvery == 0 {
			h.symbols = append(h.symbols, w.n)
		}
		text, err := s.text(ctx)
		if err != nil {
			return err
		}
		if i > 0 && bytes.Compare(text, before) <= 0 {
			return s.corrupt("symbols are not in order")
		}
		before = append(before[:0], text...)
		// Unchanged: version 1 refers to symbols by their offsets.
		length = binary.AppendUvarint(length[:0], uint64(len(text)))
		if err := w.write(length); err != nil {
			return err
		}
		if err := w.write(text); err != nil {
			return err
		}
		if h.version == 1 && w.n != s.at()-h.symbolBase {
			return s.corrupt("a length is not written as short as it can be")
		}
	}
	h.symbolEnd = w.n
	return s.finish(ctx)
}

// An offsetEntry is an entry of the postings offset table.
type offsetEntry struct {
	name, value string
	off         int64
}

// eachOffset calls f for each entry. Name and value are valid during the call.
func (b *Block) eachOffset(ctx context.Context, t *contents, f func(name, value []byte, off int64) error) error {
	s, err := b.openSection(ctx, t.table, t.end)
	if err != nil {
		return err
	}
	count, err := s.uint32(ctx)
	if err != nil {
		return err
	}
	var name, value []byte // copies: reading on overwrites the views
	for range count {
		if s.left() == 0 {
			return s.corrupt(endsEarly)
		}
		keys, err := s.uvarint(ctx)
		if err != nil {
			return err
		}
		if keys != 2 {
			return s.corrupt(fmt.Sprintf("an entry of %d keys", keys))
		}
		text, err := s.text(ctx)
		if err != nil {
			return err
		}
		name = append(name[:0], text...)
		text, err = s.text(ctx)
		if err != nil {
			return err
		}
		value = append(value[:0], text...)
		at := s.at()
		off, err := s.uvarint(ctx)
		if err != nil {
			return err
		}
		if off >= uint64(t.end) {
			return b.corrupt("index", at, "a postings list past the end")
		}
		if err := f(name, value, int64(off)); err != nil {
			return err
		}
	}
	return s.finish(ctx)
}

// writeTable copies a sorted postings offset table. A list ends where the next one starts.
func (b *Block) writeTable(ctx context.Context, t *tableWriter, toc *contents) error {
	var name, value []byte
	var off int64
	begun := false
	err := b.eachOffset(ctx, toc, func(nextName, nextValue []byte, nextOff int64) error {
		if begun {
			if err := t.add(name, value, off, max(nextOff-off, 0)); err != nil {
				return err
			}
		}
		begun = true
		name, value, off = append(name[:0], nextName...), append(value[:0], nextValue...), nextOff
		return nil
	})
	if err != nil || !begun {
		return err
	}
	size, err := b.lastList(ctx, off, t.h)
	if err != nil {
		return err
	}
	if err := t.add(name, value, off, size); err != nil {
		return err
	}
	t.endName()
	return nil
}

// lastList returns the size of a postings list that no other list follows: the rest of its section, if the
// length that the list starts with says so too. No checksum protects that length. If they differ, it returns 0: readers
// of the list then take its size from its length, and report an error if the bytes are not a list.
func (b *Block) lastList(ctx context.Context, off int64, h *header) (int64, error) {
	size := h.postings.to - off
	if size < listFrame || off+4 > h.size-indexTOC {
		return 0, nil
	}
	var length [4]byte
	if err := b.readIndex(ctx, length[:], off); err != nil {
		return 0, err
	}
	if size != 4+int64(binary.BigEndian.Uint32(length[:]))+4 {
		return 0, nil
	}
	return size, nil
}

// sortTable writes a table that may be unsorted, and keeps all of it in memory. Of two entries for one value
// the later counts, as in Prometheus' reader.
func (b *Block) sortTable(ctx context.Context, t *tableWriter, toc *contents) error {
	var entries []offsetEntry
	var offs []int64
	last := ""
	heap := 0
	err := b.eachOffset(ctx, toc, func(name, value []byte, off int64) error {
		if last != string(name) {
			last = string(name)
			heap += len(name)
		}
		heap += int(unsafe.Sizeof(offsetEntry{})+unsafe.Sizeof(off)) + len(value)
		if heap > maxSortHeap {
			return errHeaderHeap
		}
		entries = append(entries, offsetEntry{last, string(value), off})
		offs = append(offs, off)
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(offs)
	slices.SortStableFunc(entries, func(a, b offsetEntry) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	for i, e := range entries {
		if i+1 < len(entries) && entries[i+1].name == e.name && entries[i+1].value == e.value {
			continue
		}
		var size int64
		if next, _ := slices.BinarySearch(offs, e.off+1); next < len(offs) {
			size = offs[next] - e.off
		} else if size, err = b.lastList(ctx, e.off, t.h); err != nil {
			return err
		}
		if err := t.add([]byte(e.name), []byte(e.value), e.off, size); err != nil {
			return err
		}
	}
	t.endName()
	return nil
}

// A tableWriter writes the table of a header and samples it.
type tableWriter struct {
	w       *localWriter
	h       *header
	current *labelName // the last of h.names, or nil after its end
	value   []byte     // the last value
	heap    int        // bytes of the header's names
	listEnd int64
	entry   []byte
}

// add writes one value.
func (t *tableWriter) add(name, value []byte, off, size int64) error {
	if t.current == nil || t.current.name != string(name) {
		t.endName()
		t.h.names = append(t.h.names, labelName{name: string(name)})
		t.current = &t.h.names[len(t.h.names)-1]
		t.heap += int(unsafe.Sizeof(labelName{})) + 2*len(name) + len(value)
	} else if string(value) <= string(t.value) {
		return errUnordered
	}
	if t.current.values%sampleEvery == 0 {
		t.current.runs = append(t.current.runs, valueRun{string(value), t.w.n})
		t.listEnd = 0
		if t.heap += int(unsafe.Sizeof(valueRun{})) + len(value); t.heap > maxHeaderHeap {
			return errHeaderHeap
		}
	}
	t.current.values++
	t.value = append(t.value[:0], value...)
	t.entry = binary.AppendUvarint(t.entry[:0], uint64(len(value)))
	t.entry = append(t.entry, value...)
	t.entry = binary.AppendVarint(t.entry, off-t.listEnd)
	t.entry = binary.AppendUvarint(t.entry, uint64(size))
	t.listEnd = off + size
	return t.w.write(t.entry)
}

// endName finishes the values of the current name.
func (t *tableWriter) endName() {
	if t.current != nil {
		t.current.last, t.current.end = string(t.value), t.w.n
		t.current = nil
	}
}
