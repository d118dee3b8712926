package sqldigest

// Byte classes: the kind of token that a byte starts, or whether it continues a word.
const (
	clOther   = iota // starts no token of the language: an operator of one byte
	clSpace          // space, tab, newline, vertical tab, form feed, carriage return, and the character set's other spaces
	clWord           // letter, _, or a letter past 0x7f
	clDollar         // $, a word byte with which MySQL's dollar-quoted text starts
	clDigit          // 0-9
	clHigh           // a byte past 0x7f that may be a word byte or white space
	clControl        // a control character, no token: "--" before it is a comment
	clNul            // NUL, which ends the text for some servers
	clOp             // an operator that may have several bytes
	clQuote          // ' or "
	clBack           // `
	clDot            // .
	clAt             // @
	clSlash          // /
	clMinus          // -
	clHash           // #
	clParam          // ?
	clEscape         // \
	clPunct          // comma, parentheses, =
	clSemi           // ;
)

// asciiClass are the classes of the bytes below 0x80, in every character set available to clients.
var asciiClass = [0x80]uint8{
	0: clNul, '\t': clSpace, '\n': clSpace, '\v': clSpace, '\f': clSpace, '\r': clSpace, ' ': clSpace,
	'!': clOp, '"': clQuote, '#': clHash, '$': clDollar, '&': clOp, '\'': clQuote, '(': clPunct, ')': clPunct, '*': clOp, ',': clPunct,
	'-': clMinus, '.': clDot, '/': clSlash,
	'0': clDigit, '1': clDigit, '2': clDigit, '3': clDigit, '4': clDigit,
	'5': clDigit, '6': clDigit, '7': clDigit, '8': clDigit, '9': clDigit,
	':': clOp, ';': clSemi, '<': clOp, '=': clPunct, '>': clOp, '?': clParam, '@': clAt,
	'A': clWord, 'B': clWord, 'C': clWord, 'D': clWord, 'E': clWord, 'F': clWord, 'G': clWord,
	'H': clWord, 'I': clWord, 'J': clWord, 'K': clWord, 'L': clWord, 'M': clWord, 'N': clWord,
	'O': clWord, 'P': clWord, 'Q': clWord, 'R': clWord, 'S': clWord, 'T': clWord, 'U': clWord,
	'V': clWord, 'W': clWord, 'X': clWord, 'Y': clWord, 'Z': clWord,
	'\\': clEscape, '_': clWord, '`': clBack,
	'a': clWord, 'b': clWord, 'c': clWord, 'd': clWord, 'e': clWord, 'f': clWord, 'g': clWord,
	'h': clWord, 'i': clWord, 'j': clWord, 'k': clWord, 'l': clWord, 'm': clWord, 'n': clWord,
	'o': clWord, 'p': clWord, 'q': clWord, 'r': clWord, 's': clWord, 't': clWord, 'u': clWord,
	'v': clWord, 'w': clWord, 'x': clWord, 'y': clWord, 'z': clWord, '|': clOp,
}

// A ctype is the class of each byte in one character set of one server.
type ctype [256]uint8

// ctypes are the tables that ctypesMariaDB and ctypesMySQL refer to by index. The first is for an unknown
// character set: all bytes past 0x7f are word bytes. The last is TiDB's.
var ctypes = makeCtypes()

func makeCtypes() (all [len(ctypeTables) + 1]ctype) {
	for i := range all {
		copy(all[i][:], asciiClass[:])
		for c := 1; c < 0x20; c++ {
			if all[i][c] == clOther {
				all[i][c] = clControl
			}
		}
		all[i][0x7f] = clControl
		for c := 0x80; c < 0x100; c++ {
			switch {
			case i == len(ctypeTables):
				all[i][c] = clHigh
			case i == 0 || ctypeTables[i][c] == 'w':
				all[i][c] = clWord
			case ctypeTables[i][c] == 's':
				all[i][c] = clSpace
			case ctypeTables[i][c] == 'c':
				all[i][c] = clControl
			}
		}
	}
	return all
}

// ctypeOf returns the table for a mode.
func ctypeOf(m Mode) *ctype {
	switch cs := m.Charset(); m.kind() {
	case ServerTiDB:
		return &ctypes[len(ctypeTables)]
	case ServerMySQL:
		return &ctypes[tableOf(ctypesMySQL[:], cs)]
	default:
		return &ctypes[tableOf(ctypesMariaDB[:], cs)]
	}
}

// isWord reports whether c is part of a word.
func (t *ctype) isWord(c byte) bool { return t[c]-clWord <= clDigit-clWord }

// isSpace reports whether c is white space.
func (t *ctype) isSpace(c byte) bool { return t[c] == clSpace }

// isDigit reports whether c is a decimal digit.
func isDigit(c byte) bool { return c-'0' < 10 }
