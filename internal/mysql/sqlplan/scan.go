package sqlplan

import "github.com/taredb/tare/mysql/sqldigest"

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

// tokens are a text split into tokens. They know words and their positions, and nothing of their effects.
type tokens struct {
	text []byte
	toks []token

	hints     [][2]int32 // text ranges between the marks of hint comments
	literals  []int32    // indexes in toks
	depth     int        // maximum nesting of parentheses
	listItems int        // items of the longest parenthesized list
}

// An analysis is the result of analyzing a statement: the tokens, the findings of classify, and those of the
// parser. It is scratch: a Plan is derived from it.
type analysis struct {
	tokens

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
// statement. (Normalized text contains no marks of them.) unsure reports that the server may read the text in another way.
func (ts *tokens) scan(text []byte, m sqldigest.Mode) (unsure bool) {
	ts.text = text
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
			return lx.Unsure() || executable && sqldigest.Divergent(text, m)
		case sqldigest.KindSpace, sqldigest.KindComment:
			continue
		case sqldigest.KindExecOpen:
			executable = true
			continue
		case sqldigest.KindExecClose:
			continue
		case sqldigest.KindHintOpen:
			ts.hint(&lx, t.End)
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
				ts.depth = max(ts.depth, len(items))
			case ")":
				if len(items) > 0 {
					items = items[:len(items)-1]
				}
			case ",":
				if n := len(items); n > 0 {
					items[n-1]++
					ts.listItems = max(ts.listItems, items[n-1])
				}
			case "@@":
				tok.kind = kindSysVar
			}
		default:
			tok.kind = kindLiteral
			ts.literals = append(ts.literals, int32(len(ts.toks)))
		}
		if at == "@" && ts.toks[len(ts.toks)-1].end == tok.start && (tok.kind == kindWord || tok.kind == kindQuoted || tok.kind == kindUserVar) {
			// The sign and the name are one token if nothing separates them: after a space the variable is
			// the one without a name.
			tok.kind = kindUserVar
			ts.toks[len(ts.toks)-1] = tok
			at = ""
			continue
		}
		at = string(raw)
		ts.toks = append(ts.toks, tok)
	}
}

// hint records the text of the hint comment whose content starts at start.
func (ts *tokens) hint(lx *sqldigest.Lexer, start int) {
	for {
		t := lx.Next()
		if t.Kind == sqldigest.KindHintClose || t.Kind == sqldigest.KindEOF {
			ts.hints = append(ts.hints, [2]int32{int32(start), int32(t.Start)})
			return
		}
	}
}

// word returns the keyword or unquoted identifier at i in lower case, a synonym as its keyword; "" for other
// tokens.
func (ts *tokens) word(i int) string {
	if i < 0 || i >= len(ts.toks) || ts.toks[i].kind != kindWord {
		return ""
	}
	if kw := ts.toks[i].keyword; kw != 0 {
		return lowerASCII(kw.String())
	}
	return lowerASCII(ts.raw(i))
}

// is reports whether the token at i is the word, given in lower case.
func (ts *tokens) is(i int, word string) bool { return ts.word(i) == word }

// isOp reports whether the token at i is the operator.
func (ts *tokens) isOp(i int, op string) bool {
	return i >= 0 && i < len(ts.toks) && ts.toks[i].kind == kindOp &&
		string(ts.text[ts.toks[i].start:ts.toks[i].end]) == op
}

// raw returns the text of the token at i.
func (ts *tokens) raw(i int) string { return string(ts.text[ts.toks[i].start:ts.toks[i].end]) }

// name returns the name in the token at i, in lower case and without quotes; "" if it is not one.
func (ts *tokens) name(i int) string {
	if i < 0 || i >= len(ts.toks) {
		return ""
	}
	switch ts.toks[i].kind {
	case kindWord:
		return ts.word(i)
	case kindQuoted, kindUserVar:
		return lowerASCII(sqldigest.Unquote(ts.raw(i)))
	}
	return ""
}
