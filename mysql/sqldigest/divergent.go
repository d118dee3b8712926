package sqldigest

import "bytes"

// alwaysExecuted is the highest version in an executable comment that every server runs: MariaDB skips
// MySQL's versions from 5.7 on.
const alwaysExecuted = 50699

// Divergent reports whether the server may read the statement in another way than digest and text do, even in
// the extent of its strings: its mode is unknown, or it contains a construct that differs between servers and
// is not proven for this one, such as a hint with an open quote, a NUL, or a comment inside an executable
// one.
//
// If the kind of the server is unknown, the mark of an executable comment that some servers run and others
// skip counts too: "/*M!", or "/*!" with a number of digits other than five or a version past 50699, or with
// another "/*" before its "*/". It counts in strings and plain comments too.
//
// A comment that is truncated by the end of the statement is detected only by Sum.
func (d *Digester) Divergent() bool {
	return d.s.unsure || d.s.mode.Unknown() || d.marks.state == markDivergent
}

// mark searches b for the marks if the server's kind is unknown.
func (d *Digester) mark(b []byte) {
	if d.s.mode.kind() == ServerUnknown {
		d.marks.scan(b)
	}
}

// marks detects the marks of divergent comments in a stream of bytes.
type marks struct {
	state  markState
	before byte // the last byte
	digits int  // number of digits after the "/*!"
	value  int  // value of the first few of them
}

type markState uint8

const (
	markNone      markState = iota
	markOpen                // after "/*"
	markM                   // after "/*M"
	markDigits              // after "/*!" and digits, if any
	markInside              // in a comment run by every server
	markStar                // after a "*" in it, which ends the comment before a "/"
	markNested              // after a "/*" in it, which does not count before a "/"
	markDivergent           // found
)

// scan processes b. Its cost is a search for "*".
func (m *marks) scan(b []byte) {
	for i := 0; i < len(b) && m.state != markDivergent; i++ {
		if m.state == markNone || m.state == markInside {
			n := bytes.IndexByte(b[i:], '*')
			if n < 0 {
				m.before = b[len(b)-1]
				return
			}
			if n > 0 {
				i += n
				m.before = b[i-1]
			}
		}
		m.step(b[i])
		m.before = b[i]
	}
}

// step processes c, in the states markNone and markInside a "*".
func (m *marks) step(c byte) {
	switch m.state {
	case markNone:
		if m.before == '/' {
			m.state = markOpen
		}
	case markOpen:
		switch c {
		case '!':
			m.state, m.digits, m.value = markDigits, 0, 0
		case 'M':
			m.state = markM
		default:
			m.state = markNone
		}
	case markM:
		m.state = markNone
		if c == '!' {
			m.state = markDivergent
		}
	case markDigits:
		switch {
		case isDigit(c):
			if m.digits++; m.digits <= 5 {
				m.value = 10*m.value + int(c-'0')
			}
		case m.versioned():
			m.state = markDivergent
		case c == '*':
			m.state = markStar
		default:
			m.state = markInside
		}
	case markInside:
		m.state = markStar
		if m.before == '/' {
			m.state = markNested
		}
	case markStar, markNested:
		switch {
		case c == '/':
			m.state = markNone
		case m.state == markNested:
			m.state = markDivergent
		case c != '*':
			m.state = markInside
		}
	}
}

// versioned reports whether servers treat the version in different ways: they compare different versions and
// read different numbers of digits.
func (m *marks) versioned() bool {
	return m.digits != 0 && (m.digits != 5 || m.value > alwaysExecuted)
}

// end classifies the comment that is open at the end.
func (m *marks) end() {
	if m.state == markDigits && m.versioned() || m.state == markNested {
		m.state = markDivergent
	}
}

// Divergent is Digester.Divergent for a statement without its digest, as far as its tokens show. It does not
// allocate.
func Divergent(sql []byte, m Mode) bool {
	var k marks
	if m.kind() == ServerUnknown {
		k.scan(sql)
		k.end()
	}
	if k.state == markDivergent {
		return true
	}
	var l Lexer
	l.Reset(sql, m)
	for l.Next().Kind != KindEOF {
	}
	return l.Unsure()
}
