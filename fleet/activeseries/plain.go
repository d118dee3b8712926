package activeseries

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var _ Decoder = (*plainScanner)(nil)

// Plain is the reference decoder of a Scanner's bodies, based on jsontext, which becomes a part of Go's standard
// library in Go 1.27. It shares no code with the Scanner that finds the boundaries of names, values and items. It
// accepts the same bodies and returns the same items; if one returns an *Error, so does the other, though its
// other fields may differ. It returns one item at a time and is several times slower. It must not be used
// concurrently. The zero value is ready for Reset.
type plainScanner struct {
	dec     jsontext.Decoder
	utf8    utf8Reader
	started bool
	inList  bool
	members members
	view    []byte // the last result of Next, to expire
	buf     []byte // of view
	grown   bool   // a value was longer than the buffers that are kept
	err     error
}

// Reset starts a new body.
func (p *plainScanner) Reset(r io.Reader) {
	expire(p.view)
	p.utf8.reset(r)
	if p.grown { // and so have the buffers
		p.dec, p.buf, p.grown = jsontext.Decoder{}, nil, false
	}
	// Names may occur twice, as in RFC 8259, and escapes may be half a surrogate pair. Bytes are valid UTF-8.
	p.dec.Reset(&p.utf8, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	p.started, p.inList, p.members, p.view, p.err = false, false, members{}, nil, nil
}

// InputOffset returns the number of bytes of the body consumed.
func (p *plainScanner) InputOffset() int64 { return p.dec.InputOffset() }

// Warnings returns what the body says about its completeness: see Decoder.
func (p *plainScanner) Warnings() []string { return p.members.warnings.list() }

// Next returns the next item: see Decoder.
func (p *plainScanner) Next() (items []byte, n int, err error) {
	expire(p.view)
	p.view = nil
	if p.err != nil {
		return nil, 0, p.err
	}
	item, err := p.next()
	if err != nil {
		p.err = p.explain(err)
		return nil, 0, p.err
	}
	p.buf = append(append(p.buf[:0], ','), item...)
	p.view = p.buf
	return p.view, 1, nil
}

// explain converts any error to one of those that Decoder specifies.
func (p *plainScanner) explain(err error) error {
	if err == io.EOF { //nolint:errorlint // wrapped, it is an error of reading and no end
		return p.members.result(p.InputOffset())
	}
	e := &Error{Offset: p.InputOffset(), Detail: err.Error()}
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, errUTF8):
		e.Fault, e.Detail = Encoding, "invalid UTF-8"
	case p.utf8.err != nil && p.utf8.err != io.EOF && errors.Is(err, p.utf8.err): //nolint:errorlint // wrapped, it is an error of reading and no end
		e.Fault, e.Detail, e.Err = Reading, "read the body", p.utf8.err
		if errors.Is(err, io.ErrUnexpectedEOF) {
			e.Fault = Truncated
		}
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Fault, e.Detail = Truncated, "the body ends here, incomplete"
	case errors.As(err, &syntax):
		e.Fault, e.Offset, e.Detail = Syntax, syntax.ByteOffset, "invalid JSON" // its text depends on the lengths of reads
	case errors.Is(err, errDepth):
		e.Fault = Depth
	case errors.Is(err, errSize):
		e.Fault = Size
	default:
		e.Fault = Shape
	}
	return e
}

var (
	errUTF8     = errors.New("invalid UTF-8")
	errDepth    = errors.New("nested too deeply")
	errSize     = errors.New("longer than an item may be")
	errData     = errors.New(`"data" is neither an array nor null`)
	errTopLevel = errors.New("the body is not an object")
)

// next returns the next item, or io.EOF at the end of a body that is valid JSON.
func (p *plainScanner) next() ([]byte, error) {
	if !p.started {
		p.started = true
		kind, err := p.open()
		if err != nil {
			return nil, err
		}
		if kind != '{' {
			return nil, errTopLevel
		}
	}
	for {
		if p.inList {
			if kind := p.dec.PeekKind(); kind != ']' {
				return p.nextItem()
			}
			if _, err := p.dec.ReadToken(); err != nil {
				return nil, err
			}
			p.inList = false
		}
		if p.dec.PeekKind() == '}' {
			return nil, p.end()
		}
		name, err := p.scalar()
		if err != nil {
			return nil, err
		}
		if p.members.name(name) == secondData {
			return nil, errors.New(`a second "data"`)
		}
		if err := p.member(); err != nil {
			return nil, err
		}
	}
}

// end reads the end of the body, and returns io.EOF if nothing follows.
func (p *plainScanner) end() error {
	_, err := p.dec.ReadToken()
	if err == nil {
		if _, err = p.dec.ReadToken(); err == nil {
			err = errors.New("something after the end of the body")
		}
	}
	return err
}

// open reads the start of an object or array, or all of another value, and returns its kind.
func (p *plainScanner) open() (jsontext.Kind, error) {
	t, err := p.dec.ReadToken()
	if err == io.EOF { //nolint:errorlint // as jsontext says
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, err
	}
	return t.Kind(), nil
}

// read returns the next value, until the next read.
func (p *plainScanner) read() (jsontext.Value, error) {
	before := p.dec.InputOffset()
	text, err := p.dec.ReadValue()
	p.grown = p.grown || p.utf8.passed-before > bufferSize
	return text, err
}

// scalar returns the text of the next value, which is no object or array, or of the next name.
func (p *plainScanner) scalar() (jsontext.Value, error) {
	text, err := p.read()
	longest := maxItem
	if text.Kind() == '0' {
		longest-- // a number ends before a byte that follows it
	}
	if err == nil && len(text) > longest {
		err = errSize
	}
	return text, err
}

// nextItem returns the next item.
func (p *plainScanner) nextItem() ([]byte, error) {
	item, err := p.read()
	switch {
	case err != nil:
		return nil, err
	case len(item) > maxItem:
		return nil, errSize
	}
	return item, checkItem(item)
}

// checkItem returns an error unless a valid JSON value is an object with string values.
func checkItem(item []byte) error {
	if item = bytes.Trim(item, " \t\r\n"); item[0] != '{' {
		return errors.New("an item is not an object")
	}
	inString := false
	for i := 1; i < len(item)-1; i++ {
		switch c := item[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString, c == ':', c == ',', c <= ' ':
		default:
			return errors.New("a value of an item is not a string")
		}
	}
	return nil
}

// member reads the value of the current member, or the start of a list of items.
func (p *plainScanner) member() error {
	kind := p.dec.PeekKind()
	if p.members.member == memberData {
		switch kind {
		case '"', '0', 't', 'f', '{':
			return errData
		}
	}
	switch kind {
	case '[', '{':
		if _, err := p.open(); err != nil {
			return err
		}
		if p.members.member == memberData {
			p.inList = true
			return nil
		}
		p.members.notText()
		return p.skip(kind)
	}
	text, err := p.scalar()
	if err != nil {
		return err
	}
	switch {
	case kind == '"' && p.members.member != memberOther:
		p.members.text(text)
	case kind != '"' && kind != 'n':
		p.members.notText()
		p.members.warnScalar(text)
	}
	return nil
}

// skip reads the rest of an array or object, and adds the values in it to the warnings.
func (p *plainScanner) skip(first jsontext.Kind) error {
	type value struct{ object, named bool }
	for open := []value{{object: first == '{'}}; len(open) > 0; {
		kind := p.dec.PeekKind()
		switch kind {
		case ']', '}':
			open = open[:len(open)-1]
			if _, err := p.open(); err != nil {
				return err
			}
			continue
		case '[', '{':
			if len(open)+1 >= maxDepth {
				return errDepth
			}
		}
		if last := &open[len(open)-1]; last.object {
			if last.named = !last.named; last.named {
				if _, err := p.scalar(); err != nil {
					return err
				}
				continue
			}
		}
		if kind == '[' || kind == '{' {
			open = append(open, value{object: kind == '{'})
			if _, err := p.open(); err != nil {
				return err
			}
			continue
		}
		text, err := p.scalar()
		if err != nil {
			return err
		}
		switch kind {
		case 'n':
		case '"':
			p.members.warnText(text)
		default:
			p.members.warnScalar(text)
		}
	}
	return nil
}

// utf8Reader passes valid UTF-8 and fails before invalid UTF-8.
type utf8Reader struct {
	r      io.Reader
	buf    []byte // bytes read
	next   int    // index in buf of the first byte not passed
	passed int64  // bytes passed
	valid  int    // index in buf of the first byte that is not valid, or may be the start of a code point
	err    error  // the reader's error, or errUTF8; after the valid bytes
}

func (u *utf8Reader) reset(r io.Reader) {
	if u.buf == nil {
		u.buf = make([]byte, 0, bufferSize)
	}
	*u = utf8Reader{r: r, buf: u.buf[:0]}
}

func (u *utf8Reader) Read(b []byte) (int, error) {
	for u.next == u.valid {
		if u.err != nil {
			return 0, u.err
		}
		u.fill()
	}
	n := copy(b, u.buf[u.next:u.valid])
	u.next += n
	u.passed += int64(n)
	return n, nil
}

// fill reads more bytes behind the start of a code point that the last read has split.
func (u *utf8Reader) fill() {
	cut := copy(u.buf, u.buf[u.valid:])
	n, err := u.r.Read(u.buf[cut:cap(u.buf)])
	u.buf, u.next, u.err = u.buf[:cut+n], 0, err
	u.valid = validPrefix(u.buf)
	switch rest := u.buf[u.valid:]; {
	case utf8.FullRune(rest):
		u.err = errUTF8
	case len(rest) > 0 && err == io.EOF:
		u.err = io.ErrUnexpectedEOF // within a code point
	}
}

// validPrefix returns the length of the longest prefix of b that is valid UTF-8.
func validPrefix(b []byte) int {
	whole := len(b) // without a code point that is split at the end
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				whole = i
			}
			break
		}
	}
	if utf8.Valid(b[:whole]) {
		return whole
	}
	i := 0
	for i < len(b) {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}
