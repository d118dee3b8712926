package querylog

import (
	"strconv"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// Redaction is the set of contents that lines must not expose.
type Redaction uint8

const (
	// RedactNone writes everything.
	RedactNone Redaction = iota

	// RedactLiterals removes values: the statement's original text is omitted, bind variables are written
	// without their values, and error texts are those of the server's templates with question marks for
	// values.
	RedactLiterals

	// RedactAll removes every text from the client and from server errors: statement texts, normalized ones
	// too, names of prepared statements, bind variables, sqlcommenter tags and error texts. User and schema
	// names stay.
	RedactAll
)

// String returns the redaction's name in options.
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

// serverCuts is the length in bytes above which a server may have truncated an error text (MYSQL_ERRMSG_SIZE
// is 512), together with a closing quote.
const serverCuts = 500

// maxHoles is the maximum number of holes of a template.
const maxHoles = 8

// appendRedactedError appends an error text without possible values. For a server's error this is its
// template with masked holes. A text that does not match its template (of another language, of SIGNAL, of an
// unknown error, truncated) is masked whole. An error without a number is Tare's; see appendRedactedOwn.
func appendRedactedError(dst []byte, server sqldigest.ServerKind, number uint16, text []byte) []byte {
	if number == 0 {
		return appendRedactedOwn(dst, text)
	}
	if len(text) < serverCuts {
		var holes [maxHoles]hole
		for all := errorTemplates(number); all != ""; {
			var template string
			template, all, _ = strings.Cut(all, "\n")
			if matchTemplate(template, text, &holes) {
				return appendTemplate(dst, template, text, &holes)
			}
		}
		if b, ok := appendShaped(dst, server, number, text); ok {
			return b
		}
	}
	return append(dst, '?')
}

// A hole is the part of a text that fills a template's hole.
type hole struct{ from, to int }

// matchTemplate reports whether a text matches a template, and sets its holes. It matches from the end, so
// that no part of a value that contains the template's words becomes part of a later name.
func matchTemplate(template string, text []byte, holes *[maxHoles]hole) bool {
	n, end := strings.Count(template, "%"), len(text)
	if n > maxHoles {
		return false
	}
	last := true
	for n > 0 {
		at := strings.LastIndexByte(template, '%')
		words := template[at+2:]
		from := end - len(words)
		for ; from >= 0 && string(text[from:from+len(words)]) != words; from-- {
			if last {
				return false
			}
		}
		if from < 0 {
			return false
		}
		if !last {
			holes[n].from = from + len(words)
		}
		n--
		holes[n].to, end, last, template = from, from, false, template[:at]
	}
	if last {
		return string(text) == template
	}
	holes[0].from = len(template)
	return end >= len(template) && string(text[:len(template)]) == template
}

// appendTemplate appends a template with its holes, masked or shown according to their kind.
func appendTemplate(dst []byte, template string, text []byte, holes *[maxHoles]hole) []byte {
	for n := 0; ; n++ {
		words, rest, more := strings.Cut(template, "%")
		dst = append(dst, words...)
		if !more {
			return dst
		}
		if h := text[holes[n].from:holes[n].to]; shownHole(rest[0], h) {
			dst = append(dst, h...)
		} else {
			dst = append(dst, '?')
		}
		template = rest[1:]
	}
}

// shownHole reports whether the contents of a hole of this kind are shown.
func shownHole(kind byte, b []byte) bool {
	switch kind {
	case 'i':
		return plainName(b, "")
	case 'f':
		return plainName(b, "`'(), ")
	case 'c':
		return clause(b)
	}
	return false
}

// plainName reports whether b consists of name bytes and the bytes in more, and is not a number.
func plainName(b []byte, more string) bool {
	number := true
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9', c == '.' || strings.IndexByte(more, c) >= 0:
		case wordByte(c) || c == '_' || c == '$':
			number = false
		default:
			return false
		}
	}
	return !number
}

// appendRedactedOwn appends an error text without possible values: it masks everything from the first opening
// quote to the last closing one, and every run of digits elsewhere. Server messages quote values, but values
// may contain quotes, and a truncated message has lost its closing quote; therefore nothing between the
// outermost quotes is shown.
func appendRedactedOwn(dst, text []byte) []byte {
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

// wordByte reports whether c may be part of a word, including non-ASCII letters: a quote between two such
// bytes is an apostrophe.
func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= 0x80
}
