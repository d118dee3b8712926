package sqlplan

import (
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// parsable reports whether the parser is called.
func (a *analysis) parsable() bool {
	if a.opaque || a.wrapped || a.routine || a.depth > maxDepth || a.sequence || a.typ == TypeShow && a.depth > 0 {
		return false
	}
	switch a.typ {
	case TypeUnknown, TypeMulti, TypeOther, TypePrepare, TypeExecute, TypeLoad, TypeGrant, TypeXA, TypeHandler, TypeDo:
		return false // the grammar lacks them, or skips the objects they name
	}
	return true
}

// A spelling writes the tokens of a statement of type typ in the form for the parser.
type spelling struct {
	*tokens
	typ Type
}

// spell appends the statement in the form for the parser, with the i-th placeholder in forms[i]. It appends
// to ends the offset at which each token ends.
//
// Words are as in the text, in which names and words that are not reserved have the name's spelling. Quoted
// names are in backticks in every mode.
func (s *spelling) spell(dst []byte, ends []int, forms []literalForm) ([]byte, []int) {
	lit := 0
	for i, t := range s.toks {
		if !s.glued(i) {
			dst = append(dst, ' ')
		}
		switch t.kind {
		case kindLiteral:
			dst = s.spellLiteral(dst, i, forms[lit])
			lit++
		case kindQuoted:
			dst = appendBackticked(dst, sqldigest.Unquote(s.raw(i)))
		case kindUserVar:
			dst = append(dst, '@')
			dst = appendBackticked(dst, sqldigest.Unquote(s.raw(i)))
		case kindHost:
			dst = appendBackticked(dst, sqldigest.Unquote(s.raw(i)))
		case kindWord:
			dst = s.spellWord(dst, i)
		case kindOp, kindSysVar:
			if s.nameless(i) {
				dst = append(dst, "@`nameless`"...) // the parser has no variable without a name
				break
			}
			if s.typ == TypeSet && s.isOp(i, ":=") {
				dst = append(dst, '=') // the parser accepts no other in SET
				break
			}
			dst = append(dst, s.text[t.start:t.end]...)
		case kindDrop:
		}
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// spellLiteral appends the placeholder at i: for rows after a row, one more of the kind.
func (s *spelling) spellLiteral(dst []byte, i int, f literalForm) []byte {
	if !s.isEllipsis(i) || !s.isOp(i-1, ",") || !s.isOp(i-2, ")") {
		return append(dst, formText[f]...)
	}
	open := i - 2
	for open > 0 && !s.isOp(open, "(") {
		open--
	}
	if s.is(open-1, "row") {
		dst = append(dst, "row"...)
	}
	dst = append(dst, '(')
	dst = append(dst, formText[f]...)
	return append(dst, ')')
}

// isEllipsis reports whether the token at i represents a collapsed list.
func (ts *tokens) isEllipsis(i int) bool {
	return ts.toks[i].kind == kindLiteral && string(ts.text[ts.toks[i].start:ts.toks[i].end]) == "..."
}

// glued reports whether the token at i must be adjacent to the previous one.
func (s *spelling) glued(i int) bool {
	if i == 0 {
		return true
	}
	switch {
	case s.isOp(i, "."), s.isOp(i-1, "."), s.toks[i-1].kind == kindSysVar, s.isOp(i-1, "@") && !s.nameless(i-1):
		return true
	case s.isOp(i, "("):
		return s.toks[i-1].kind == kindWord || s.toks[i-1].kind == kindQuoted
	}
	return false
}

// nameless reports whether the token at i is a user variable without a name: a sign that is not part of the
// following token.
func (ts *tokens) nameless(i int) bool {
	return ts.isOp(i, "@") && (i+1 == len(ts.toks) || ts.toks[i+1].kind != kindHost)
}

// spellWord appends the word at i in the form of the parser's grammar.
func (s *spelling) spellWord(dst []byte, i int) []byte {
	if s.is(i, "char") {
		return append(dst, "character"...) // even in CHARACTER SET, where the parser accepts no other
	}
	return append(dst, s.text[s.toks[i].start:s.toks[i].end]...)
}

func appendBackticked(dst []byte, name string) []byte {
	dst = append(dst, '`')
	dst = append(dst, strings.ReplaceAll(name, "`", "``")...)
	return append(dst, '`')
}

// guessForms sets the forms that the placeholders of a definition most likely require; others start as
// parameters.
func (s *spelling) guessForms(forms []literalForm) {
	if s.typ != TypeDDL {
		return
	}
	for n, i := range s.literals {
		switch i := int(i); {
		case s.isOp(i-1, "("), s.isOp(i-1, ","), s.isOp(i-1, "="):
			forms[n] = formNumber
			if w := s.word(i - 2); w == "enum" || w == "set" || w == "comment" {
				forms[n] = formString
			}
		case s.is(i-1, "comment"):
			forms[n] = formString
		}
	}
}

// guessTables sets the tables of a statement that was not parsed: the names in the most likely positions of
// tables.
func (a *analysis) guessTables() {
	access := AccessRead | AccessWrite
	switch a.typ {
	case TypeSelect, TypeExplain, TypeShow, TypeDo:
		access = AccessRead
	case TypeGrant:
		return // its FROM names users
	}
	for i := 0; i < len(a.toks); i++ {
		switch a.word(i) {
		case "from", "join", "straight_join", "into", "update", "table", "tables":
		default:
			continue
		}
		i++
		for a.skipTableWord(i) {
			i++
		}
		if i >= len(a.toks) || a.toks[i].kind != kindWord && a.toks[i].kind != kindQuoted || a.isFileWord(i) {
			i--
			continue
		}
		schema, name := "", a.tableName(i)
		if a.isOp(i+1, ".") && i+2 < len(a.toks) {
			schema, name = name, a.tableName(i+2)
			i += 2
		}
		if name != "" && name != "dual" && !a.isOp(i+1, "(") {
			a.tables.add(schema, name, access)
		}
	}
}

func (ts *tokens) isFileWord(i int) bool { return ts.is(i, "outfile") || ts.is(i, "dumpfile") }

func (ts *tokens) skipTableWord(i int) bool {
	switch ts.word(i) {
	case "low_priority", "ignore", "quick", "table", "if", "not", "exists", "only", "delayed", "high_priority":
		return true
	}
	return false
}

// tableName returns the name at i in its spelling, without quotes.
func (ts *tokens) tableName(i int) string {
	switch ts.toks[i].kind {
	case kindQuoted:
		return sqldigest.Unquote(ts.raw(i))
	case kindWord:
		return ts.raw(i)
	}
	return ""
}

// mentions reports whether any name or word of the text may be a table that one of the patterns covers. An
// unqualified name is in the default schema, or in one that the text names: a routine's body resolves names
// in the routine's schema.
func (a *analysis) mentions(patterns []tablePattern) bool {
	anySchema, wholeSchema := a.tables.schema == "", false
	for i := range a.toks {
		switch a.word(i) {
		case "use":
			anySchema = true
		case "database":
			wholeSchema = true // any name may match
		}
	}
	for _, p := range patterns {
		schema, table := anySchema || globName(p.schema, a.tables.schema), false
		for i := range a.toks {
			name := a.anyName(i)
			if name == "" {
				continue
			}
			unsure := !plain(name, a.tables.charset)
			if unsure || globName(p.schema, name) {
				if wholeSchema {
					return true
				}
				schema = true
			}
			table = table || unsure || globName(p.table, name)
		}
		if schema && table {
			return true
		}
	}
	return false
}

// anyName returns the possible name in the token at i, in lower case and without quotes: an introducer of a
// character set that the server lacks is a name too.
func (ts *tokens) anyName(i int) string {
	switch ts.toks[i].kind {
	case kindWord, kindQuoted:
		return ts.name(i)
	case kindDrop:
		return lowerASCII(ts.raw(i))
	}
	return ""
}
