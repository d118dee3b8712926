package querylog

import (
	"bytes"
	"encoding/binary"
	"sync"
)

// ringHeader is what stands before each line in a ring: its length in 4 bytes.
const ringHeader = 4

// A ring keeps the latest lines of a lane in a fixed number of bytes. Offsets count all
// bytes ever appended; a byte's place is its offset modulo the ring's size.
type ring struct {
	mu      sync.Mutex
	buf     []byte
	start   uint64 // offset of the oldest line's header, under mu, as all below
	end     uint64 // offset behind the newest line
	first   uint64 // number of the oldest line; lines are numbered from 0
	next    uint64 // number of the line to come
	skipped uint64 // lines too long for the ring
	closed  bool
	readers []*ringReader
}

// A ringReader is woken when lines arrive.
type ringReader struct{ wake chan struct{} }

func newRing(size int) *ring { return &ring{buf: make([]byte, size)} }

// append copies the lines of b into the ring, over the oldest ones.
func (r *ring) append(b *batch) {
	r.mu.Lock()
	for rest := b.buf; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		r.appendLine(rest[:n])
		rest = rest[n:]
	}
	for _, rd := range r.readers {
		select {
		case rd.wake <- struct{}{}:
		default:
		}
	}
	r.mu.Unlock()
}

func (r *ring) appendLine(line []byte) {
	need := ringHeader + len(line)
	if need > len(r.buf) {
		r.skipped++
		return
	}
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

// put copies p to an offset, around the end of the buffer if need be.
func (r *ring) put(at uint64, p []byte) {
	n := copy(r.buf[at%uint64(len(r.buf)):], p)
	copy(r.buf, p[n:])
}

// take appends n bytes at an offset to dst.
func (r *ring) take(dst []byte, at uint64, n int) []byte {
	i := int(at % uint64(len(r.buf)))
	k := min(n, len(r.buf)-i)
	dst = append(dst, r.buf[i:i+k]...)
	return append(dst, r.buf[:n-k]...)
}

func (r *ring) lengthAt(at uint64) int {
	var head [ringHeader]byte
	for i := range head {
		head[i] = r.buf[(at+uint64(i))%uint64(len(r.buf))]
	}
	return int(binary.LittleEndian.Uint32(head[:]))
}

// close wakes all readers for the last time.
func (r *ring) close() {
	r.mu.Lock()
	r.closed = true
	for _, rd := range r.readers {
		select {
		case rd.wake <- struct{}{}:
		default:
		}
	}
	r.mu.Unlock()
}
