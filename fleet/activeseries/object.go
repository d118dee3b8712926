package activeseries

// Bytes between the strings of items without white space, as words in little-endian order.
const (
	open     = '{' | '"'<<8           // {"
	nameEnd  = '"' | ':'<<8 | '"'<<16 // ":"
	valueEnd = '"' | ','<<8 | '"'<<16 // ","
	lastEnd  = '"' | '}'<<8           // "}
	another  = ',' | '{'<<8           // ,{
	three    = 1<<24 - 1
)

// compactItem returns the index after the item at b[i] = '{' if the item has no white space, is complete and
// valid; otherwise 0, and the caller calls object. It leaves the fast path only for escapes and bytes that
// are not ASCII.
func compactItem(b []byte, i, end int) int {
	if load16(b, i) != open {
		return 0
	}
	i += 2
	for {
		i = plainRun(b, i)
		if load32(b, i)&three != nameEnd {
			var v verdict
			if i, v = stringEnd(b, i, end); v != good || load32(b, i)&three != nameEnd {
				return 0
			}
		}
		i = plainRun(b, i+3)
		w := load32(b, i)
		if w&three != valueEnd {
			if w&0xffff == lastEnd {
				return i + 2
			}
			var v verdict
			if i, v = stringEnd(b, i, end); v != good {
				return 0
			}
			if w = load32(b, i); w&0xffff == lastEnd {
				return i + 2
			}
			if w&three != valueEnd {
				return 0
			}
		}
		i += 3
	}
}

// compactItems scans consecutive items without white space, separated by commas, from b[i] = '{'. It returns
// the index after the last complete one and their number. The next byte may be the end of the list, an item
// with white space, the end of the bytes read, or an error: the caller calls object.
func compactItems(b []byte, i, end int) (next, items int) {
	next = i
	for {
		if i = compactItem(b, i, end); i == 0 {
			return next, items
		}
		next = i
		items++
		if load16(b, i) != another {
			return next, items
		}
		i++
	}
}

// object returns the index after the item at b[i] = '{', with or without white space, or the index of the
// invalid byte.
func object(b []byte, i, end int) (int, verdict) {
	i = skipSpace(b, i+1)
	if b[i] == '}' {
		return i + 1, good
	}
	for {
		if b[i] != '"' {
			return lack(i, end, badKey)
		}
		var v verdict
		if i, v = stringEnd(b, i+1, end); v != good {
			return i, v
		}
		if i = skipSpace(b, i+1); b[i] != ':' {
			return lack(i, end, badColon)
		}
		if i = skipSpace(b, i+1); b[i] != '"' {
			return lack(i, end, badValue)
		}
		if i, v = stringEnd(b, i+1, end); v != good {
			return i, v
		}
		i = skipSpace(b, i+1)
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case '}':
			return i + 1, good
		default:
			return lack(i, end, badByte)
		}
	}
}

// lack returns the verdict on an unexpected byte: more if the byte was not read yet, otherwise v.
func lack(i, end int, v verdict) (int, verdict) {
	if i >= end {
		return i, more
	}
	return i, v
}
