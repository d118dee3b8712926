package sqlplan

import (
	"strings"

	"github.com/taredb/tare/sqldigest"
)

// A tokenKind is what a token is to the classification.
type tokenKind uint8

const (
	kindOp      tokenKind = iota
	kindWord              // keyword or bare identifier
	kindQuoted            // identifier in quotes
	kindLiteral           // literal, parameter, or collapsed list
	kindUserVar           // @name
	kindSysVar            // the @@ before a system variable's name
	kindHost              // @host of an account
	kindDrop              // an introducer
)

// A token is a piece of the text that means something.
type token struct {
	kind       tokenKind
	keyword    sqldigest.Keyword
	start, end int32
}

// An analysis is what one look at a statement finds: the tokens, what classify reads off them, and
// what the parser adds. It is scratch: a Plan is made of it and it is dropped.
type analysis struct {
	text []byte
	toks []token

	hints     [][2]int32 // text ranges between the marks of hint comments
	literals  []int32    // indexes of tokens
	depth     int        // how deep parentheses nest
	listItems int        // items of the longest parenthesized list

	typ      Type
	types    typeSet // typ and every statement within
	effects  Effect
	readOnly bool
	parsed   bool
	opaque   bool // does something that its text does not show
	remode   bool // what follows in the same text is read in another way
	wrapped  bool // stands in SET STATEMENT … FOR
	routine  bool // creates something with a body
	sequence bool // reads or advances a sequence, which the parser takes for a column
	anyTable bool // may read any table: a file, statistics or an earlier statement decides which

	tables tableSet
}

// scan splits the text into tokens. Comments are dropped; what stands in an executable
// comment is part of the statement. (Normalized text has no marks of them left.)
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
			// The sign and the name are one token where nothing is in between: after a space the
			// variable is the one without a name.
			tok.kind = kindUserVar
			a.toks[len(a.toks)-1] = tok
			at = ""
			continue
		}
		at = string(raw)
		a.toks = append(a.toks, tok)
	}
}

// hint notes the text of the hint comment whose content starts at start.
func (a *analysis) hint(lx *sqldigest.Lexer, start int) {
	for {
		t := lx.Next()
		if t.Kind == sqldigest.KindHintClose || t.Kind == sqldigest.KindEOF {
			a.hints = append(a.hints, [2]int32{int32(start), int32(t.Start)})
			return
		}
	}
}

// word returns the keyword or bare identifier at i in lower case, a synonym as the word it
// stands for; "" for other tokens.
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

// name returns what the token at i names, in lower case and without quotes; "" when it names
// nothing.
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

// unquoteName removes the quotes of an identifier; a doubled quote inside is one.
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
