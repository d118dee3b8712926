package activeseries

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var _ Decoder = (*PlainFrames)(nil)

// PlainFrames is the reference decoder of a FrameScanner's frames, based on jsontext: see Plain. It must not be
// used concurrently.
type PlainFrames struct {
	record bool
	r      *bufio.Reader
	raw    readSum
	items  uint64
	view   []byte // the last result of Next, to expire
	buf    []byte // of view
	err    error
}

// NewPlainFrames returns a decoder of frames, with a record at the end if form requires one.
func NewPlainFrames(form Form) *PlainFrames {
	if form == FormJSON {
		panic("BUG: frames of a form that has none")
	}
	return &PlainFrames{record: form == FormFramedEnd}
}

// Reset starts a new body.
func (p *PlainFrames) Reset(r io.Reader) {
	expire(p.view)
	if p.r == nil {
		p.r = bufio.NewReaderSize(nil, bufferSize)
	}
	p.r.Reset(r)
	*p = PlainFrames{record: p.record, r: p.r, buf: p.buf}
	if cap(p.buf) > bufferSize {
		p.buf = nil
	}
	p.raw = readSum{r: p.r}
}

// InputOffset returns the number of bytes of the body consumed.
func (p *PlainFrames) InputOffset() int64 { return p.raw.n }

// Warnings returns nil: frames have none.
func (p *PlainFrames) Warnings() []string { return nil }

// Next returns the next item: see Decoder.
func (p *PlainFrames) Next() (items []byte, n int, err error) {
	expire(p.view)
	p.view = nil
	if p.err == nil {
		p.view, p.err = p.next()
	}
	if p.err != nil {
		return nil, 0, p.err
	}
	p.items++
	return p.view, 1, nil
}

// wrong returns an error at the current offset.
func (p *PlainFrames) wrong(f Fault, detail string) error {
	return &Error{Offset: p.raw.n, Fault: f, Detail: detail}
}

// cut returns the error of reading bytes that must exist.
func (p *PlainFrames) cut(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) { //nolint:errorlint // wrapped, it is an error of reading and no end
		return p.wrong(Truncated, "the body ends here, incomplete")
	}
	return &Error{Offset: p.raw.n, Fault: Reading, Detail: "read the body", Err: err}
}

func (p *PlainFrames) next() ([]byte, error) {
	before := p.raw.crc
	if _, err := p.r.Peek(1); err == io.EOF && !p.record {
		return nil, io.EOF
	}
	length, err := p.uvarint()
	switch {
	case err != nil:
		return nil, err
	case length > MaxItem:
		return nil, p.wrong(Size, "longer than an item may be")
	case length == 0 && p.record:
		return nil, p.readEnd(before)
	case length == 0:
		return nil, p.wrong(Syntax, "an empty frame")
	}
	p.buf = slices.Grow(p.buf[:0], int(1+length))
	item := p.buf[:1+length]
	item[0] = ','
	if _, err := io.ReadFull(&p.raw, item[1:]); err != nil {
		return nil, p.cut(err)
	}
	switch {
	case !utf8.Valid(item[1:]):
		return nil, p.wrong(Encoding, "invalid UTF-8 in an item")
	case !jsontext.Value(item[1:]).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)):
		return nil, p.wrong(Syntax, "an item is no JSON")
	}
	if err := checkItem(item[1:]); err != nil {
		return nil, p.wrong(Shape, err.Error())
	}
	return item, nil
}

func (p *PlainFrames) uvarint() (uint64, error) {
	n, err := binary.ReadUvarint(&p.raw)
	if err != nil && p.raw.err == nil {
		return 0, p.wrong(Syntax, err.Error())
	}
	if err != nil {
		return 0, p.cut(err)
	}
	return n, nil
}

// readEnd reads the record at the end, after its first byte; sum is the checksum of all bytes before it.
func (p *PlainFrames) readEnd(sum uint32) error {
	kind, err := p.raw.ReadByte()
	if err != nil {
		return p.cut(err)
	}
	if kind != recordEnd && kind != recordError {
		return p.wrong(Syntax, "unknown record")
	}
	n, err := p.uvarint()
	if err != nil {
		return err
	}
	if kind == recordEnd {
		var want [4]byte
		if _, err := io.ReadFull(&p.raw, want[:]); err != nil {
			return p.cut(err)
		}
		if n != p.items || binary.LittleEndian.Uint32(want[:]) != sum {
			return p.wrong(Checksum, "the end record does not fit the frames")
		}
		return p.last(io.EOF)
	}
	if n > MaxItem {
		return p.wrong(Size, "longer than an item may be")
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(&p.raw, text); err != nil {
		return p.cut(err)
	}
	if !utf8.Valid(text) {
		return p.wrong(Encoding, "invalid UTF-8 in an error")
	}
	return p.last(&ReportedError{Text: brief(string(text), MaxErrorText)})
}

// last returns result if no byte follows.
func (p *PlainFrames) last(result error) error {
	switch _, err := p.r.ReadByte(); {
	case err == nil:
		return p.wrong(Syntax, "bytes after the end of the body")
	case err != io.EOF:
		return p.cut(err)
	}
	return result
}

// readSum counts the bytes read and computes their checksum.
type readSum struct {
	r   *bufio.Reader
	n   int64
	crc uint32
	err error
}

func (s *readSum) Read(b []byte) (n int, err error) {
	n, s.err = s.r.Read(b)
	s.add(b[:n])
	return n, s.err
}

// ReadByte implements io.ByteReader.
func (s *readSum) ReadByte() (byte, error) {
	c, err := s.r.ReadByte()
	if s.err = err; err == nil {
		s.add([]byte{c})
	}
	return c, err
}

func (s *readSum) add(b []byte) {
	s.n += int64(len(b))
	s.crc = crc32.Update(s.crc, crc32.MakeTable(crc32.Castagnoli), b)
}
