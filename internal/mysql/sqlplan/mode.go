package sqlplan

import (
	"strconv"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// SessionMode returns the mode for the session's next statement, after this one ran without error in mode
// cur. It is for statements with EffectSQLMode; for others it is cur.
//
// The value of a SET is not part of the plan, which statements with all values share: it is read from the
// original text. known is false if the text does not determine the mode, as for SET sql_mode = @old, for
// statements run by EXECUTE, or if sql is truncated: the server has to be queried for the session's modes
// then.
func (p *Plan) SessionMode(sql []byte, cur sqldigest.Mode) (m sqldigest.Mode, known bool) {
	if !p.effects.Any(EffectSQLMode) {
		return cur, true
	}
	if p.effects.Any(EffectUnknown) || len(sql) == 0 {
		return cur, false
	}
	m = cur
	for len(sql) > 0 {
		// Each statement is read in the mode set by the one before.
		var ts tokens
		rest, unsure := ts.scanOne(sql, m)
		if unsure {
			return cur, false
		}
		if ts.is(0, "set") && len(ts.toks) > 1 {
			if m, known = ts.setMode(m); !known {
				return cur, false
			}
		}
		sql = rest
	}
	return m, true
}

// scanOne scans the text, keeps the tokens of its first statement, and returns the text after its semicolon.
func (ts *tokens) scanOne(text []byte, m sqldigest.Mode) (rest []byte, unsure bool) {
	unsure = ts.scan(text, m)
	for i := range ts.toks {
		if ts.isOp(i, ";") {
			rest = text[ts.toks[i].end:]
			ts.toks = ts.toks[:i]
			break
		}
	}
	return rest, unsure
}

// setMode applies the assignments of a SET to the mode m.
func (ts *tokens) setMode(m sqldigest.Mode) (_ sqldigest.Mode, known bool) {
	known = true
	ts.assignments(1, len(ts.toks), func(as assignment) {
		if as.kind == assignSystem && as.scope == scopeSession && as.name == "sql_mode" {
			v, ok := ts.modeValue(as.lo, as.hi)
			if !ok {
				known = false
			}
			m = v
		}
	})
	return m, known
}

// modeValue evaluates the value of sql_mode in the tokens [lo, hi): a string, a word, or a number.
func (ts *tokens) modeValue(lo, hi int) (v sqldigest.Mode, ok bool) {
	if hi-lo != 1 {
		return 0, false
	}
	text := ts.raw(lo)
	switch ts.toks[lo].kind {
	case kindLiteral:
		if bits, err := strconv.ParseUint(text, 10, 64); err == nil {
			return modeOfBits(bits), true
		}
		if q := text[0]; q != '\'' && q != '"' || len(text) < 2 || text[len(text)-1] != q || strings.ContainsAny(text[1:len(text)-1], `\'"`) {
			return 0, false
		}
		text = text[1 : len(text)-1]
	case kindQuoted:
		text = sqldigest.Unquote(text)
	case kindWord:
		if ts.is(lo, "default") {
			return 0, false
		}
	default:
		return 0, false
	}
	if !isASCII(text) || !plain(text, 0) {
		return 0, false // servers equate é with e
	}
	for name := range strings.SplitSeq(text, ",") {
		v |= modeOfName(strings.ToUpper(strings.TrimSpace(name)))
	}
	return v, true
}

// modeOfName returns the bits of the sql_mode with the given name. Source: "Server SQL Modes" of the MySQL
// manual, "SQL_MODE" of MariaDB's, whose modes named after other systems include ANSI_QUOTES.
func modeOfName(name string) sqldigest.Mode {
	switch name {
	case "ANSI_QUOTES", "ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL":
		return sqldigest.ANSIQuotes
	case "NO_BACKSLASH_ESCAPES":
		return sqldigest.NoBackslashEscapes
	}
	return 0
}

// modeOfBits returns the modes in the number by which servers store sql_mode.
func modeOfBits(bits uint64) (m sqldigest.Mode) {
	const (
		ansiQuotes         = 1 << 2
		noBackslashEscapes = 1 << 20
	)
	if bits&ansiQuotes != 0 {
		m |= sqldigest.ANSIQuotes
	}
	if bits&noBackslashEscapes != 0 {
		m |= sqldigest.NoBackslashEscapes
	}
	return m
}
