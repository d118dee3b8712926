package activeseries

// A skipper validates a value of any kind token by token, so that it may be larger than memory. It keeps
// nothing but warnings.
type skipper struct {
	want  skipWant
	depth int      // number of open values, including the body
	open  []uint64 // a bit per open value: array or object
}

type skipWant uint8

const (
	skipValue skipWant = iota
	skipFirstName
	skipName
	skipColon
	skipFirstElement
	skipAfter
)

// start starts with a value of a member of the body.
func (k *skipper) start() { k.want, k.depth = skipValue, 1 }

// value continues with the value at the scanner's pos. The verdict is good at its end.
func (k *skipper) value(s *Scanner) verdict {
	for {
		i := skipSpace(s.buf, s.pos)
		s.pos = i
		if i >= s.end {
			return more
		}
		c := s.buf[i]
		switch k.want {
		case skipAfter:
			if v := k.after(c); v != good {
				return v
			}
			s.pos++
		case skipColon:
			if c != ':' {
				return badColon
			}
			s.pos, k.want = i+1, skipValue
		case skipFirstName, skipName:
			if c == '}' && k.want == skipFirstName {
				s.pos = i + 1
				k.pop()
				break
			}
			if c != '"' {
				return badKey
			}
			q, v := stringEnd(s.buf, i+1, s.end)
			if v != good {
				return s.stopAt(q, v)
			}
			s.pos, k.want = q+1, skipColon
		case skipFirstElement, skipValue:
			if c == ']' && k.want == skipFirstElement {
				s.pos = i + 1
				k.pop()
				break
			}
			next, v := k.token(s, c, i)
			if v != good {
				return s.stopAt(next, v)
			}
			s.pos = next
		}
		if k.want == skipAfter && k.depth == 1 {
			return good
		}
	}
}

// token reads a scalar, or the start of an array or object, at c = buf[i].
func (k *skipper) token(s *Scanner, c byte, i int) (next int, v verdict) {
	k.want = skipAfter
	switch {
	case c == '"':
		if next, v = stringEnd(s.buf, i+1, s.end); v == good {
			next++
			s.members.warnText(s.buf[i:next])
		}
	case c == '{', c == '[':
		if k.depth == maxDepth {
			return i, tooDeep
		}
		k.push(c == '[')
		next = i + 1
	case c == '-' || isDigit(c):
		next, v = number(s.buf, i, s.end)
	case c == 't':
		next, v = word(s.buf, i, s.end, "true")
	case c == 'f':
		next, v = word(s.buf, i, s.end, "false")
	case c == 'n':
		next, v = word(s.buf, i, s.end, "null")
	default:
		next, v = i, badByte
	}
	if v == more {
		k.want = skipValue
	} else if v == good && (isDigit(c) || c == '-' || c == 't' || c == 'f') {
		s.members.warnScalar(s.buf[i:next])
	}
	return next, v
}

// after handles the byte c that follows a value inside an array or object.
func (k *skipper) after(c byte) verdict {
	array := k.inArray()
	switch {
	case c == ',' && array:
		k.want = skipValue
	case c == ',':
		k.want = skipName
	case c == ']' && array, c == '}' && !array:
		k.pop()
	default:
		return badByte
	}
	return good
}

func (k *skipper) push(array bool) {
	word, bit := k.depth/64, uint64(1)<<(k.depth%64)
	for word >= len(k.open) {
		k.open = append(k.open, 0)
	}
	k.depth++
	if array {
		k.open[word] |= bit
		k.want = skipFirstElement
		return
	}
	k.open[word] &^= bit
	k.want = skipFirstName
}

func (k *skipper) pop() {
	k.depth--
	k.want = skipAfter
}

func (k *skipper) inArray() bool {
	i := k.depth - 1
	return k.open[i/64]&(1<<(i%64)) != 0
}
