package activeseries

import (
	"encoding/binary"
	"io"
	"unicode/utf8"
)

var _ Decoder = (*FrameScanner)(nil)

// A FrameScanner is the strict decoder of frames, with or without a record at the end. Each frame must be one
// object with string values, as in a Scanner's body. The length before each item has room for the comma, so
// it returns views of its buffer like a Scanner, with the same guarantees. It must not be used concurrently.
type FrameScanner struct {
	window
	err  error  // returned by all further calls of Next
	view []byte // the last result of Next, to expire

	record   bool  // the end must be a record
	ended    bool  // the record was read
	reported error // the error in the record, or nil
	sum      frameSum
}

// NewFrameScanner returns a decoder of frames, with a record at the end if form requires one.
func NewFrameScanner(form Form) *FrameScanner {
	if form == FormJSON {
		panic("BUG: frames of a form that has none")
	}
	return &FrameScanner{record: form == FormFramedEnd}
}

// Reset starts a new body. It does not allocate after the first time.
func (s *FrameScanner) Reset(r io.Reader) {
	expire(s.view)
	s.reset(r)
	s.most = MaxItem + binary.MaxVarintLen64
	s.err, s.view, s.ended, s.reported = nil, nil, false, nil
	s.sum = frameSum{on: s.record, table: s.sum.table}
}

// Warnings returns nil: frames have none.
func (s *FrameScanner) Warnings() []string { return nil }

// Next returns the next items: see Decoder. It does not allocate.
func (s *FrameScanner) Next() (items []byte, n int, err error) {
	expire(s.view)
	s.view = nil
	for s.err == nil {
		first := s.pos
		last := first
		v := good
		for v == good {
			if v = s.frame(); v == good && !s.ended {
				last = s.pos
				n++
			}
		}
		if v > more {
			s.err = newError(v, s.InputOffset(), nil)
		}
		if n > 0 {
			s.view = s.buf[first:last:last]
			return s.view, n, nil
		}
		if v == more {
			s.fill()
		}
	}
	return nil, 0, s.err
}

// frame decodes the next frame and overwrites its length with spaces and a comma, or decodes the record at
// the end.
func (s *FrameScanner) frame() verdict {
	b, i := s.buf, s.pos
	if s.ended {
		if i < s.end {
			return badEnd
		}
		return more
	}
	length, k := binary.Uvarint(b[i:s.end])
	switch {
	case k == 0:
		return more
	case k < 0:
		return badLength
	case length > MaxItem:
		return tooLong
	case length == 0:
		return s.endRecord(i)
	}
	item, next := i+k, i+k+int(length)
	if next > s.end {
		return more
	}
	if compactItem(b, item, s.end) != next {
		if at, v := frameItem(b, item, next); v != good {
			s.pos = at
			return v
		}
	}
	s.sum.add(b[i:next], 1)
	b[i] = ','
	for j := i + 1; j < item; j++ {
		b[j] = ' '
	}
	s.pos = next
	return good
}

// frameItem checks that b[i:next] is an object with string values, and white space. It hides the following
// bytes from the parser.
func frameItem(b []byte, i, next int) (at int, v verdict) {
	var hidden [slack]byte
	after := b[next : next+slack]
	copy(hidden[:], after)
	clear(after)
	defer copy(after, hidden[:])
	if i = skipSpace(b, i); b[i] != '{' {
		return i, badFrame
	}
	at, v = object(b, i, next)
	if v == more {
		return at, badFrame
	}
	if v == good {
		if at = skipSpace(b, at); at != next {
			return at, badFrame
		}
	}
	return at, v
}

// endRecord decodes the record at b[i].
func (s *FrameScanner) endRecord(i int) verdict {
	b := s.buf[:s.end]
	if !s.record {
		return badFrame
	}
	if b[i] != 0 {
		return badLength // zero in a longer encoding
	}
	if i+1 == len(b) {
		return more
	}
	if b[i+1] != recordEnd && b[i+1] != recordError {
		return badRecord
	}
	n, k := binary.Uvarint(b[i+2:])
	switch {
	case k == 0:
		return more
	case k < 0:
		return badLength
	}
	at := i + 2 + k
	if b[i+1] == recordEnd {
		if len(b)-at < 4 {
			return more
		}
		if n != uint64(s.sum.items) || binary.LittleEndian.Uint32(b[at:]) != s.sum.crc {
			return badSum
		}
		s.pos, s.ended = at+4, true
		return good
	}
	if n > MaxItem {
		return tooLong
	}
	if uint64(len(b)-at) < n {
		return more
	}
	text := b[at : at+int(n)]
	if !utf8.Valid(text) {
		return badUTF8
	}
	s.pos, s.ended, s.reported = at+int(n), true, &ReportedError{Text: brief(string(text), MaxErrorText)}
	return good
}

// fill reads more bytes, or finds the end.
func (s *FrameScanner) fill() {
	between := s.pos == s.end
	switch v := s.window.fill(); {
	case v == unfinished && between && s.ended && s.reported != nil:
		s.err = s.reported
	case v == unfinished && between && s.ended == s.record:
		s.err = io.EOF
	case v != good:
		s.err = newError(v, s.InputOffset(), s.readErr)
	}
}
