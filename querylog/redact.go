package querylog

import (
	"fmt"
	"strconv"
)

// Redaction says what a line must not show.
type Redaction uint8

const (
	// RedactNone writes everything.
	RedactNone Redaction = iota

	// RedactLiterals keeps values out: the statement's own text is left out, bind
	// variables are written without their values, and in error texts all that may be a
	// value becomes a question mark.
	RedactLiterals

	// RedactAll keeps every text of the client and of the server's errors out: statement
	// texts, normalized ones too, names of prepared statements, bind variables,
	// sqlcommenter tags and error texts. User and schema names stay.
	RedactAll
)

// String is the redaction's name in options.
func (r Redaction) String() string {
	switch r {
	case RedactNone:
		return "none"
	case RedactLiterals:
		return "literals"
	case RedactAll:
		return "all"
	}
	return "redaction " + strconv.Itoa(int(r))
}

// ParseRedaction is the redaction that String calls s.
func ParseRedaction(s string) (Redaction, error) {
	switch s {
	case "none":
		return RedactNone, nil
	case "literals":
		return RedactLiterals, nil
	case "all":
		return RedactAll, nil
	}
	return 0, fmt.Errorf("unknown redaction %q: want none, literals or all", s)
}

// errSignal is the number of an error whose text a statement chose itself: SIGNAL's.
const errSignal = 1644

// serverCuts is the length in bytes past which a server may have cut an error text
// (MYSQL_ERRMSG_SIZE is 512), a closing quote with it.
const serverCuts = 500

// appendRedactedError appends an error text without what may be a value: everything from
// the first opening quote to the last closing one, and every run of digits elsewhere. Values
// are inside quotes in the server's messages, but hold quotes of their own, and a cut
// message has lost its closing quote; so nothing between the outermost two is shown.
func appendRedactedError(dst []byte, number uint16, text []byte) []byte {
	if number == errSignal {
		return append(dst, '?')
	}
	open := -1
	for i, c := range text {
		if quote(c) && (i == 0 || !wordByte(text[i-1])) {
			open = i
			break
		}
	}
	if open < 0 {
		return appendWithoutDigits(dst, text)
	}
	end := len(text)
	if len(text) < serverCuts {
		for i := len(text) - 1; i > open; i-- {
			if quote(text[i]) && (i+1 == len(text) || !wordByte(text[i+1])) {
				end = i + 1
				break
			}
		}
	}
	dst = appendWithoutDigits(dst, text[:open])
	dst = append(dst, '\'', '?', '\'')
	return appendWithoutDigits(dst, text[end:])
}

func appendWithoutDigits(dst, text []byte) []byte {
	for i, c := range text {
		switch {
		case c < '0' || c > '9':
			dst = append(dst, c)
		case i == 0 || text[i-1] < '0' || text[i-1] > '9':
			dst = append(dst, '?')
		}
	}
	return dst
}

func quote(c byte) bool { return c == '\'' || c == '"' || c == '`' }

// wordByte reports whether c may be part of a word, non-ASCII letters included: a quote
// between two such bytes is an apostrophe.
func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= 0x80
}
