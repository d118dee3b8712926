package querylog

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// ringHeader is the size of the header before each line in a ring: its length in 4 bytes.
const ringHeader = 4

// A ring keeps the latest lines of a lane in a fixed number of bytes for readers to follow. Offsets count all
// bytes ever appended; a byte's position is its offset modulo the ring's size, which is a power of two. A
// reader that falls behind loses lines; the ring never waits.
type ring struct {
	boot string

	mu      sync.Mutex
	buf     []byte
	start   uint64 // offset of the oldest line's header, under mu, as all below
	end     uint64 // end offset of the newest line
	first   uint64 // number of the oldest line; lines are numbered from 0
	next    uint64 // number of the next line
	closed  bool
	readers []*ringReader
	stats   SinkStats
	http    SinkStats // sum of the readers that have disconnected
	line    Line
	notes   []byte
}

// newRing returns a ring of at most size bytes.
func newRing(size int, boot string) *ring {
	size = 1 << (bits.Len(uint(size)) - 1)
	return &ring{buf: make([]byte, size), boot: boot, stats: SinkStats{Name: "ring"}, http: SinkStats{Name: "http"}}
}

// append copies the lines of b into the ring, overwriting the oldest ones.
func (r *ring) append(b *batch) {
	r.mu.Lock()
	r.stats.Offered += uint64(b.lines)
	for rest := b.buf; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if ringHeader+n > len(r.buf) {
			r.dropLine(n, b)
		} else {
			r.appendLine(rest[:n])
			r.stats.Written++
			r.stats.Bytes += uint64(n)
		}
		rest = rest[n:]
	}
	r.wake()
	r.mu.Unlock()
}

// dropLine appends a dropped record instead of a line of n bytes that exceeds the ring.
func (r *ring) dropLine(n int, b *batch) {
	r.stats.Dropped++
	d := lost{records: 1, bytes: uint64(n), from: b.from, to: b.to}
	r.notes = appendDropped(r.notes[:0], &r.line, r.boot, r.stats.Name, d)
	r.appendLine(r.notes)
}

// wake wakes all readers.
func (r *ring) wake() {
	for _, rd := range r.readers {
		select {
		case rd.wake <- struct{}{}:
		default:
		}
	}
}

func (r *ring) appendLine(line []byte) {
	need := ringHeader + len(line)
	for int(r.end-r.start)+need > len(r.buf) {
		r.start += uint64(ringHeader + r.lengthAt(r.start))
		r.first++
	}
	var head [ringHeader]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(line)))
	r.put(r.end, head[:])
	r.put(r.end+ringHeader, line)
	r.end += uint64(need)
	r.next++
}

// place returns the position of the byte at an offset.
func (r *ring) place(at uint64) int { return int(at & uint64(len(r.buf)-1)) }

// put copies p to an offset, wrapping around the end of the buffer.
func (r *ring) put(at uint64, p []byte) {
	n := copy(r.buf[r.place(at):], p)
	copy(r.buf, p[n:])
}

// take appends n bytes at an offset to dst.
func (r *ring) take(dst []byte, at uint64, n int) []byte {
	i := r.place(at)
	k := min(n, len(r.buf)-i)
	dst = append(dst, r.buf[i:i+k]...)
	return append(dst, r.buf[:n-k]...)
}

func (r *ring) lengthAt(at uint64) int {
	if i := r.place(at); i+ringHeader <= len(r.buf) {
		return int(binary.LittleEndian.Uint32(r.buf[i:]))
	}
	var head [ringHeader]byte
	for i := range head {
		head[i] = r.buf[r.place(at+uint64(i))]
	}
	return int(binary.LittleEndian.Uint32(head[:]))
}

// close wakes all readers a last time.
func (r *ring) close() {
	r.mu.Lock()
	r.closed = true
	r.wake()
	r.mu.Unlock()
}

// A ringReader follows a ring at its own pace.
type ringReader struct {
	r     *ring
	wake  chan struct{} // has a token while there may be something to read
	at    uint64        // offset of the next line's header; used by the reader only, as is line
	line  uint64        // number of the next line
	stats SinkStats     // under r.mu
}

// attach adds a reader that starts with the oldest line, or with the next new one.
func (r *ring) attach(history bool) *ringReader {
	r.mu.Lock()
	defer r.mu.Unlock()
	rd := &ringReader{r: r, wake: make(chan struct{}, 1), at: r.end, line: r.next}
	if history {
		rd.at, rd.line = r.start, r.first
	}
	r.readers = append(r.readers, rd)
	return rd
}

// detach removes the reader; the ring keeps its counters.
func (rd *ringReader) detach() {
	r := rd.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readers = slices.DeleteFunc(r.readers, func(o *ringReader) bool { return o == rd })
	r.http.add(&rd.stats)
}

// readChunk is the number of bytes of lines that a reader takes at a time; a longer line is taken alone.
const readChunk = 64 << 10

// read appends whole lines to dst, and returns the number of lines overwritten before them and whether the
// ring is closed.
func (rd *ringReader) read(dst []byte) (lines []byte, missed uint64, closed bool) {
	r := rd.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if rd.line < r.first {
		missed = r.first - rd.line
		rd.at, rd.line = r.start, r.first
	}
	for at := len(dst); rd.at < r.end && len(dst)-at < readChunk; rd.line++ {
		n := r.lengthAt(rd.at)
		dst = r.take(dst, rd.at+ringHeader, n)
		rd.at += uint64(ringHeader + n)
	}
	return dst, missed, r.closed && rd.at == r.end
}

// newest returns the number of the next line.
func (rd *ringReader) newest() uint64 {
	rd.r.mu.Lock()
	defer rd.r.mu.Unlock()
	return rd.r.next
}

// count adds the outcome of lines that were read or missed.
func (rd *ringReader) count(s SinkStats) {
	rd.r.mu.Lock()
	rd.stats.add(&s)
	rd.r.mu.Unlock()
}

func (r *ring) statsNow() (ringStats, http SinkStats, readers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ringStats, http = r.stats, r.http
	ringStats.QueuedBytes = len(r.buf)
	for _, rd := range r.readers {
		http.add(&rd.stats)
	}
	return ringStats, http, len(r.readers)
}

// appendDropped appends the line that reports records lost to a sink.
func appendDropped(dst []byte, l *Line, boot, sink string, d lost) []byte {
	l.Begin(dst, kindDropped)
	l.String("boot", boot)
	l.String("sink", sink)
	l.Uint("records", d.records)
	if d.bytes > 0 {
		l.Uint("bytes", d.bytes)
	}
	if d.from != 0 || d.to != 0 {
		l.Time("from", time.Unix(0, d.from))
		l.Time("to", time.Unix(0, d.to))
	}
	return l.End()
}
