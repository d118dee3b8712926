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
	clSemi          // ;
)

var class = [256]uint8{
	0: clSpace, '\t': clSpace, '\n': clSpace, '\v': clSpace, '\f': clSpace, '\r': clSpace, ' ': clSpace,
	'!': clOp, '"': clQuote, '#': clHash, '$': clWord, '&': clOp, '\'': clQuote, '(': clPunct, ')': clPunct, '*': clOp, ',': clPunct,
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

// wordByte tells the bytes that go on a word: those of clWord and clDigit.
var wordByte = [256]bool{
	'$': true, '_': true,
	'0': true, '1': true, '2': true, '3': true, '4': true, '5': true, '6': true, '7': true, '8': true, '9': true,
	'A': true, 'B': true, 'C': true, 'D': true, 'E': true, 'F': true, 'G': true, 'H': true, 'I': true,
	'J': true, 'K': true, 'L': true, 'M': true, 'N': true, 'O': true, 'P': true, 'Q': true, 'R': true,
	'S': true, 'T': true, 'U': true, 'V': true, 'W': true, 'X': true, 'Y': true, 'Z': true,
	'a': true, 'b': true, 'c': true, 'd': true, 'e': true, 'f': true, 'g': true, 'h': true, 'i': true,
	'j': true, 'k': true, 'l': true, 'm': true, 'n': true, 'o': true, 'p': true, 'q': true, 'r': true,
	's': true, 't': true, 'u': true, 'v': true, 'w': true, 'x': true, 'y': true, 'z': true,
	0x80: true, 0x81: true, 0x82: true, 0x83: true, 0x84: true, 0x85: true, 0x86: true, 0x87: true,
	0x88: true, 0x89: true, 0x8a: true, 0x8b: true, 0x8c: true, 0x8d: true, 0x8e: true, 0x8f: true,
	0x90: true, 0x91: true, 0x92: true, 0x93: true, 0x94: true, 0x95: true, 0x96: true, 0x97: true,
	0x98: true, 0x99: true, 0x9a: true, 0x9b: true, 0x9c: true, 0x9d: true, 0x9e: true, 0x9f: true,
	0xa0: true, 0xa1: true, 0xa2: true, 0xa3: true, 0xa4: true, 0xa5: true, 0xa6: true, 0xa7: true,
	0xa8: true, 0xa9: true, 0xaa: true, 0xab: true, 0xac: true, 0xad: true, 0xae: true, 0xaf: true,
	0xb0: true, 0xb1: true, 0xb2: true, 0xb3: true, 0xb4: true, 0xb5: true, 0xb6: true, 0xb7: true,
	0xb8: true, 0xb9: true, 0xba: true, 0xbb: true, 0xbc: true, 0xbd: true, 0xbe: true, 0xbf: true,
	0xc0: true, 0xc1: true, 0xc2: true, 0xc3: true, 0xc4: true, 0xc5: true, 0xc6: true, 0xc7: true,
	0xc8: true, 0xc9: true, 0xca: true, 0xcb: true, 0xcc: true, 0xcd: true, 0xce: true, 0xcf: true,
	0xd0: true, 0xd1: true, 0xd2: true, 0xd3: true, 0xd4: true, 0xd5: true, 0xd6: true, 0xd7: true,
	0xd8: true, 0xd9: true, 0xda: true, 0xdb: true, 0xdc: true, 0xdd: true, 0xde: true, 0xdf: true,
	0xe0: true, 0xe1: true, 0xe2: true, 0xe3: true, 0xe4: true, 0xe5: true, 0xe6: true, 0xe7: true,
	0xe8: true, 0xe9: true, 0xea: true, 0xeb: true, 0xec: true, 0xed: true, 0xee: true, 0xef: true,
	0xf0: true, 0xf1: true, 0xf2: true, 0xf3: true, 0xf4: true, 0xf5: true, 0xf6: true, 0xf7: true,
	0xf8: true, 0xf9: true, 0xfa: true, 0xfb: true, 0xfc: true, 0xfd: true, 0xfe: true, 0xff: true,
}

// isWord reports whether c goes on a word.
func isWord(c byte) bool { return wordByte[c] }

// isDigit reports whether c is a decimal digit.
func isDigit(c byte) bool { return c-'0' < 10 }
