package stmtstats

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/querylog"
)

// The file has a header, two sets of totals of evicted entries, the entries and the pages, in native byte
// order. The first entry is Other's. Page 0 is unused, so that 0 means none.
const (
	magic       = "tarehist"
	version     = 2 // version 1 has no names of counters; it is readable
	byteOrder   = 0x01020304
	headerBytes = 4096
	entryBytes  = int(unsafe.Sizeof(entry{}))
	totalsBytes = int(unsafe.Sizeof(totals{}))
	pageBytes   = PerOctave * 8
	pageText    = pageBytes - 4 // of a text, after the number of its next page

	// Texts of more than shortPages pages are long: the pages of long texts beyond the first shortPages are at most one
	// in longTextPart of all, and further long texts are cut to shortText.
	shortPages   = 4
	shortText    = shortPages * pageText
	longTextPart = 8
)

// A header is the start of the file. The fields up to sum and the names are written once, when the file is created.
type header struct {
	magic                         [8]byte
	version, order                uint32
	entryBytes, octaves, counters uint32 // counters: of an entry; in version 1 its classes of errors
	entries, pages                uint32
	sum                           uint32 // CRC-32C of all fields before it

	// redaction is the last one with which texts were stored: the file has no text that it forbids.
	redaction atomic.Uint64

	nextID atomic.Uint64

	// moved has the id of the entry whose totals were added last to the evicted ones, and in its topmost bit
	// which of the two sets is current: a single store completes an eviction.
	moved atomic.Uint64

	// names are the names of an entry's counters in their order, each followed by a newline.
	nameBytes, nameSum uint32 // length of names and their CRC-32C
	names              [headerBytes - 128]byte
}

const movedSet = 1 << 63

// totals are the sums of evicted entries.
type totals struct {
	first, last int64  // Unix nanoseconds
	counters    Counts // of Calls only those of the zero bucket
	buckets     [NumBuckets]uint64
}

// A page has the buckets of one octave, or a part of a text.
type page [PerOctave]atomic.Uint64

// bytes returns the page as bytes.
func (p *page) bytes() *[pageBytes]byte { return (*[pageBytes]byte)(unsafe.Pointer(p)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A memory is the content of the file as Go values. Its numbers of entries and pages have been checked
// against the length of the content.
type memory struct {
	raw     []byte
	header  *header
	sets    *[2]totals
	entries []entry
	pages   []page
	text    []byte // scratch for checking texts

	translated bool // raw is a copy of a file with other counters
}

// drop unmaps a translated memory.
func (m *memory) drop() error {
	if !m.translated {
		return nil
	}
	return unix.Munmap(m.raw)
}

// A geometry has the numbers of entries and pages of a memory.
type geometry struct{ entries, pages int }

func (g geometry) bytes() int64 {
	return headerBytes + 2*int64(totalsBytes) + int64(g.entries)*int64(entryBytes) + int64(g.pages)*pageBytes
}

// fixedHeap returns the heap bytes of a table: the index, a second one while it is rebuilt, the stacks of
// free entries and pages, the list of eviction candidates, the interned names, and the sample that Collect
// reads into.
func fixedHeap(digests, pages int) int64 {
	return 2*8*int64(indexSize(digests)) + (4+int64(unsafe.Sizeof(candidate{})))*int64(digests) + 4*int64(pages) +
		maxNameBytes + int64(unsafe.Sizeof(Table{}))
}

// fixedPages are page 0 and the pages of Other, which are allocated in advance.
const fixedPages = octaves + 1

// leastPages is the number of pages that one entry may need at once, besides the fixed ones.
const leastPages = octaves + shortPages + numSlow + 1

// leastBytes returns the bytes of a table of this many digests with little room besides their names.
func leastBytes(digests int) int64 {
	g := geometry{entries: digests + 1, pages: fixedPages + leastPages + 2*digests}
	return g.bytes() + fixedHeap(digests, g.pages)
}

// geometryOf returns the geometry that fits into room.
func geometryOf(digests int, room int64) geometry {
	g := geometry{entries: digests + 1}
	room -= g.bytes() + fixedHeap(digests, 0)
	g.pages = int(min(room/(pageBytes+4), 1<<31))
	return g
}

// place returns raw as a memory with this geometry. raw must be aligned to 8 bytes.
func (g geometry) place(raw []byte) *memory {
	if int64(len(raw)) < g.bytes() || uintptr(unsafe.Pointer(unsafe.SliceData(raw)))%8 != 0 {
		panic("BUG: stmtstats: a memory too short or not aligned for its geometry")
	}
	at := unsafe.Pointer(unsafe.SliceData(raw))
	m := &memory{raw: raw, header: (*header)(at)}
	at = unsafe.Add(at, headerBytes)
	m.sets = (*[2]totals)(at)
	at = unsafe.Add(at, 2*totalsBytes)
	m.entries = unsafe.Slice((*entry)(at), g.entries)
	at = unsafe.Add(at, g.entries*entryBytes)
	m.pages = unsafe.Slice((*page)(at), g.pages)
	return m
}

// format writes an empty table to zeroed bytes.
func (g geometry) format(raw []byte, redaction querylog.Redaction) *memory {
	m := g.place(raw)
	h := m.header
	h.describe(g)
	h.redaction.Store(uint64(redaction))
	h.nextID.Store(firstID)
	other := &m.entries[0]
	other.id = otherID
	for o := range other.octaves {
		other.octaves[o].Store(uint32(1 + o))
	}
	other.transition(0, gateLive)
	return m
}

// describe sets the fields that are written once.
func (h *header) describe(g geometry) {
	copy(h.magic[:], magic)
	h.version, h.order = version, byteOrder
	h.entryBytes, h.octaves, h.counters = uint32(entryBytes), octaves, uint32(NumCounters)
	h.entries, h.pages = uint32(g.entries), uint32(g.pages)
	h.sum = h.checksum()
	clear(h.names[:])
	h.nameBytes = uint32(copy(h.names[:], counterNames()))
	h.nameSum = crc32.Checksum(h.names[:h.nameBytes], castagnoli)
}

// checksum returns the expected value of sum.
func (h *header) checksum() uint32 {
	b := (*[unsafe.Sizeof(header{})]byte)(unsafe.Pointer(h))
	return crc32.Checksum(b[:unsafe.Offsetof(h.sum)], castagnoli)
}

// errForeign is the error of a file that is not a table of this version.
var errForeign = errors.New("not a digest table")

// readHeader returns the geometry of a file's content, and the columns of its entries.
func readHeader(raw []byte) (geometry, *columns, error) {
	if len(raw) < headerBytes || string(raw[:len(magic)]) != magic {
		return geometry{}, nil, errForeign
	}
	h := (*header)(unsafe.Pointer(unsafe.SliceData(raw)))
	switch {
	case h.order != byteOrder:
		return geometry{}, nil, fmt.Errorf("written by a machine of another byte order (%#x)", h.order)
	case h.version < 1 || h.version > version:
		return geometry{}, nil, fmt.Errorf("of version %d, this is version %d", h.version, version)
	case h.sum != h.checksum():
		return geometry{}, nil, errors.New("the header's checksum does not match")
	case h.octaves != octaves:
		return geometry{}, nil, fmt.Errorf("entries of %d octaves; these have %d", h.octaves, octaves)
	}
	c, err := readColumns(h)
	if err != nil {
		return geometry{}, nil, err
	}
	g := geometry{entries: int(h.entries), pages: int(h.pages)}
	if g.entries < 2 || g.entries > MostDigests+1 || g.pages < fixedPages || int64(len(raw)) != c.bytes(g) {
		return geometry{}, nil, fmt.Errorf("%d bytes for %d entries and %d pages", len(raw), g.entries, g.pages)
	}
	return g, c, nil
}
