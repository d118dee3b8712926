package activeseries

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

var _ Decoder = (*Plain)(nil)

// Plain is the reference decoder of a Scanner's bodies, based on the tokens of encoding/json. It accepts the
// same bodies and returns the same items; if one returns an *Error, so does the other, though Offset and
// Detail may differ. It is some twenty times slower and allocates for each token. It must not be used
// concurrently. The zero value is ready for Reset.
type Plain struct {
	dec     *json.Decoder
	utf8    utf8Reader
	started bool
	inList  bool
	members members
	item    json.RawMessage
	view    []byte // the last result of Next, to expire
	err     error
}

// longest returns the maximum length of a token beside the items: of a string MaxItem, including quotes and
// escapes; of a number one less, since it ends before a byte that follows it.
func longest(t json.Token) int {
	if _, ok := t.(json.Number); ok {
		return MaxItem - 1
	}
	return MaxItem
}

// Reset starts a new body.
func (p *Plain) Reset(r io.Reader) {
	expire(p.view)
	*p = Plain{utf8: utf8Reader{r: r}, item: p.item}
	p.dec = json.NewDecoder(&p.utf8)
	p.dec.UseNumber() // a number may exceed a float64
}

// InputOffset returns the number of bytes of the body consumed.
func (p *Plain) InputOffset() int64 { return p.dec.InputOffset() }

// Warnings returns what the body says about its completeness: see Decoder.
func (p *Plain) Warnings() []string { return p.members.warnings.list() }

// Next returns the next item: see Decoder. It allocates.
func (p *Plain) Next() (items []byte, n int, err error) {
	expire(p.view)
	p.view = nil
	if p.err != nil {
		return nil, 0, p.err
	}
	if items, err = p.next(); err != nil {
		p.err = p.explain(err)
		return nil, 0, p.err
	}
	p.view = items
	return items, 1, nil
}

// explain converts any error to one of those that Decoder specifies.
func (p *Plain) explain(err error) error {
	if err == io.EOF { //nolint:errorlint // wrapped, it is an error of reading and no end
		return p.members.result(p.InputOffset())
	}
	e := &Error{Offset: p.InputOffset(), Detail: err.Error()}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		e.Fault = Syntax
	case p.utf8.invalid && errors.Is(err, errUTF8):
		e.Fault = Encoding
	case p.utf8.err != nil && p.utf8.err != io.EOF && errors.Is(err, p.utf8.err): //nolint:errorlint // wrapped, it is an error of reading and no end
		e.Fault, e.Detail, e.Err = Reading, "read the body", err
		if errors.Is(err, io.ErrUnexpectedEOF) {
			e.Fault = Truncated
		}
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Fault = Truncated
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
	errUTF8  = errors.New("invalid UTF-8")
	errDepth = errors.New("nested too deeply")
	errSize  = errors.New("longer than an item may be")
)

// next returns the next item after its comma, or io.EOF at the end of a body that is valid JSON.
func (p *Plain) next() ([]byte, error) {
	if !p.started {
		p.started = true
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		if t != json.Delim('{') {
			return nil, errors.New("the body is not an object")
		}
	}
	for {
		if p.inList {
			if p.dec.More() {
				return p.nextItem()
			}
			if _, err := p.token(); err != nil {
				return nil, err
			}
			p.inList = false
		}
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok { // the end of the body
			if _, err = p.dec.Token(); err == nil {
				err = errors.New("something after the end of the body")
			}
			return nil, err
		}
		if err := p.member(name); err != nil {
			return nil, err
		}
	}
}

// token returns the next token. It treats io.EOF as unexpected.
func (p *Plain) token() (json.Token, error) {
	p.utf8.forget(p.dec.InputOffset())
	t, err := p.dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return t, err
	}
	text := bytes.TrimLeft(p.utf8.until(p.dec.InputOffset()), " \t\r\n,:")
	if len(text) > longest(t) {
		err = errSize
	}
	return t, err
}

// nextItem returns the next item.
func (p *Plain) nextItem() ([]byte, error) {
	p.utf8.forget(p.dec.InputOffset())
	if err := p.dec.Decode(&p.item); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if len(p.item) > MaxItem {
		return nil, errSize
	}
	if err := checkItem(p.item); err != nil {
		return nil, err
	}
	return append([]byte{','}, p.item...), nil
}

// checkItem returns an error unless a valid JSON value is an object with string values.
func checkItem(item []byte) error {
	dec := json.NewDecoder(bytes.NewReader(item))
	for i := 0; ; i++ {
		t, err := dec.Token()
		switch {
		case err != nil:
			return fmt.Errorf("look into an item: %w", err)
		case i == 0 && t != json.Delim('{'):
			return errors.New("an item is not an object")
		case i == 0:
		case t == json.Delim('}'):
			return nil
		default:
			if _, ok := t.(string); !ok {
				return errors.New("a value of an item is not a string")
			}
		}
	}
}

// member reads the member of that name, up to the first item of "data".
func (p *Plain) member(name string) error {
	quoted, err := json.Marshal(name)
	if err != nil {
		return fmt.Errorf("write a name again: %w", err)
	}
	if p.members.name(quoted) == secondData {
		return errors.New(`a second "data"`)
	}
	t, err := p.token()
	if err != nil {
		return err
	}
	switch value := t.(type) {
	case json.Delim:
		if p.members.member == memberData {
			if p.inList = value == '['; p.inList {
				return nil
			}
			return errors.New(`"data" is neither an array nor null`)
		}
		p.members.notText()
		return p.skip(value)
	case nil:
		return nil
	case string:
		if p.members.member == memberData {
			return errors.New(`"data" is neither an array nor null`)
		}
		if p.members.member != memberOther {
			if quoted, err = json.Marshal(value); err != nil {
				return fmt.Errorf("write a text again: %w", err)
			}
			p.members.text(quoted)
		}
		return nil
	}
	if p.members.member == memberData {
		return errors.New(`"data" is neither an array nor null`)
	}
	p.members.notText()
	return p.warn(t)
}

// warn adds a scalar of the current member to the warnings.
func (p *Plain) warn(t json.Token) error {
	switch t := t.(type) {
	case string:
		quoted, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("write a text again: %w", err)
		}
		p.members.warnText(quoted)
	case bool:
		p.members.warnScalar(strconv.AppendBool(nil, t))
	case json.Number:
		p.members.warnScalar([]byte(t))
	}
	return nil
}

// skip reads the rest of an array or object, and adds the values in it to the warnings.
func (p *Plain) skip(first json.Delim) error {
	type value struct{ object, named bool }
	for open := []value{{object: first == '{'}}; len(open) > 0; {
		t, err := p.token()
		if err != nil {
			return err
		}
		if t == json.Delim(']') || t == json.Delim('}') {
			open = open[:len(open)-1]
			continue
		}
		if last := &open[len(open)-1]; last.object {
			if last.named = !last.named; last.named {
				continue // the token is the name of a value
			}
		}
		if t != json.Delim('[') && t != json.Delim('{') {
			if err := p.warn(t); err != nil {
				return err
			}
			continue
		}
		if open = append(open, value{object: t == json.Delim('{')}); len(open) >= MaxDepth {
			return errDepth
		}
	}
	return nil
}

// utf8Reader passes valid UTF-8 and fails before invalid UTF-8, which encoding/json would replace.
type utf8Reader struct {
	r       io.Reader
	cut     [utf8.UTFMax]byte // start of a code point that a read has split, held back
	cuts    int
	err     error // the reader's error
	invalid bool

	tape   []byte // bytes passed, starting at offset
	offset int64
	start  int // index in tape of the current token
}

// forget drops the bytes before an offset.
func (u *utf8Reader) forget(offset int64) {
	u.start = int(offset - u.offset)
	if u.start > len(u.tape)/2 { // rarely enough to move each byte once on average
		n := copy(u.tape, u.tape[u.start:])
		u.tape, u.offset, u.start = u.tape[:n], offset, 0
	}
}

// until returns the bytes between the offset of the last forget and another.
func (u *utf8Reader) until(offset int64) []byte { return u.tape[u.start : offset-u.offset] }

func (u *utf8Reader) Read(b []byte) (int, error) {
	n, err := u.read(b)
	u.tape = append(u.tape, b[:n]...)
	return n, err
}

func (u *utf8Reader) read(b []byte) (int, error) {
	if u.invalid {
		return 0, errUTF8
	}
	if len(b) < 2*utf8.UTFMax {
		return 0, io.ErrShortBuffer
	}
	n := copy(b, u.cut[:u.cuts])
	u.cuts = 0
	if u.err == nil {
		var k int
		k, u.err = u.r.Read(b[n:])
		n += k
	}
	valid := validPrefix(b[:n])
	rest := b[valid:n]
	if len(rest) > 0 && (utf8.FullRune(rest) || u.err != nil) {
		u.invalid = true
		return valid, errUTF8
	}
	u.cuts = copy(u.cut[:], rest)
	return valid, u.err
}

// validPrefix returns the length of the longest prefix of b that is valid UTF-8.
func validPrefix(b []byte) int {
	if utf8.Valid(b) {
		return len(b)
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
