package activeseries

import (
	"errors"
	"io"
)

const (
	bufferSize = 64 << 10 // fits the second-level cache several times

	// lead is how many bytes stay free before what is read, for the comma before a first item.
	lead = 8
)

// A window is the part of a body that is in memory. Tokens are looked at in place; one that the end
// of what was read cuts moves to the front, and is looked at again when more was read.
type window struct {
	r       io.Reader
	readErr error // the reader's, io.EOF included

	buf  []byte // whole: lead at the beginning, slack at the end
	pos  int    // of the next byte to look at
	end  int    // of what was read; the slack's zeros follow
	base int64  // offset in the body of buf[0]
	most int    // bytes of the longest token
}

func (w *window) reset(r io.Reader) {
	if len(w.buf) != bufferSize {
		w.buf = make([]byte, bufferSize)
	}
	*w = window{r: r, buf: w.buf, pos: lead, end: lead, base: -lead, most: MaxItem}
	clear(w.buf[lead : lead+slack])
}

// InputOffset is how many bytes of the body have been looked at.
func (w *window) InputOffset() int64 { return w.base + int64(w.pos) }

// fill reads what follows the bytes from pos on. The verdict is unfinished if nothing does: pos
// is the end then.
func (w *window) fill() verdict {
	have := w.end - w.pos
	if w.readErr == nil {
		if !w.makeRoom(have) {
			return tooLong
		}
		// A token is looked at again from its beginning: of a long one at least as much is read
		// as was looked at in vain, so that each byte is looked at twice on average.
		want := 1
		if have >= 4<<10 {
			want = have
		}
		var n int
		n, w.readErr = readSome(w.r, w.buf[w.end:len(w.buf)-slack], want)
		w.end += n
		clear(w.buf[w.end : w.end+slack])
		if n > 0 {
			return good
		}
	}
	w.pos = w.end
	if w.readErr == io.EOF { //nolint:errorlint // wrapped, it is an error of reading and no end
		return unfinished
	}
	return failedRead
}

// makeRoom moves the have bytes from pos on to the front, of a larger buffer if they take more
// than half of this one. It reports false if they are as many as an item may have.
func (w *window) makeRoom(have int) bool {
	to := w.buf
	if have > (len(w.buf)-lead-slack)/2 {
		if have >= w.most {
			return false
		}
		to = make([]byte, lead+min(2*len(w.buf), w.most)+slack)
	}
	w.base += int64(w.pos - lead)
	copy(to[lead:], w.buf[w.pos:w.end])
	w.buf, w.pos, w.end = to, lead, lead+have
	return true
}

// readSome reads at least want bytes into b, fewer if b is full or the reader ends with an error,
// and that error.
func readSome(r io.Reader, b []byte, want int) (n int, err error) {
	for empty := 0; n < want && n < len(b) && err == nil; {
		var k int
		k, err = r.Read(b[n:])
		if k < 0 || k > len(b)-n {
			panic("BUG: a reader's count is not of its bytes")
		}
		if n += k; k > 0 {
			empty = 0
		} else if empty++; empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

// newError is the error of v at offset; err is the reader's.
func newError(v verdict, offset int64, err error) error {
	fault, detail := v.fault()
	if v != failedRead {
		err = nil
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		fault = Truncated
	}
	return &Error{Offset: offset, Fault: fault, Detail: detail, Err: err}
}
