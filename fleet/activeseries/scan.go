package activeseries

import "io"

const (
	// maxItem is the maximum length of an item, and of a string or number beside the items.
	maxItem = 16 << 20

	// maxDepth is the maximum depth of nested values, including the body itself: that of encoding/json.
	maxDepth = 10_000

	// maxErrorText bounds the text of a reported error.
	maxErrorText = 4 << 10
)

// A Decoder returns the items of a body while it validates the whole body.
type Decoder interface {
	// Reset starts a new body. It does not allocate.
	Reset(r io.Reader)

	// Next returns the next items of the body, each preceded by a comma:
	//
	//	,{"__name__":"up"},{"__name__":"go_threads"}
	//
	// and their number, which is positive. White space between items is kept. The view is valid until the
	// next call of Next or Reset; until then the caller may overwrite it.
	//
	// The error is io.EOF itself after the last byte of a valid body, a *ReportedError if a valid body
	// reports a failure, and otherwise an *Error. Items before the invalid byte have been returned by then.
	// After an error, Next returns the same error again.
	Next() (items []byte, n int, err error)

	// InputOffset returns the number of bytes of the body consumed.
	InputOffset() int64

	// Warnings returns what the members of the body so far say about its completeness: the texts of "warnings";
	// those of "infos", "isPartial" and others whose names say so, and a status such as "partial", with the
	// name. They are at most maxWarnings of MaxWarningText bytes, and one with the number of the others.
	Warnings() []string
}

var _ Decoder = (*Scanner)(nil)

// A Scanner is the strict decoder of
//
//	{"data":[{"name":"value",…},…]}
//
// It reads into one buffer and returns views of it: it copies only items that the end of the buffer splits,
// to the front of the buffer. It accepts what RFC 8259 and UTF-8 allow if it has that shape; the package
// documentation has the rules.
//
// A Scanner takes 64 KiB, and more only while an item is longer. It allocates only for items longer than its
// buffer and for errors. It must not be used concurrently. The zero value is ready for Reset.
type Scanner struct {
	window
	err  error  // returned by all further calls of Next
	view []byte // the last result of Next, to expire

	step    step
	members members
	skip    skipper
}

// A step is the next expected token. Each step parses the bytes from pos; if the token is incomplete, it is
// parsed again when more bytes were read.
type step uint8

const (
	wantFirstItem step = iota
	wantItem
	afterItem // up to here in the list
	wantBody
	wantFirstMember
	wantMember
	wantColon
	wantValue
	inOther // in the value of a member that is skipped
	afterMember
	wantEnd
)

// Reset starts a new body. It does not allocate after the first time.
func (s *Scanner) Reset(r io.Reader) {
	expire(s.view)
	s.reset(r)
	s.err, s.view, s.step, s.members = nil, nil, wantBody, members{}
}

// Warnings returns what the body says about its completeness: see Decoder.
func (s *Scanner) Warnings() []string { return s.members.warnings.list() }

// Next returns the next items: see Decoder. It does not allocate.
func (s *Scanner) Next() (items []byte, n int, err error) {
	expire(s.view)
	s.view = nil
	for s.err == nil {
		var v verdict
		if s.step <= afterItem {
			var first, last int
			if first, last, n, v = s.items(); n > 0 {
				s.buf[first-1] = ','
				s.view = s.buf[first-1 : last : last]
			}
		} else {
			v = s.advance()
		}
		if v > more {
			s.fail(v)
		}
		if s.view != nil {
			return s.view, n, nil
		}
		if v == more {
			s.fill()
		}
	}
	return nil, 0, s.err
}

// items continues in the list of items: to its end, to the end of the bytes read, or to an invalid byte. The
// n complete items that it found are at [first, last).
func (s *Scanner) items() (first, last, n int, v verdict) {
	b := s.buf
	for {
		i := skipSpace(b, s.pos)
		s.pos = i
		switch s.step {
		case afterItem:
			switch b[i] {
			case ',':
				s.pos, s.step = i+1, wantItem
			case ']':
				s.pos, s.step = i+1, afterMember
				return first, last, n, good
			default:
				return first, last, n, s.lack(i, badByte)
			}
		case wantFirstItem:
			if b[i] == ']' {
				s.pos, s.step = i+1, afterMember
				return first, last, n, good
			}
			fallthrough
		default:
			if b[i] != '{' {
				return first, last, n, s.lack(i, badItem)
			}
			next, found := compactItems(b, i, s.end)
			if found == 0 {
				if next, v = object(b, i, s.end); v != good {
					if v != more {
						s.pos = next
					}
					return first, last, n, v
				}
				found = 1
			}
			if n == 0 {
				first = i
			}
			n += found
			s.pos, last, s.step = next, next, afterItem
		}
	}
}

// advance continues outside of the list.
func (s *Scanner) advance() verdict {
	b := s.buf
	for {
		if s.step == inOther {
			if v := s.skip.value(s); v != good {
				return v
			}
			s.step = afterMember
		}
		i := skipSpace(b, s.pos)
		s.pos = i
		c := b[i]
		switch s.step {
		case wantBody:
			if c != '{' {
				return s.lack(i, badTop)
			}
			s.pos, s.step = i+1, wantFirstMember
		case wantFirstMember, wantMember:
			if c == '}' && s.step == wantFirstMember {
				s.pos, s.step = i+1, wantEnd
				continue
			}
			if c != '"' {
				return s.lack(i, badKey)
			}
			q, v := stringEnd(b, i+1, s.end)
			if v != good {
				return s.stopAt(q, v)
			}
			if v = s.members.name(b[i : q+1]); v != good {
				return v
			}
			s.pos, s.step = q+1, wantColon
		case wantColon:
			if c != ':' {
				return s.lack(i, badColon)
			}
			s.pos, s.step = i+1, wantValue
		case wantValue:
			if v := s.value(c, i); v != good || s.step == wantFirstItem {
				return v
			}
		case afterMember:
			switch c {
			case ',':
				s.pos, s.step = i+1, wantMember
			case '}':
				s.pos, s.step = i+1, wantEnd
			default:
				return s.lack(i, badByte)
			}
		default: // wantEnd
			return s.lack(i, badEnd)
		}
	}
}

// value starts the value of a member of the body, at b[i] = c.
func (s *Scanner) value(c byte, i int) verdict {
	m := s.members.member
	switch {
	case i >= s.end:
		return more
	case m == memberData && c == '[':
		s.pos, s.step = i+1, wantFirstItem
		return good
	case m == memberData && c == 'n':
		next, v := word(s.buf, i, s.end, "null")
		if v != good {
			return s.stopAt(next, v)
		}
		s.pos, s.step = next, afterMember
		return good
	case m == memberData:
		return badData
	case m != memberOther && c == '"':
		q, v := stringEnd(s.buf, i+1, s.end)
		if v != good {
			return s.stopAt(q, v)
		}
		s.members.text(s.buf[i : q+1])
		s.pos, s.step = q+1, afterMember
		return good
	case m != memberOther && c != 'n':
		s.members.notText()
	}
	s.skip.start()
	s.step = inOther
	return good
}

// stopAt returns v, and sets the position to i if v is an error.
func (s *Scanner) stopAt(i int, v verdict) verdict {
	if v != more {
		s.pos = i
	}
	return v
}

// lack returns the verdict on an unexpected byte: more if the byte was not read yet, otherwise v.
func (s *Scanner) lack(i int, v verdict) verdict {
	if i >= s.end {
		return more
	}
	return v
}

// fail makes Next return the error of v at pos.
func (s *Scanner) fail(v verdict) {
	s.err = newError(v, s.InputOffset(), s.readErr)
}

// fill reads more bytes, or finds the end.
func (s *Scanner) fill() {
	switch v := s.window.fill(); {
	case v == unfinished && s.step == wantEnd:
		s.err = s.members.result(s.InputOffset())
	case v != good:
		s.fail(v)
	}
}
