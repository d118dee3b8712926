package sqlplan

import "bytes"

// alwaysExecuted is the highest version in an executable comment that every supported server
// runs: MySQL 5.7, and MariaDB's reading of MySQL's versions.
const alwaysExecuted = "50700"

// Divergent reports whether the statement may hold an executable comment which some servers run
// and others skip. Such a statement may be read in two ways, down to where its strings end,
// and its digest knows one: look for its plan, and have it planned, under [Scope.Divergent].
//
// It costs a search for "/*" and does not allocate. The mark may as well stand in a string
// or a plain comment: telling that apart is not worth a second lexing.
func Divergent(sql []byte) bool {
	for {
		i := bytes.Index(sql, []byte("/*"))
		if i < 0 {
			return false
		}
		sql = sql[i:]
		if divergent(sql) {
			return true
		}
		sql = sql[2:]
	}
}

// divergent reports whether the comment that b begins with is one that servers take in
// different ways. Which version a server compares, how many digits it reads, and where it
// sees the end of what it skips all differ.
func divergent(b []byte) bool {
	switch {
	case bytes.HasPrefix(b, []byte("/*M!")):
		return true
	case !bytes.HasPrefix(b, []byte("/*!")):
		return false
	}
	b = b[3:]
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	if n != 0 && (n != len(alwaysExecuted) || string(b[:n]) > alwaysExecuted) {
		return true
	}
	end := bytes.Index(b, []byte("*/"))
	if end < 0 {
		end = len(b)
	}
	return bytes.Contains(b[:end], []byte("/*")) // nested
}

// Divergent returns the scope of the statements for which [Divergent] is true. Their plans
// take what is hidden for the worst: unknown effects, any table, any type.
func (s Scope) Divergent() Scope {
	for i := range s {
		s[i] = ^s[i]
	}
	return s
}
