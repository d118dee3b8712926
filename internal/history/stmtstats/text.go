package stmtstats

import (
	"encoding/binary"
	"hash/crc32"
	"unicode/utf8"
	"unsafe"
)

// A textRef is a text in pages, each of which starts with the number of the next one. It may be set while the
// entry is live, so it has a checksum: a text that does not match is ignored.
type textRef struct {
	page  uint32
	bytes uint16
	cut   uint16 // 1: only the beginning of the text
	sum   uint32
}

func textPages(n int) int { return (n + pageText - 1) / pageText }

// longPages returns the pages of a text that count as those of long texts.
func longPages(n int) int { return max(textPages(n)-shortPages, 0) }

// textLimit returns the number of bytes of a text that are stored: MaxText, or less if long texts have used their pages, or
// few pages are free. The caller holds the lock.
func (t *Table) textLimit(n int) int {
	limit := t.opts.MaxText
	if long := longPages(min(n, limit)); long > 0 &&
		(t.longPages+long > len(t.mem.pages)/longTextPart || t.pages.free()-long < 2*t.mem.reserve()+leastPages) {
		return min(limit, shortText)
	}
	return limit
}

// cutText returns at most n bytes of text, without a partial character at its end.
func cutText(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	for end := n; end > n-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:n]
}

// putText writes a text of at most limit bytes to free pages, if there are enough.
func (m *memory) putText(free *pageStack, ref *textRef, text []byte, cut bool, limit int) bool {
	kept := cutText(text, limit)
	if len(kept) == 0 || textPages(len(kept)) > free.free() {
		return false
	}
	next := uint32(0)
	for at := (len(kept) - 1) / pageText * pageText; at >= 0; at -= pageText { // the last page first
		n := free.take()
		b := m.pages[n].bytes()
		binary.NativeEndian.PutUint32(b[:], next)
		clear(b[4+copy(b[4:], kept[at:]):])
		next = n
	}
	ref.page, ref.bytes = next, uint16(len(kept))
	ref.cut = 0
	if cut || len(kept) < len(text) {
		ref.cut = 1
	}
	ref.sum = ref.checksum(kept)
	return true
}

func (ref *textRef) checksum(text []byte) uint32 {
	b := (*[unsafe.Sizeof(textRef{})]byte)(unsafe.Pointer(ref))
	return crc32.Update(crc32.Checksum(b[:unsafe.Offsetof(ref.sum)], castagnoli), castagnoli, text)
}

// next returns the page of a text after another one.
func (m *memory) next(n uint32) uint32 { return binary.NativeEndian.Uint32(m.pages[n].bytes()[:]) }

// has reports whether a page exists.
func (m *memory) has(n uint32) bool { return n != 0 && int(n) < len(m.pages) }

// isText reports whether a text is complete and not empty.
func (m *memory) isText(ref *textRef, limit int) bool {
	if ref.page == 0 || ref.bytes == 0 || int(ref.bytes) > limit {
		return false
	}
	text, ok := m.appendText(m.text[:0], ref)
	m.text = text
	return ok && ref.sum == ref.checksum(text)
}

// appendText appends a text to dst. ok reports that all of its pages exist.
func (m *memory) appendText(dst []byte, ref *textRef) (_ []byte, ok bool) {
	left := int(ref.bytes)
	for n := ref.page; left > 0 && m.has(n); n = m.next(n) {
		k := min(left, pageText)
		dst = append(dst, m.pages[n].bytes()[4:4+k]...)
		left -= k
	}
	return dst, left <= 0
}

// dropText frees a text's pages.
func (t *Table) dropText(ref *textRef) {
	t.longPages -= longPages(int(ref.bytes))
	n, left := ref.page, int(ref.bytes)
	*ref = textRef{}
	for ; left > 0 && t.mem.has(n); left -= pageText {
		next := t.mem.next(n)
		t.pages.put(n)
		n = next
	}
}
