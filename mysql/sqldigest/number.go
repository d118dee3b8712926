package sqldigest

// number scans a token that starts with a digit, or with a dot and a digit: a number, or an identifier such
// as 2fast. An identifier is recognized in its first maxHeld bytes; otherwise the token is a number in the
// text, and ends where the server's token ends.
func (s *scanner) number(b []byte, i int, final bool) (Kind, int, uint16, bool) {
	window := b[i:]
	cut := len(window) > maxHeld
	if cut {
		window = window[:maxHeld]
	}
	end, name := numberEnd(s.ct, window, cut || !final)
	switch {
	case name:
		return s.name(b, i, i+end, final)
	case end >= 0:
		s.before = beforeOther
		return KindNumber, i + end, 0, false
	case !cut:
		return kindMore, i, 0, false
	}
	s.before = beforeOther
	s.num = stateOf(window)
	to, open := s.numberRest(b, i+maxHeld, final)
	return KindNumber, to, 0, open
}

// A numberState is the part of a long number that the next byte belongs to.
type numberState uint8

const (
	numberInteger  numberState = iota // digits: a dot, an exponent or the rest of a name may follow
	numberFraction                    // digits after the dot
	numberExponent                    // digits after the e and its sign
	numberSign                        // after the e, before its sign or digits
	numberName                        // hexadecimal or binary digits, or a name: word bytes
)

// stateOf returns the state after w, the first maxHeld bytes of a number.
func stateOf(w []byte) (st numberState) {
	if w[0] == '0' && (w[1] == 'x' || w[1] == 'b') {
		return numberName
	}
	for _, c := range w {
		switch {
		case c == '.':
			st = numberFraction
		case c|0x20 == 'e':
			st = numberSign
		case st == numberSign:
			st = numberExponent
		}
	}
	return st
}

// numberRest continues a long number at b[i] and returns its end, and whether it continues after b.
func (s *scanner) numberRest(b []byte, i int, final bool) (end int, open bool) {
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case s.num == numberName:
			if !s.ct.isWord(c) {
				return i, false
			}
		case isDigit(c):
			if s.num == numberSign {
				s.num = numberExponent
			}
		case s.num == numberSign:
			if c != '+' && c != '-' {
				s.unsure = true // a name, or an error: servers differ in its end
				s.num = numberName
				i--
				continue
			}
			s.num = numberExponent
		case s.num == numberInteger && c == '.':
			s.num = numberFraction
		case s.num <= numberFraction && c|0x20 == 'e':
			s.num = numberSign
		case s.num == numberInteger && s.ct.isWord(c):
			s.num = numberName
		default:
			return i, false
		}
	}
	return i, !final
}

// numberEnd returns the end of the number at the beginning of w; for an identifier it returns an offset
// inside it and true. If more is set, bytes follow w, and the end is -1 if they decide.
func numberEnd(ct *ctype, w []byte, more bool) (end int, name bool) {
	if w[0] == '0' && len(w) > 1 && (w[1] == 'x' || w[1] == 'b') {
		j := 2
		if w[1] == 'x' {
			for j < len(w) && isHex(w[j]) {
				j++
			}
		} else {
			for j < len(w) && w[j]&^1 == '0' {
				j++
			}
		}
		switch {
		case j == len(w) && more:
			return -1, false
		case j == 2, j < len(w) && ct.isWord(w[j]):
			return j, true
		}
		return j, false
	}
	j := digits(w, 0)
	if j == len(w) {
		return endOr(j, more), false
	}
	if w[j] == '.' {
		j = digits(w, j+1)
		if j == len(w) {
			return endOr(j, more), false
		}
		if w[j]|0x20 != 'e' {
			return j, false
		}
		k, ok := exponent(w, j, more)
		if ok {
			j = k
		}
		return j, false
	}
	if w[j]|0x20 == 'e' {
		k, ok := exponent(w, j, more)
		if ok {
			return k, false
		}
	}
	return j, ct.isWord(w[j])
}

// exponent returns the end of the exponent at w[j], an e; ok is false if there is none.
func exponent(w []byte, j int, more bool) (end int, ok bool) {
	k := j + 1
	if k < len(w) && (w[k] == '+' || w[k] == '-') {
		k++
	}
	if k == len(w) {
		return -1, more
	}
	if !isDigit(w[k]) {
		return j, false
	}
	k = digits(w, k)
	if k == len(w) {
		return endOr(k, more), true
	}
	return k, true
}

func digits(w []byte, j int) int {
	for j < len(w) && isDigit(w[j]) {
		j++
	}
	return j
}

func endOr(j int, more bool) int {
	if more {
		return -1
	}
	return j
}

func isHex(c byte) bool { return isDigit(c) || (c|0x20)-'a' < 6 }
