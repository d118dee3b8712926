package sqldigest

import "encoding/binary"

// fast is run for plain tokens: a word, a name in backticks, a decimal number, a string, punctuation, whose
// meaning does not depend on their neighbors. It returns at the first token to which it does not apply, and
// at the latest at an i ≥ stop.
//
// It keeps text, token count and state in local variables: the general path spends most of its time on memory
// accesses per token.
func (d *Digester) fast(b []byte, i, stop int, final bool) int {
	if d.semicolon || d.quotedWord || d.s.mode&anyCharset != 0 {
		return i
	}
	buf, top, before, wordAt := d.buf, d.top, d.s.before, d.before
	last := d.codes[(top-1)%window]
	ct := d.s.ct
loop:
	for i < stop {
		c := b[i]
		cl := ct[c]
		if cl == clSpace {
			i++
			before = gapped[before%16]
			continue
		}
		if before > beforeDot {
			break
		}
		end := i + 1
		code := tokValue
		var word *keyword
		var keywordNow wordBefore
		bare := false // the text has an unquoted name
		was := before
		switch cl {
		case clWord:
			for end < len(b) && ct.isWord(b[end]) {
				end++
			}
			if end+1 >= len(b) && !final || end-i > maxHeld {
				break loop
			}
			code, before = tokIdent, beforeNameAdjacent
			if callable>>last&1 != 0 || last == tokDot && d.codes[(top-2)%window] == tokFunc {
				code = tokFunc
			}
			if was == beforeDot {
				break
			}
			if end < len(b) && (b[end] == '\'' || b[end] == '.') {
				if dotName(b, end) {
					break
				}
				before = was
				break loop
			}
			var id uint16
			if n := uint(end - i); n <= 8 && i+8 <= len(b) {
				lo := binary.LittleEndian.Uint64(b[i:]) & (foldMask >> ((8 - n) * 8 & 63))
				if id = keywordTable[keywordSlot(lo, 0, int(n))]; id != 0 && (keywords[id].lo != lo || keywords[id].hi != 0) {
					id = lookupKeyword(b, i, end)
				}
			} else if n <= maxKeyword {
				id = lookupKeyword(b, i, end)
			}
			if id != 0 {
				word = &keywords[id]
				if word.flags&(isCall|isCallOnMariaDB|isCharset|isLiteral) != 0 {
					before = was
					break loop
				}
				before = beforeOther
				if word.flags&isHint != 0 {
					before = beforeVerb
				}
				if word.flags&d.s.names != 0 && !d.asKeyword(id, last, wordAt) {
					if word.class == tokTemporal {
						code = temporalClass(code)
					}
					word, bare = nil, last != tokDot
					break
				}
				code, keywordNow = word.class, wordBefore(id)
				if last == tokStart || last == tokSemicolon || word.flags&isHint != 0 {
					d.sawWord(id, last)
					keywordNow = d.before
				}
			}
		case clBack:
			for end < len(b) && ct.isWord(b[end]) {
				end++
			}
			// The closing backtick, and two bytes that classify the name.
			if end+3 > len(b) || b[end] != '`' || end-i > maxHeld || b[end+1] == '`' {
				break loop
			}
			end++
			code, before = tokIdent, beforeNameAdjacent
			if callable>>last&1 != 0 || last == tokDot && d.codes[(top-2)%window] == tokFunc {
				code = tokFunc
			}
			if was == beforeDot || dotName(b, end) {
				break
			}
			if d.s.quotedWord(b, i+1, end-1) != 0 {
				before = was
				break loop // it may lose its quotes
			}
		case clDot:
			if before != beforeNameAdjacent {
				break loop
			}
			code, before = tokDot, beforeDot
		case clDigit:
			for end < len(b) && isDigit(b[end]) {
				end++
			}
			if end < len(b) && b[end] == '.' {
				for end++; end < len(b) && isDigit(b[end]); {
					end++
				}
				if end < len(b) && b[end]|0x20 == 'e' {
					break loop
				}
			} else if end < len(b) && ct.isWord(b[end]) {
				break loop
			}
			if end == len(b) && !final || end-i >= maxHeld || before == beforeDot {
				break loop
			}
			before = beforeOther
		case clQuote:
			if c != '\'' {
				break loop
			}
			var open bool
			if end, open = closeString(b, end, c, d.s.mode, final); open {
				break loop
			}
			before = beforeString
		case clParam:
			before = beforeOther
		case clPunct:
			before = beforeOther
			code = punctClass[c%64]
		case clOp:
			if end == len(b) || !fastOp(c, b[end]) {
				break loop
			}
			code, before = tokExpr, beforeOther
			if c == '*' {
				code = tokStar
			}
		case clSemi:
			d.semicolon, before = last != tokStart, beforeOther
			d.cut = d.split
			i = end
			break loop
		default:
			break loop
		}
		if reduces>>code&1 != 0 && (cl == clQuote || reducible[code%64]>>(last%64)&1 != 0) {
			d.buf, d.pushed, d.top = buf, d.pushed+uint64(top-d.top), top
			switch cl {
			case clDigit:
				d.number()
			case clQuote:
				d.str()
			case clParam:
				d.value()
			default:
				d.closeParen()
			}
			buf, top = d.buf, d.top
			last = d.codes[(top-1)%window]
			wordAt = 0
			i = end
			continue
		}

		// begin, on the local variables.
		if len(buf) > d.soft {
			d.buf, d.pushed, d.top = buf, d.pushed+uint64(top-d.top), top
			d.makeRoom(minRoom)
			buf = d.buf
		}
		n := len(buf)
		d.starts[top%window], d.codes[top%window] = n, code
		top++
		buf = buf[:n+minRoom]
		buf[n] = ' '
		n += int(^tight[last%64] >> (code % 64) & 1)
		last, wordAt = code, keywordNow
		switch {
		case bare:
			n += copyWord(buf[n:], b, i, end)
		case word != nil:
			binary.LittleEndian.PutUint64(buf[n:], word.text0)
			if len(word.text) > 8 {
				copy(buf[n+8:], word.text[8:])
			}
			n += len(word.text)
		case cl == clBack:
			n += copyWord(buf[n:], b, i, end)
		case cl == clWord:
			buf[n] = '`'
			n++
			n += copyWord(buf[n:], b, i, end)
			buf[n] = '`'
			n++
		case code == tokValue:
			buf[n] = '?'
			n++
		default:
			buf[n] = c
			n++
		}
		buf = buf[:n]
		i = end
	}
	d.buf, d.pushed, d.top, d.s.before, d.before = buf, d.pushed+uint64(top-d.top), top, before, wordAt
	return i
}

// reduces are the classes that may absorb preceding tokens, reducible the tokens for which they do so.
// Strings always take the general path, which records that they were strings.
const reduces uint64 = 1<<tokValue | 1<<tokClose

var reducible = [64]uint64{
	tokValue: 1<<tokComma | 1<<tokUnary | 1<<tokCharset,
	tokClose: 1<<tokValue | 1<<tokValues | 1<<tokEllipsis,
}

// punctClass maps the bytes of class clPunct to token classes.
var punctClass = [64]uint8{',': tokComma, '(': tokOpen, ')': tokClose, '=': tokExpr}

// fastOp reports whether c before next is a one-byte operator that does not end a comment.
func fastOp(c, next byte) bool {
	switch c {
	case '*':
		return next != '/'
	case '<', '>':
		return next != '=' && next != '>' && next != '<'
	}
	return false
}

// copyWord copies b[i:end], at most maxHeld+1 bytes, to dst, which has room for more, and
// returns its length.
func copyWord(dst, b []byte, i, end int) int {
	if end-i <= 16 && i+16 <= len(b) {
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(b[i:]))
		binary.LittleEndian.PutUint64(dst[8:], binary.LittleEndian.Uint64(b[i+8:]))
		return end - i
	}
	return copy(dst, b[i:end])
}
