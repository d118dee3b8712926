package activeseries

import (
	"errors"
	"io"
)

const (
	bufferSize = 64 << 10 // fits the second-level cache several times

	// lead is the number of free bytes before the data, for the comma before a first item.
	lead = 8
)

// A window is the part of a body that is in memory. Tokens are parsed in place; one that the end of the data
// splits moves to the front, and is parsed again when more bytes were read.
type window struct {
	r       io.Reader
	readErr error // the reader's, including io.EOF

	buf  []byte // the whole buffer: lead at the start, slack at the end
	pos  int    // next byte to parse
	end  int    // end of the data, followed by the slack's zeros
	base int64  // offset in the body of buf[0]
}

func (w *window) reset(r io.Reader) {
	if len(w.buf) != bufferSize {
		w.buf = make([]byte, bufferSize)
	}
	*w = window{r: r, buf: w.buf, pos: lead, end: lead, base: -lead}
	clear(w.buf[lead : lead+slack])
}

// InputOffset returns the number of bytes of the body consumed.
func (w *window) InputOffset() int64 { return w.base + int64(w.pos) }

// fill reads more bytes after those from pos. The verdict is unfinished if there are none: then pos is at the
// end.
func (w *window) fill() verdict {
	have := w.end - w.pos
	if w.readErr == nil {
		if !w.makeRoom(have) {
			return tooLong
		}
		// A split token is parsed again from its start: after a long one, at least as many bytes are read as
		// were parsed, so that each byte is parsed twice on average.
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

// makeRoom moves the have bytes from pos to the front, of a larger buffer if they take more than half of this
// one. It returns false if they have reached the length of the longest token.
func (w *window) makeRoom(have int) bool {
	to := w.buf
	if have > (len(w.buf)-lead-slack)/2 {
		if have >= maxItem {
			return false
		}
		to = make([]byte, lead+min(2*len(w.buf), maxItem)+slack)
	}
	w.base += int64(w.pos - lead)
	copy(to[lead:], w.buf[w.pos:w.end])
	w.buf, w.pos, w.end = to, lead, lead+have
	return true
}

// readSome reads at least want bytes into b, or fewer if b is full or the reader returns an error, and
// returns that error.
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

// newError returns the error of v at offset; err is the reader's.
func newError(v verdict, offset int64, err error) error {
	fault, detail := v.fault()
	if v != failedRead {
		err = nil
	} else if errors.Is(err, io.ErrUnexpectedEOF) {
		fault = Truncated
	}
	return &Error{Offset: offset, Fault: fault, Detail: detail, Err: err}
}
