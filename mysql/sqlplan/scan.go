package sqlplan

import (
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// A tokenKind is the kind of a token for classification.
type tokenKind uint8

const (
	kindOp      tokenKind = iota
	kindWord              // keyword or unquoted identifier
	kindQuoted            // quoted identifier
	kindLiteral           // literal, parameter, or collapsed list
	kindUserVar           // @name
	kindSysVar            // the @@ before a system variable's name
	kindHost              // @host of an account
	kindDrop              // an introducer
)

// A token is a significant piece of the text.
type token struct {
	kind       tokenKind
	keyword    sqldigest.Keyword
	start, end int32
}

// An analysis is the result of analyzing a statement: the tokens, the findings of classify, and those of the
// parser. It is scratch: a Plan is derived from it.
type analysis struct {
	text []byte
	toks []token

	hints     [][2]int32 // text ranges between the marks of hint comments
	literals  []int32    // indexes in toks
	depth     int        // maximum nesting of parentheses
	listItems int        // items of the longest parenthesized list

	typ      Type
	types    typeSet // typ and the types of all nested statements
	effects  Effect
	readOnly bool
	parsed   bool
	opaque   bool // has an effect that its text does not show
	remode   bool // the rest of the same text is read in another mode
	wrapped  bool // inside SET STATEMENT … FOR
	routine  bool // creates something with a body
	sequence bool // reads or advances a sequence, which the parser treats as a column
	unsure   bool // the text may be read in two ways
	anyTable bool // may read any table: a file, statistics or an earlier statement decides which

	lacking string // the words that an allow rule lacks to match it

	tables tableSet
}

// scan splits the text into tokens. Comments are dropped; the content of an executable comment is part of the
// statement. (Normalized text contains no marks of them.)
func (a *analysis) scan(text []byte, m sqldigest.Mode) {
	a.text = text
	var lx sqldigest.Lexer
	lx.Reset(text, m)
	var items []int // of the open lists
	executable := false
	for at := ""; ; {
		t := lx.Next()
		tok := token{keyword: t.Keyword, start: int32(t.Start), end: int32(t.End)}
		raw := text[t.Start:t.End]
		switch t.Kind {
		case sqldigest.KindEOF:
			if lx.Unsure() || executable && sqldigest.Divergent(text, m) {
				a.hide()
			}
			return
		case sqldigest.KindSpace, sqldigest.KindComment:
			continue
		case sqldigest.KindExecOpen:
			executable = true
			continue
		case sqldigest.KindExecClose:
			continue
		case sqldigest.KindHintOpen:
			a.hint(&lx, t.End)
			continue
		case sqldigest.KindKeyword, sqldigest.KindIdent:
			tok.kind = kindWord
		case sqldigest.KindQuotedIdent:
			tok.kind = kindQuoted
		case sqldigest.KindVariable:
			tok.kind = kindUserVar
		case sqldigest.KindHost:
			tok.kind = kindHost
		case sqldigest.KindIntroducer:
			tok.kind = kindDrop
		case sqldigest.KindOperator:
			tok.kind = kindOp
			switch string(raw) {
			case "(":
				items = append(items, 1)
				a.depth = max(a.depth, len(items))
			case ")":
				if len(items) > 0 {
					items = items[:len(items)-1]
				}
			case ",":
				if n := len(items); n > 0 {
					items[n-1]++
					a.listItems = max(a.listItems, items[n-1])
				}
			case "@@":
				tok.kind = kindSysVar
			}
		default:
			tok.kind = kindLiteral
			a.literals = append(a.literals, int32(len(a.toks)))
		}
		if at == "@" && a.toks[len(a.toks)-1].end == tok.start && (tok.kind == kindWord || tok.kind == kindQuoted || tok.kind == kindUserVar) {
			// The sign and the name are one token if nothing separates them: after a space the variable is
			// the one without a name.
			tok.kind = kindUserVar
			a.toks[len(a.toks)-1] = tok
			at = ""
			continue
		}
		at = string(raw)
		a.toks = append(a.toks, tok)
	}
}

// hint records the text of the hint comment whose content starts at start.
func (a *analysis) hint(lx *sqldigest.Lexer, start int) {
	for {
		t := lx.Next()
		if t.Kind == sqldigest.KindHintClose || t.Kind == sqldigest.KindEOF {
			a.hints = append(a.hints, [2]int32{int32(start), int32(t.Start)})
			return
		}
	}
}

// word returns the keyword or unquoted identifier at i in lower case, a synonym as its keyword; "" for other
// tokens.
func (a *analysis) word(i int) string {
	if i < 0 || i >= len(a.toks) || a.toks[i].kind != kindWord {
		return ""
	}
	if kw := a.toks[i].keyword; kw != 0 {
		return lowerASCII(kw.String())
	}
	return lowerASCII(a.raw(i))
}

// is reports whether the token at i is the word, given in lower case.
func (a *analysis) is(i int, word string) bool { return a.word(i) == word }

// isOp reports whether the token at i is the operator.
func (a *analysis) isOp(i int, op string) bool {
	return i >= 0 && i < len(a.toks) && a.toks[i].kind == kindOp &&
		string(a.text[a.toks[i].start:a.toks[i].end]) == op
}

// raw returns the text of the token at i.
func (a *analysis) raw(i int) string { return string(a.text[a.toks[i].start:a.toks[i].end]) }

// name returns the name in the token at i, in lower case and without quotes; "" if it is not one.
func (a *analysis) name(i int) string {
	if i < 0 || i >= len(a.toks) {
		return ""
	}
	switch a.toks[i].kind {
	case kindWord:
		return a.word(i)
	case kindQuoted, kindUserVar:
		return lowerASCII(unquoteName(a.raw(i)))
	}
	return ""
}

// unquoteName removes the quotes of an identifier; a doubled quote inside represents one.
func unquoteName(s string) string {
	if len(s) < 2 {
		return s
	}
	switch q := s[:1]; q {
	case "`", `"`, "'":
		return strings.ReplaceAll(strings.TrimSuffix(s[1:], q), q+q, q)
	}
	return s
}
