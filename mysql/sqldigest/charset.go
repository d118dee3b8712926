package sqldigest

// anyCharset are the bits of the character sets in which the second byte of a character may be 0x40 to 0x7e,
// the range of backslash, backtick and @. Their lead bytes differ too much for a union: 0xb1 begins a
// character in big5 and gbk, and is one in sjis.
//
// In gb18030 the characters of four bytes have digits in second and fourth position: split into two pairs of
// gbk, they yield the same tokens.
const anyCharset = Big5 | GBK | SJIS

// leads reports whether c begins a two-byte character.
func (m Mode) leads(c byte) bool {
	switch {
	case c < 0x81:
		return false
	case m&Big5 != 0:
		return 0xa1 <= c && c <= 0xf9
	case m&GBK != 0:
		return c <= 0xfe
	case m&SJIS != 0:
		return c <= 0x9f || 0xe0 <= c && c <= 0xfc
	}
	return false
}

// trails reports whether c after a lead byte ends its character. If not, servers treat the lead byte as a
// separate character.
func (m Mode) trails(c byte) bool {
	switch {
	case c < 0x40 || c == 0x7f:
		return false
	case c < 0x7f:
		return true
	case m&Big5 != 0:
		return 0xa1 <= c && c <= 0xfe
	case m&GBK != 0:
		return 0x80 <= c && c <= 0xfe
	}
	return 0x80 <= c && c <= 0xfc
}

// wordEnd returns the end of the word bytes that start at b[i]. If final is false, it stops before a lead
// byte that is b's last: at the end of b or before a word byte, the word continues.
func (s *scanner) wordEnd(b []byte, i int, final bool) int {
	if s.mode&anyCharset != 0 {
		return s.charsEnd(b, i, final, 0)
	}
	for i < len(b) && s.ct.isWord(b[i]) {
		i++
	}
	return i
}

// nameEnd is wordEnd for word bytes and dots.
func (s *scanner) nameEnd(b []byte, i int, final bool) int {
	if s.mode&anyCharset != 0 {
		return s.charsEnd(b, i, final, '.')
	}
	for i < len(b) && (s.ct.isWord(b[i]) || b[i] == '.') {
		i++
	}
	return i
}

// charsEnd returns the end of the run of word bytes, two-byte characters and bytes equal to also that starts
// at b[i]; also 0 means no such byte.
func (s *scanner) charsEnd(b []byte, i int, final bool, also byte) int {
	for i < len(b) {
		c := b[i]
		switch {
		case s.mode.leads(c):
			if i+1 == len(b) && !final {
				return i
			}
			if i+1 < len(b) && s.mode.trails(b[i+1]) {
				i++
			}
		case !s.ct.isWord(c) && (c != also || also == 0):
			return i
		}
		i++
	}
	return i
}

// goesOn reports whether the word that ends at b[end] may continue after b.
func (s *scanner) goesOn(b []byte, end int, final bool) bool {
	return !final && (end == len(b) || s.ct.isWord(b[end]))
}

// closeChars is closeName, or closeString if escapes is set, for two-byte characters.
func closeChars(b []byte, i int, quote byte, m Mode, escapes, final bool) (end int, open bool) {
	for j := i; j < len(b); j++ {
		switch c := b[j]; {
		case c == quote:
			if j+1 == len(b) && !final {
				return i, true
			}
			if j+1 == len(b) || b[j+1] != quote {
				return j + 1, false
			}
			j++
		case c == '\\' && escapes:
			j++
		case m.leads(c) && j+1 < len(b) && m.trails(b[j+1]):
			j++
		}
	}
	if final {
		return len(b), false
	}
	return i, true
}

// resumeChars is resumeName, or resumeString if escapes is set, for two-byte characters.
func (d *Digester) resumeChars(b []byte, i int, name, escapes bool) int {
	m := d.s.mode
	for ; i < len(b); i++ {
		c, half := b[i], d.half
		d.half = 0
		switch {
		case half == d.quote && half != 0:
			if c != half {
				return d.closeOpen(i, name)
			}
		case half == '\\', half != 0 && m.trails(c):
		case c == d.quote:
			d.half = c
			continue
		case c == '\\' && escapes, m.leads(c):
			d.half = c
		}
		d.copyName(b[i:i+1], name)
	}
	return i
}

// appendChars appends the content of an identifier. A backtick is doubled unless it ends a character; d.lead
// carries state between calls.
func (d *Digester) appendChars(p []byte) {
	m := d.s.mode
	for _, c := range p {
		switch {
		case d.lead && m.trails(c):
			d.lead = false
		default:
			if c == '`' {
				d.buf = append(d.buf, c)
			}
			d.lead = m.leads(c)
		}
		d.buf = append(d.buf, c)
	}
}

// endName appends the closing backtick of a name. A single lead byte at the name's end is followed by a ?:
// together with the backtick it would be a character.
func (d *Digester) endName() {
	if d.lead {
		d.lead = false
		d.buf = append(d.buf, '?')
	}
	d.buf = append(d.buf, '`')
}
