package sqldigest

import "bytes"

// executable scans an executable comment, "/*!" or "/*M!", from its version number at j on: its opening if
// the server runs it, all of it if the server skips it.
func (s *scanner) executable(b []byte, i, j int, final bool) (Kind, int, uint16, bool) {
	end := j
	for end < len(b) && end < j+7 && isDigit(b[end]) {
		end++
	}
	if end == len(b) && end < j+7 && !final {
		return kindMore, i, 0, false
	}
	digits := min(end-j, 6)
	if digits < 5 {
		digits = 0 // no version: they are content
	}
	if s.mode.kind() == ServerMySQL && digits == 6 && (end-j > 6 || end == len(b) || !s.ct.isSpace(b[end])) {
		digits = 5 // the sixth counts if a space follows
		s.unsure = s.unsure || end-j == 6
	}
	s.unsure = s.unsure || end-j > 6 || s.exec
	version := 0
	for _, c := range b[j : j+digits] {
		version = 10*version + int(c-'0')
	}
	s.recordGap()
	if digits == 0 || s.runs(version, b[i+2] == 'M') {
		s.unsure = s.unsure || nests(b[j+digits:])
		s.exec = true
		return KindExecOpen, j + digits, 0, false
	}
	if n := skippedEnd(b[j+digits:]); n >= 0 {
		return KindComment, j + digits + n, 0, false
	}
	s.unsure = true
	if final {
		return KindComment, len(b), 0, false
	}
	return KindComment, i + 2, 0, true
}

// runs reports whether the server runs the comment with that version. For an unknown server it reports true:
// see Digester.Divergent.
func (s *scanner) runs(version int, maria bool) bool {
	own := s.mode.Server()
	switch own.Kind {
	case ServerMariaDB:
		// It skips the MySQL versions that it does not follow.
		return version <= own.Version && (maria || version < 50700 || version > 99999)
	case ServerMySQL:
		return version <= own.Version
	case ServerTiDB:
		s.unsure = s.unsure || version > 99999
	}
	return true
}

// runsM reports whether "/*M!" is an executable comment. TiDB does not know it.
func (s *scanner) runsM() bool {
	s.unsure = s.unsure || s.mode.kind() == ServerTiDB
	return s.mode.kind() != ServerMySQL && s.mode.kind() != ServerTiDB
}

// nests reports whether a comment whose content starts b contains another one, or has no end.
func nests(b []byte) bool {
	end := bytes.Index(b, blockEnd)
	return end < 0 || bytes.Contains(b[:end], []byte("/*"))
}

// skippedEnd returns the end of a skipped comment whose content starts b, -1 if b does not contain it. One
// comment may nest in it.
func skippedEnd(b []byte) int {
	for i := 0; i+1 < len(b); i++ {
		switch {
		case b[i] == '*' && b[i+1] == '/':
			return i + 2
		case b[i] == '/' && b[i+1] == '*':
			n := bytes.Index(b[i+2:], blockEnd)
			if n < 0 {
				return -1
			}
			i += 2 + n + 1
		}
	}
	return -1
}

// plainHint reports whether the content of an optimizer hint, with which b begins, ends at its first "*/" for
// every server, whether or not its lexer interprets quotes and comments in hints.
func plainHint(b []byte) bool {
	end := bytes.Index(b, blockEnd)
	if end < 0 {
		return false
	}
	b = b[:end]
	return bytes.IndexByte(b, '\'') < 0 && bytes.IndexByte(b, '"') < 0 && bytes.Count(b, []byte("`"))%2 == 0 &&
		bytes.IndexByte(b, '#') < 0 && bytes.IndexByte(b, 0) < 0 && !bytes.Contains(b, dashes) && !bytes.Contains(b, []byte("/*"))
}

// startsComment reports whether "--" before c starts a comment.
func (t *ctype) startsComment(c byte) bool {
	return t[c] == clSpace || t[c] == clControl || t[c] == clNul
}

// hasHigh reports whether b has a byte past 0x7f.
func hasHigh(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return true
		}
	}
	return false
}
