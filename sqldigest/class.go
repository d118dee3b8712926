package sqldigest

// Byte classes: what a byte starts, or whether it goes on a word.
const (
	clOther  = iota // no token of the language starts with it: an operator of one byte
	clSpace         // space, tab, newline, vertical tab, form feed, carriage return, NUL
	clWord          // letter, _, $, or a byte past 0x7f
	clDigit         // 0-9
	clOp            // an operator that may have more bytes
	clQuote         // ' or "
	clBack          // `
	clDot           // .
	clAt            // @
	clSlash         // /
	clMinus         // -
	clHash          // #
	clParam         // ?
	clEscape        // \
	clPunct         // comma, parentheses, =
)

var class = [256]uint8{
	0: clSpace, '\t': clSpace, '\n': clSpace, '\v': clSpace, '\f': clSpace, '\r': clSpace, ' ': clSpace,
	'!': clOp, '"': clQuote, '#': clHash, '$': clWord, '&': clOp, '\'': clQuote, '(': clPunct, ')': clPunct, '*': clOp, ',': clPunct,
	'-': clMinus, '.': clDot, '/': clSlash,
	'0': clDigit, '1': clDigit, '2': clDigit, '3': clDigit, '4': clDigit,
	'5': clDigit, '6': clDigit, '7': clDigit, '8': clDigit, '9': clDigit,
	':': clOp, '<': clOp, '=': clPunct, '>': clOp, '?': clParam, '@': clAt,
	'A': clWord, 'B': clWord, 'C': clWord, 'D': clWord, 'E': clWord, 'F': clWord, 'G': clWord,
	'H': clWord, 'I': clWord, 'J': clWord, 'K': clWord, 'L': clWord, 'M': clWord, 'N': clWord,
	'O': clWord, 'P': clWord, 'Q': clWord, 'R': clWord, 'S': clWord, 'T': clWord, 'U': clWord,
	'V': clWord, 'W': clWord, 'X': clWord, 'Y': clWord, 'Z': clWord,
	'\\': clEscape, '_': clWord, '`': clBack,
	'a': clWord, 'b': clWord, 'c': clWord, 'd': clWord, 'e': clWord, 'f': clWord, 'g': clWord,
	'h': clWord, 'i': clWord, 'j': clWord, 'k': clWord, 'l': clWord, 'm': clWord, 'n': clWord,
	'o': clWord, 'p': clWord, 'q': clWord, 'r': clWord, 's': clWord, 't': clWord, 'u': clWord,
	'v': clWord, 'w': clWord, 'x': clWord, 'y': clWord, 'z': clWord, '|': clOp,
	0x80: clWord, 0x81: clWord, 0x82: clWord, 0x83: clWord, 0x84: clWord, 0x85: clWord, 0x86: clWord, 0x87: clWord,
	0x88: clWord, 0x89: clWord, 0x8a: clWord, 0x8b: clWord, 0x8c: clWord, 0x8d: clWord, 0x8e: clWord, 0x8f: clWord,
	0x90: clWord, 0x91: clWord, 0x92: clWord, 0x93: clWord, 0x94: clWord, 0x95: clWord, 0x96: clWord, 0x97: clWord,
	0x98: clWord, 0x99: clWord, 0x9a: clWord, 0x9b: clWord, 0x9c: clWord, 0x9d: clWord, 0x9e: clWord, 0x9f: clWord,
	0xa0: clWord, 0xa1: clWord, 0xa2: clWord, 0xa3: clWord, 0xa4: clWord, 0xa5: clWord, 0xa6: clWord, 0xa7: clWord,
	0xa8: clWord, 0xa9: clWord, 0xaa: clWord, 0xab: clWord, 0xac: clWord, 0xad: clWord, 0xae: clWord, 0xaf: clWord,
	0xb0: clWord, 0xb1: clWord, 0xb2: clWord, 0xb3: clWord, 0xb4: clWord, 0xb5: clWord, 0xb6: clWord, 0xb7: clWord,
	0xb8: clWord, 0xb9: clWord, 0xba: clWord, 0xbb: clWord, 0xbc: clWord, 0xbd: clWord, 0xbe: clWord, 0xbf: clWord,
	0xc0: clWord, 0xc1: clWord, 0xc2: clWord, 0xc3: clWord, 0xc4: clWord, 0xc5: clWord, 0xc6: clWord, 0xc7: clWord,
	0xc8: clWord, 0xc9: clWord, 0xca: clWord, 0xcb: clWord, 0xcc: clWord, 0xcd: clWord, 0xce: clWord, 0xcf: clWord,
	0xd0: clWord, 0xd1: clWord, 0xd2: clWord, 0xd3: clWord, 0xd4: clWord, 0xd5: clWord, 0xd6: clWord, 0xd7: clWord,
	0xd8: clWord, 0xd9: clWord, 0xda: clWord, 0xdb: clWord, 0xdc: clWord, 0xdd: clWord, 0xde: clWord, 0xdf: clWord,
	0xe0: clWord, 0xe1: clWord, 0xe2: clWord, 0xe3: clWord, 0xe4: clWord, 0xe5: clWord, 0xe6: clWord, 0xe7: clWord,
	0xe8: clWord, 0xe9: clWord, 0xea: clWord, 0xeb: clWord, 0xec: clWord, 0xed: clWord, 0xee: clWord, 0xef: clWord,
	0xf0: clWord, 0xf1: clWord, 0xf2: clWord, 0xf3: clWord, 0xf4: clWord, 0xf5: clWord, 0xf6: clWord, 0xf7: clWord,
	0xf8: clWord, 0xf9: clWord, 0xfa: clWord, 0xfb: clWord, 0xfc: clWord, 0xfd: clWord, 0xfe: clWord, 0xff: clWord,
}

// isWord reports whether c goes on a word.
func isWord(c byte) bool { return class[c]-clWord < 2 }

// isDigit reports whether c is a decimal digit.
func isDigit(c byte) bool { return c-'0' < 10 }
