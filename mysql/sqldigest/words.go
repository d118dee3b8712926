package sqldigest

// wordBefore describes the last token of the text if it is a keyword, as far as the next word depends on it:
// the word's index in the table, 0 for no keyword, and whether it is the first of its statement.
type wordBefore uint16

const firstOfStatement wordBefore = 1 << 15

// asKeyword reports whether the word id, which is not reserved, is a keyword in its position; if not, it is a
// name. No grammar is parsed: the preceding tokens decide. If both are possible, the word is treated as a
// name and keeps its spelling: without quotes it is either to a server.
func (d *Digester) asKeyword(id uint16, last uint8, before wordBefore) bool {
	flags := keywords[id].flags
	switch {
	case last == tokStart, last == tokSemicolon, last == tokAtAt:
		return true
	case before != 0:
		return follows(id, uint16(before&^firstOfStatement), before&firstOfStatement != 0)
	}
	switch last {
	case tokIdent, tokFunc, tokVariable, tokTemporal, tokTemporalFunc, tokClose, tokRow1, tokRow:
		return flags&isTail != 0 || !d.rows
	case tokValue, tokValues, tokRows1, tokRows:
		return flags&(isTail|isUnit) != 0 || !d.rows
	}
	return false
}

// follows reports whether the word id after the keyword before is a keyword.
func follows(id, before uint16, first bool) bool {
	f := keywords[before].flags
	word := Keyword(keywords[id].canon)
	switch Keyword(keywords[before].canon) {
	case kwWith: // WITH name AS, and GROUP BY … WITH ROLLUP
		return !first
	case kwOn:
		return word == kwDuplicate
	case kwIn:
		return word == kwShare || word == kwBoolean
	case kwTo:
		return word == kwSavepoint
	case kwUpdate:
		return !first && (word == kwSkip || word == kwNowait)
	case kwExecute:
		return word == kwImmediate
	case kwDelete:
		return word == kwQuick
	case kwSelect, kwSqlNoCache, kwSqlCache, kwSqlBufferResult:
		return word == kwSqlNoCache || word == kwSqlCache || word == kwSqlBufferResult
	case kwDescribe:
		return word == kwFormat || word == kwExtended || word == kwPartitions
	case kwDesc: // DESC name, and ORDER BY name DESC …
		return !first
	case kwReplace: // REPLACE name, and CREATE OR REPLACE …
		return !first
	case kwInsert:
		return false
	}
	switch {
	case f&(isNames|isExpr) != 0:
		return false
	case f&isFirst != 0:
		return first
	}
	return true
}

// sawWord records that the keyword id became the last token; last is the class of the token before it.
func (d *Digester) sawWord(id uint16, last uint8) {
	d.before = wordBefore(id)
	first := last == tokStart || last == tokSemicolon
	if first {
		d.before |= firstOfStatement
	}
	switch Keyword(keywords[id].canon) {
	case kwSelect:
		d.rows = true
	case kwInsert, kwReplace, kwUpdate, kwDelete, kwWith, kwValues, kwDo, kwCall, kwTable:
		d.rows = d.rows || first
	default:
		d.rows = d.rows && !first
	}
}

// identClass returns the class of an identifier after a token of class last: where an expression is allowed,
// it is a function's name if a parenthesis follows.
func (d *Digester) identClass(last uint8) uint8 {
	switch {
	case last == tokDot:
		if d.peek(2) == tokFunc {
			return tokFunc
		}
	case callable>>last&1 != 0:
		return tokFunc
	}
	return tokIdent
}

// callable are the classes of tokens after which an identifier may be a function's name.
const callable = startsExpr

// temporalClass returns the class of DATE, TIME or TIMESTAMP in a position where another identifier has the
// class ident: before a string, it is a literal.
func temporalClass(ident uint8) uint8 {
	if ident == tokFunc {
		return tokTemporalFunc
	}
	return tokTemporal
}
