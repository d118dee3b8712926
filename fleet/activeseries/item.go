package activeseries

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
)

// Items returns the items in a Decoder's list, as views of it without the commas. It does not allocate.
func Items(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := 0; i < len(list); {
			if list[i] != '{' { // a comma, or white space
				i++
				continue
			}
			end := itemEnd(list, i)
			if !yield(list[i:end:end]) {
				return
			}
			i = end
		}
	}
}

// Labels returns the names and values of an item that a Decoder has validated, as views of it: JSON strings
// with their quotes. It does not allocate.
func Labels(item []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for i := 0; ; {
			n := nextQuote(item, i)
			if n < 0 {
				return
			}
			nameEnd := closing(item, n+1)
			v := nextQuote(item, nameEnd)
			i = closing(item, v+1)
			if !yield(item[n:nameEnd:nameEnd], item[v:i:i]) {
				return
			}
		}
	}
}

// AppendItem appends a series' labels as an item. Invalid UTF-8 becomes U+FFFD. It does not allocate if dst
// has room.
func AppendItem(dst []byte, labels iter.Seq2[string, string]) []byte {
	dst = append(dst, '{')
	first := true
	for name, value := range labels {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendQuoted(dst, name), ':')
		dst = appendQuoted(dst, value)
	}
	return append(dst, '}')
}

// itemEnd returns the index after the valid item at b[i] = '{'.
func itemEnd(b []byte, i int) int {
	for {
		switch b[i] {
		case '"':
			i = closing(b, i+1)
		case '}':
			return i + 1
		default:
			i++
		}
	}
}

// nextQuote returns the index of the next quote outside of strings, or -1.
func nextQuote(b []byte, i int) int {
	for ; i < len(b); i++ {
		if b[i] == '"' {
			return i
		}
	}
	return -1
}

// closing returns the index after the closing quote of the string that contains b[i].
func closing(b []byte, i int) int {
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			q, e := x^'"'*ones, x^'\\'*ones
			m := ((q-ones)&^q | (e-ones)&^e) & highs
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
		default:
			i++
		}
	}
}

// unescaped returns the text of a valid JSON string: a view of it, or a copy if it has escapes.
func unescaped(quoted []byte) []byte {
	text := quoted[1 : len(quoted)-1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	return []byte(unquote(quoted))
}
