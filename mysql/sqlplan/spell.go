package sqlplan

import "strings"

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

// spell appends the statement in the form for the parser, with the i-th placeholder in forms[i]. It appends
// to ends the offset at which each token ends.
//
// Words are as in the text, in which names and words that are not reserved have the name's spelling. Quoted
// names are in backticks in every mode.
func (a *analysis) spell(dst []byte, ends []int, forms []literalForm) ([]byte, []int) {
	lit := 0
	for i, t := range a.toks {
		if !a.glued(i) {
			dst = append(dst, ' ')
		}
		switch t.kind {
		case kindLiteral:
			dst = a.spellLiteral(dst, i, forms[lit])
			lit++
		case kindQuoted:
			dst = appendBackticked(dst, unquoteName(a.raw(i)))
		case kindUserVar:
			dst = append(dst, '@')
			dst = appendBackticked(dst, unquoteName(a.raw(i)))
		case kindHost:
			dst = appendBackticked(dst, unquoteName(a.raw(i)))
		case kindWord:
			dst = a.spellWord(dst, i)
		case kindOp, kindSysVar:
			if a.nameless(i) {
				dst = append(dst, "@`nameless`"...) // the parser has no variable without a name
				break
			}
			if a.typ == TypeSet && a.isOp(i, ":=") {
				dst = append(dst, '=') // the parser accepts no other in SET
				break
			}
			dst = append(dst, a.text[t.start:t.end]...)
		case kindDrop:
		}
		ends = append(ends, len(dst))
	}
	return dst, ends
}

// spellLiteral appends the placeholder at i: for rows after a row, one more of the kind.
func (a *analysis) spellLiteral(dst []byte, i int, f literalForm) []byte {
	if !a.isEllipsis(i) || !a.isOp(i-1, ",") || !a.isOp(i-2, ")") {
		return append(dst, formText[f]...)
	}
	open := i - 2
	for open > 0 && !a.isOp(open, "(") {
		open--
	}
	if a.is(open-1, "row") {
		dst = append(dst, "row"...)
	}
	dst = append(dst, '(')
	dst = append(dst, formText[f]...)
	return append(dst, ')')
}

// isEllipsis reports whether the token at i represents a collapsed list.
func (a *analysis) isEllipsis(i int) bool {
	return a.toks[i].kind == kindLiteral && string(a.text[a.toks[i].start:a.toks[i].end]) == "..."
}

// glued reports whether the token at i must be adjacent to the previous one.
func (a *analysis) glued(i int) bool {
	if i == 0 {
		return true
	}
	switch {
	case a.isOp(i, "."), a.isOp(i-1, "."), a.toks[i-1].kind == kindSysVar, a.isOp(i-1, "@") && !a.nameless(i-1):
		return true
	case a.isOp(i, "("):
		return a.toks[i-1].kind == kindWord || a.toks[i-1].kind == kindQuoted
	}
	return false
}

// nameless reports whether the token at i is a user variable without a name: a sign that is not part of the
// following token.
func (a *analysis) nameless(i int) bool {
	return a.isOp(i, "@") && (i+1 == len(a.toks) || a.toks[i+1].kind != kindHost)
}

// spellWord appends the word at i in the form of the parser's grammar.
func (a *analysis) spellWord(dst []byte, i int) []byte {
	if a.is(i, "char") {
		return append(dst, "character"...) // even in CHARACTER SET, where the parser accepts no other
	}
	return append(dst, a.text[a.toks[i].start:a.toks[i].end]...)
}

func appendBackticked(dst []byte, name string) []byte {
	dst = append(dst, '`')
	dst = append(dst, strings.ReplaceAll(name, "`", "``")...)
	return append(dst, '`')
}

// guessForms sets the forms that the placeholders of a definition most likely require; others start as
// parameters.
func (a *analysis) guessForms(forms []literalForm) {
	if a.typ != TypeDDL {
		return
	}
	for n, i := range a.literals {
		switch i := int(i); {
		case a.isOp(i-1, "("), a.isOp(i-1, ","), a.isOp(i-1, "="):
			forms[n] = formNumber
			if w := a.word(i - 2); w == "enum" || w == "set" || w == "comment" {
				forms[n] = formString
			}
		case a.is(i-1, "comment"):
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

func (a *analysis) isFileWord(i int) bool { return a.is(i, "outfile") || a.is(i, "dumpfile") }

func (a *analysis) skipTableWord(i int) bool {
	switch a.word(i) {
	case "low_priority", "ignore", "quick", "table", "if", "not", "exists", "only", "delayed", "high_priority":
		return true
	}
	return false
}

// tableName returns the name at i in its spelling, without quotes.
func (a *analysis) tableName(i int) string {
	switch a.toks[i].kind {
	case kindQuoted:
		return unquoteName(a.raw(i))
	case kindWord:
		return a.raw(i)
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
func (a *analysis) anyName(i int) string {
	switch a.toks[i].kind {
	case kindWord, kindQuoted:
		return a.name(i)
	case kindDrop:
		return lowerASCII(a.raw(i))
	}
	return ""
}
