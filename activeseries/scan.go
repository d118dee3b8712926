package activeseries

import "io"

const (
	// MaxItem is the longest item, and the longest string or number beside the items.
	MaxItem = 16 << 20

	// MaxDepth is how deep values may be nested, the body itself included: that of encoding/json.
	MaxDepth = 10_000

	// MaxErrorText is how much of a reported error's text is kept.
	MaxErrorText = 4 << 10
)

// A Decoder passes a body's items through while it checks all of the body.
type Decoder interface {
	// Reset begins with a new body. It does not allocate.
	Reset(r io.Reader)

	// Next returns the next items of the body, each led by a comma as they came:
	//
	//	,{"__name__":"up"},{"__name__":"go_threads"}
	//
	// and their number, which is positive. White space that stood between items is
	// kept. The view is valid until the next call to Next or Reset, and is the caller's to
	// write to until then.
	//
	// The error is io.EOF itself after the last byte of a valid body; *ReportedError if a valid
	// body tells of a failure; else *Error. Items that came before what is wrong have been
	// returned by then. After an error Next returns the same.
	Next() (items []byte, n int, err error)

	// InputOffset is how many bytes of the body have been looked at.
	InputOffset() int64
}

var _ Decoder = (*Scanner)(nil)

// A Scanner is the strict decoder of
//
//	{"data":[{"name":"value",…},…]}
//
// It reads into one buffer and returns views of it: an item is not copied, but for the one
// that a buffer's end cuts, which moves to the front. It accepts what RFC 8259 and UTF-8
// allow and what has that shape; package documentation has the rules.
//
// A Scanner takes 64 KiB, and more only while an item is longer. It does not allocate, but for
// an item longer than its buffer and for errors. It is for one goroutine. The zero value is
// ready for Reset.
type Scanner struct {
	window
	err  error  // what Next returns from now on
	view []byte // what Next returned last, to expire

	step    step
	members members
	skip    skipper
}

// A step is what is wanted next. Each looks at the bytes from pos on; what it does not find
// whole it looks for again when more was read.
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
	inOther // in the value of a member that is not looked at
	afterMember
	wantEnd
)

// Reset begins with a new body. It does not allocate after the first time.
func (s *Scanner) Reset(r io.Reader) {
	expire(s.view)
	s.reset(r)
	s.err, s.view, s.step, s.members = nil, nil, wantBody, members{}
}

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

// items goes on in the list of items: to its end, to the end of what was read, or to what is
// wrong. The n items that it found whole are at [first, last).
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

// advance goes on outside the list.
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

// value begins with the value of a member of the body, at b[i] = c.
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
	s.skip.begin()
	s.step = inOther
	return good
}

// stopAt is v; a v that is an error is one of the byte i.
func (s *Scanner) stopAt(i int, v verdict) verdict {
	if v != more {
		s.pos = i
	}
	return v
}

// lack is the verdict on a byte that is not the one wanted: more where nothing was read yet.
func (s *Scanner) lack(i int, v verdict) verdict {
	if i >= s.end {
		return more
	}
	return v
}

// fail makes an error of v, at pos, what Next returns.
func (s *Scanner) fail(v verdict) {
	s.err = newError(v, s.InputOffset(), s.readErr)
}

// fill reads what follows, or finds the end.
func (s *Scanner) fill() {
	switch v := s.window.fill(); {
	case v == unfinished && s.step == wantEnd:
		s.err = s.members.result(s.InputOffset())
	case v != good:
		s.fail(v)
	}
}
