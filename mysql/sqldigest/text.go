package sqldigest

import (
	"iter"
	"strings"
)

// Plain returns the parts of a text that are in no quotes and no comment, as a server reads it in a mode, by their start and end.
// The comments that servers execute, /*! … */ and /*M! … */, are such parts.
func Plain(text string, m Mode) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		var l Lexer
		l.Reset([]byte(text), m)
		start := 0
		for t := l.Next(); t.Kind != KindEOF; t = l.Next() {
			switch t.Kind {
			case KindString, KindQuotedIdent, KindVariable, KindHost, KindComment:
				if start < t.Start && !yield(start, t.Start) {
					return
				}
				start = t.End
			}
		}
		if start < len(text) {
			yield(start, len(text))
		}
	}
}

// Lines splits a text at the line ends that are in no quotes and no comment.
func Lines(text string, m Mode) (lines []string) {
	start := 0
	for from, to := range Plain(text, m) {
		for i := from; i < to; i++ {
			if text[i] == '\n' {
				lines, start = append(lines, text[start:i]), i+1
			}
		}
	}
	return append(lines, text[start:])
}

// List splits a text at the commas that are in no quotes, no comment and no parentheses. It ends where a parenthesis is closed that
// the text has not opened; rest is the text after that.
func List(text string, m Mode) (parts []string, rest string) {
	depth, start := 0, 0
	for from, to := range Plain(text, m) {
		for i := from; i < to; i++ {
			switch c := text[i]; {
			case c == '(':
				depth++
			case c == ')' && depth == 0:
				return append(parts, text[start:i]), text[i+1:]
			case c == ')':
				depth--
			case c == ',' && depth == 0:
				parts, start = append(parts, text[start:i]), i+1
			}
		}
	}
	return append(parts, text[start:]), ""
}

// Quoted returns the length of the quoted name or string that a text starts with, with its quotes.
func Quoted(text string, m Mode) int {
	var l Lexer
	l.Reset([]byte(text), m)
	return l.Next().End
}

// Unquote returns a name without its quotes: a doubled quote inside represents one. Other names are returned as they are.
func Unquote(name string) string {
	if len(name) < 2 || strings.IndexByte("`\"'", name[0]) < 0 {
		return name
	}
	quote := name[:1]
	return strings.ReplaceAll(strings.TrimSuffix(name[1:], quote), quote+quote, quote)
}
