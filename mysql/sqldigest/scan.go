package sqldigest

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// maxHeld is the number of bytes that decide the kind of a word or number. A longer word is an identifier; a
// longer number is resumed by its state. It bounds the bytes that a stream has to hold back.
const maxHeld = 64

// maxCarry bounds the unfinished token at the end of one Write: a held-back word and its lookahead.
const maxCarry = maxHeld + 8

// kindMore is the result of scanner.next if it requires more bytes.
const kindMore Kind = 0xff

// The preceding token, as far as the next token depends on it. From beforeAdjacent on, it counts only if
// nothing, not even a space, is in between.
const (
	beforeOther  uint8 = iota
	beforeVerb         // a keyword that takes optimizer hints
	beforeName         // an identifier
	beforeString       // a string literal

	beforeAdjacent
	beforeNameAdjacent // an identifier: a dot is a separator
	beforeDot          // a dot: an identifier follows
	beforeAt           // the @ of a user variable
	beforeAccount      // the @ between user and host
	beforeAtAt         // the @@ of a system variable
)

// scanner is the lexer's state besides the current bytes.
type scanner struct {
	mode   Mode
	before uint8
	exec   bool        // inside /*! … */
	hint   bool        // inside /*+ … */
	unsure bool        // the server may read part of the text in another way
	num    numberState // of an open number
	ct     *ctype

	names keywordFlags // of words that are not reserved on the server
}

func newScanner(m Mode) scanner {
	return scanner{mode: m, ct: ctypeOf(m), names: namesOf(m)}
}

// gapped maps a state to the state after a space or comment.
var gapped = [16]uint8{
	beforeVerb: beforeVerb, beforeName: beforeName, beforeString: beforeString, beforeNameAdjacent: beforeName,
}

// recordGap records a space or comment.
func (s *scanner) recordGap() { s.before = gapped[s.before%16] }

// next returns the token that starts at b[i], i < len(b). If final is false, more bytes may follow b: the
// result is kindMore if they are required to decide the token, and a kind with open set if the token starts
// with b[i:end] and resume has to skip its rest, of any bytes. word is the index of a keyword in the table.
func (s *scanner) next(b []byte, i int, final bool) (kind Kind, end int, word uint16, open bool) {
	c := b[i]
	if s.before >= beforeAt && s.before <= beforeAccount {
		if kind, end, open = s.account(b, i, final); kind != KindEOF {
			return kind, end, 0, open
		}
	}
	switch s.ct[c] {
	case clWord:
		return s.word(b, i, final)
	case clHigh:
		s.unsure, s.before = true, beforeOther
		return KindOperator, i + 1, 0, false
	case clDollar:
		s.unsure = s.unsure || s.mode.kind() != ServerMariaDB
		return s.word(b, i, final)
	case clSpace:
		end = i + 1
		for end < len(b) && s.ct[b[end]] == clSpace {
			end++
		}
		s.recordGap()
		return KindSpace, end, 0, false
	case clDigit:
		if s.before == beforeDot {
			return s.name(b, i, i+1, final)
		}
		return s.number(b, i, final)
	case clQuote:
		if c == '"' && s.mode&ANSIQuotes != 0 {
			return s.quotedName(b, i, final)
		}
		return s.str(b, i+1, c, final)
	case clBack:
		return s.quotedName(b, i, final)
	case clDot:
		return s.dot(b, i, final)
	case clAt:
		return s.at(b, i, final)
	case clSlash:
		return s.slash(b, i, final)
	case clMinus:
		return s.minus(b, i, final)
	case clHash:
		return s.lineComment(b, i, final)
	case clParam:
		s.before = beforeOther
		return KindParam, i + 1, 0, false
	case clEscape:
		if i+1 == len(b) && !final {
			return kindMore, i, 0, false
		}
		s.before = beforeOther
		if i+1 < len(b) && b[i+1] == 'N' {
			return KindNull, i + 2, 0, false
		}
		return KindOperator, i + 1, 0, false
	case clOp:
		return s.operator(b, i, final)
	case clNul:
		s.unsure = true
		s.recordGap()
		return KindSpace, i + 1, 0, false
	}
	s.before = beforeOther
	return KindOperator, i + 1, 0, false
}

// account scans the name that follows the @ of a variable or of an account name, or returns KindEOF if there
// is none.
func (s *scanner) account(b []byte, i int, final bool) (kind Kind, end int, open bool) {
	kind = KindVariable
	if s.before == beforeAccount {
		kind = KindHost
	}
	switch c := b[i]; {
	case s.ct.isWord(c) || c == '.':
		end = s.nameEnd(b, i, final)
		s.unsure = s.unsure || hasHigh(b[i:end])
		if s.goesOn(b, end, final) {
			if end-i <= maxHeld {
				return kindMore, i, false
			}
			open = true
		}
	case c == '`' || c == '"' && s.mode&ANSIQuotes != 0:
		kind = KindVariable // or the host of an account: a name
		end, open = closeName(b, i+1, c, s.mode, final)
	case c == '\'' || c == '"':
		end, open = closeString(b, i+1, c, s.mode, final)
	default:
		return KindEOF, i, false
	}
	s.before = beforeOther
	return kind, end, open
}

func (s *scanner) word(b []byte, i int, final bool) (Kind, int, uint16, bool) {
	end := s.wordEnd(b, i, final)
	if s.before == beforeDot || end-i > maxHeld {
		return s.name(b, i, end, final)
	}
	if end+2 > len(b) && !final {
		return kindMore, i, 0, false // a dot, a parenthesis or a quote may follow
	}
	if end < len(b) {
		switch next := b[end]; {
		case next == '\'' && end-i == 1 && s.before != beforeAtAt:
			if c := b[i] | 0x20; c == 'n' || c == 'x' || c == 'b' {
				return s.str(b, end+1, '\'', final)
			}
		case s.before != beforeAtAt && dotName(b, end):
			s.before = beforeNameAdjacent
			return KindIdent, end, 0, false
		}
	}
	if end-i <= maxKeyword {
		if id := lookupKeyword(b, i, end); id != 0 {
			f := keywords[id].flags
			switch {
			case f&isCall != 0 && (end == len(b) || b[end] != '('):
				s.before = beforeNameAdjacent
				return KindIdent, end, 0, false
			case f&isCallOnMariaDB != 0 && s.mode.kind() == ServerMariaDB && !opensCall(b, end):
				s.before = beforeNameAdjacent
				return KindIdent, end, 0, false
			case s.before == beforeAtAt:
				s.before = beforeNameAdjacent
			case f&isHint != 0:
				s.before = beforeVerb
			default:
				s.before = beforeOther
			}
			if f&isCharset != 0 {
				return KindIntroducer, end, id, false
			}
			return KindKeyword, end, id, false
		}
	}
	s.before = beforeNameAdjacent
	return KindIdent, end, 0, false
}

// opensCall reports whether a parenthesis follows at b[i], or after one space.
func opensCall(b []byte, i int) bool {
	if i < len(b) && b[i] == ' ' {
		i++
	}
	return i < len(b) && b[i] == '('
}

// name ends the unquoted identifier that begins with b[i:end].
func (s *scanner) name(b []byte, i, end int, final bool) (Kind, int, uint16, bool) {
	end = s.wordEnd(b, end, final)
	open := s.goesOn(b, end, final)
	if open && end-i <= maxHeld {
		return kindMore, i, 0, false
	}
	s.before = beforeNameAdjacent
	return KindIdent, end, 0, open
}

// quotedName scans a quoted identifier. If its content is a word that is not reserved, and neither a dot
// before nor one after marks it as a name, word is set: quoted or not, it is the same word.
func (s *scanner) quotedName(b []byte, i int, final bool) (kind Kind, end int, word uint16, open bool) {
	end, open = closeName(b, i+1, b[i], s.mode, final)
	switch {
	case open && len(b)-i <= maxHeld, !open && !final && end+2 > len(b) && end-i <= maxHeld:
		return kindMore, i, 0, false
	case !open && s.before != beforeDot && s.before != beforeAtAt && !dotName(b, end) && (end == len(b) || b[end] != '('):
		to := end
		if b[end-1] == b[i] { // else it is unterminated
			to--
		}
		word = s.quotedWord(b, i+1, to)
	}
	s.before = beforeNameAdjacent
	return KindQuotedIdent, end, word, open
}

// quotedWord returns the word that is not reserved and that b[i:end], the content of quotes, spells.
func (s *scanner) quotedWord(b []byte, i, end int) uint16 {
	if end <= i || end-i > maxKeyword {
		return 0
	}
	for _, c := range b[i:end] {
		if !s.ct.isWord(c) {
			return 0
		}
	}
	if id := lookupKeyword(b, i, end); keywords[id].flags&s.names != 0 {
		return id
	}
	return 0
}

// dotName reports whether a dot and a name follow at b[i].
func dotName(b []byte, i int) bool {
	return i+1 < len(b) && b[i] == '.' && (ctypes[0].isWord(b[i+1]) || b[i+1] == '`')
}

// closeName returns the end of a quoted identifier whose content starts at b[i]; if it is not in b and more
// may follow, it returns i and true. A doubled quote is content; a backslash is not an escape.
func closeName(b []byte, i int, quote byte, m Mode, final bool) (end int, open bool) {
	if m&anyCharset != 0 {
		return closeChars(b, i, quote, m, false, final)
	}
	for j := i; ; {
		n := bytes.IndexByte(b[j:], quote)
		switch {
		case n < 0 && final:
			return len(b), false
		case n < 0, j+n+1 == len(b) && !final:
			return i, true
		case j+n+1 < len(b) && b[j+n+1] == quote:
			j += n + 2
		default:
			return j + n + 1, false
		}
	}
}

// str scans a string literal whose content starts at b[i].
func (s *scanner) str(b []byte, i int, quote byte, final bool) (Kind, int, uint16, bool) {
	end, open := closeString(b, i, quote, s.mode, final)
	s.before = beforeString
	return KindString, end, 0, open
}

// closeString is closeName for string literals: a backslash escapes the byte after it, unless the mode
// disables that.
func closeString(b []byte, i int, quote byte, m Mode, final bool) (end int, open bool) {
	escape := byte('\\')
	if m&(NoBackslashEscapes|anyCharset) != 0 {
		if m&anyCharset != 0 {
			return closeChars(b, i, quote, m, m&NoBackslashEscapes == 0, final)
		}
		escape = quote
	}
	for j := i; ; {
		j = indexEither(b, j, quote, escape)
		switch {
		case j >= len(b):
			if final {
				return len(b), false
			}
			return i, true
		case b[j] != quote:
			j += 2
		case j+1 == len(b) && !final:
			return i, true
		case j+1 < len(b) && b[j+1] == quote:
			j += 2
		default:
			return j + 1, false
		}
	}
}

// indexEither returns the first offset at or after i of x or y, or an offset past the end.
func indexEither(b []byte, i int, x, y byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	xs, ys := ones*uint64(x), ones*uint64(y)
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		p, q := v^xs, v^ys
		if hit := ((p-ones)&^p | (q-ones)&^q) & tops; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i < len(b); i++ {
		if b[i] == x || b[i] == y {
			return i
		}
	}
	return i
}

func (s *scanner) dot(b []byte, i int, final bool) (Kind, int, uint16, bool) {
	if s.before == beforeNameAdjacent {
		s.before = beforeDot
		return KindOperator, i + 1, 0, false
	}
	if i+3 > len(b) && !final {
		return kindMore, i, 0, false
	}
	if i+1 < len(b) && isDigit(b[i+1]) {
		return s.number(b, i, final)
	}
	if i+2 < len(b) && b[i+1] == '.' && b[i+2] == '.' {
		s.before = beforeOther
		return KindEllipsis, i + 3, 0, false
	}
	s.before = beforeDot
	return KindOperator, i + 1, 0, false
}

func (s *scanner) at(b []byte, i int, final bool) (Kind, int, uint16, bool) {
	if i+1 == len(b) && !final {
		return kindMore, i, 0, false
	}
	if i+1 < len(b) && b[i+1] == '@' {
		s.before = beforeAtAt
		return KindOperator, i + 2, 0, false
	}
	switch s.before {
	case beforeName, beforeNameAdjacent, beforeString:
		s.before = beforeAccount
	default:
		s.before = beforeAt
	}
	return KindOperator, i + 1, 0, false
}

// slash scans a comment of any kind, or the division operator.
func (s *scanner) slash(b []byte, i int, final bool) (Kind, int, uint16, bool) {
	rest := b[i:]
	switch {
	case len(rest) < 4 && !final:
		return kindMore, i, 0, false
	case len(rest) < 2 || rest[1] != '*':
		s.before = beforeOther
		return KindOperator, i + 1, 0, false
	case len(rest) > 2 && rest[2] == '!':
		return s.executable(b, i, i+3, final)
	case len(rest) > 3 && rest[2] == 'M' && rest[3] == '!' && s.runsM():
		return s.executable(b, i, i+4, final)
	case len(rest) > 3 && rest[2] == 'T' && rest[3] == '!' && s.mode.kind() != ServerMariaDB && s.mode.kind() != ServerMySQL:
		s.unsure = true
	case len(rest) > 2 && rest[2] == '+':
		s.unsure = s.unsure || !plainHint(rest[3:])
		if s.before == beforeVerb && !s.hint {
			s.before, s.hint = beforeOther, true
			return KindHintOpen, i + 3, 0, false
		}
	}
	s.recordGap()
	n := bytes.Index(rest[2:], []byte("*/"))
	switch {
	case n >= 0:
		return KindComment, i + 2 + n + 2, 0, false
	case final:
		return KindComment, len(b), 0, false
	}
	return KindComment, i + 2, 0, true
}

func (s *scanner) minus(b []byte, i int, final bool) (Kind, int, uint16, bool) {
	if i+3 > len(b) && !final {
		return kindMore, i, 0, false
	}
	if i+1 < len(b) {
		switch {
		case b[i+1] == '-' && (i+2 == len(b) || s.ct.startsComment(b[i+2])):
			return s.lineComment(b, i, final)
		case b[i+1] == '>':
			s.before = beforeOther
			if i+2 < len(b) && b[i+2] == '>' {
				return KindOperator, i + 3, 0, false
			}
			return KindOperator, i + 2, 0, false
		}
	}
	s.before = beforeOther
	return KindOperator, i + 1, 0, false
}

func (s *scanner) lineComment(b []byte, i int, final bool) (Kind, int, uint16, bool) {
	s.recordGap()
	n := bytes.IndexByte(b[i:], '\n')
	end := len(b)
	if n >= 0 {
		end = i + n
	}
	s.unsure = s.unsure || bytes.IndexByte(b[i:end], 0) >= 0
	switch {
	case n >= 0:
		return KindComment, i + n, 0, false
	case final:
		return KindComment, len(b), 0, false
	}
	return KindComment, i + 1, 0, true
}

// operator scans the operators of one to three bytes, and the end of an open comment.
func (s *scanner) operator(b []byte, i int, final bool) (Kind, int, uint16, bool) {
	c := b[i]
	if c == '*' && !s.hint && !s.exec || c == '=' {
		s.before = beforeOther
		return KindOperator, i + 1, 0, false
	}
	if i+3 > len(b) && !final {
		return kindMore, i, 0, false
	}
	var c1, c2 byte
	if i+1 < len(b) {
		c1 = b[i+1]
	}
	if i+2 < len(b) {
		c2 = b[i+2]
	}
	n := 1
	switch c {
	case '*':
		if c1 == '/' {
			if s.hint {
				s.hint, s.before = false, beforeOther
				return KindHintClose, i + 2, 0, false
			}
			s.exec = false
			s.recordGap()
			return KindExecClose, i + 2, 0, false
		}
	case '<':
		switch {
		case c1 == '=' && c2 == '>':
			n = 3
		case c1 == '=', c1 == '>', c1 == '<':
			n = 2
		}
	case '>':
		if c1 == '=' || c1 == '>' {
			n = 2
		}
	case '!', ':':
		if c1 == '=' {
			n = 2
		}
	case '&', '|':
		if c1 == c {
			n = 2
		}
	}
	s.before = beforeOther
	return KindOperator, i + n, 0, false
}
