package web

import (
	"html"
	"html/template"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// highlight marks up a statement: keywords, names, and placeholders of literals. The text is foreign; every
// byte of it is escaped.
func highlight(text string) template.HTML { return markUp(text, false) }

// markUp marks up a statement. In a normalized one, keywords are in capitals, and other words are names.
func markUp(text string, normalized bool) template.HTML {
	var b strings.Builder
	b.Grow(2 * len(text))
	var l sqldigest.Lexer
	l.Reset([]byte(text), 0)
	for t := l.Next(); t.Kind != sqldigest.KindEOF; t = l.Next() {
		piece := html.EscapeString(strings.ToValidUTF8(text[t.Start:t.End], "\uFFFD"))
		kind := t.Kind
		if normalized && kind == sqldigest.KindKeyword && piece != strings.ToUpper(piece) {
			kind = sqldigest.KindIdent
		}
		if class := tokenClass(kind); class != "" {
			b.WriteString(`<span class="` + class + `">` + piece + `</span>`)
			continue
		}
		b.WriteString(piece)
	}
	return template.HTML(b.String())
}

func tokenClass(k sqldigest.Kind) string {
	switch k {
	case sqldigest.KindKeyword:
		return "k"
	case sqldigest.KindIdent, sqldigest.KindQuotedIdent, sqldigest.KindVariable, sqldigest.KindHost:
		return "i"
	case sqldigest.KindString, sqldigest.KindNumber, sqldigest.KindParam, sqldigest.KindNull, sqldigest.KindEllipsis, sqldigest.KindIntroducer:
		return "v"
	case sqldigest.KindComment, sqldigest.KindHintOpen, sqldigest.KindHintClose, sqldigest.KindExecOpen, sqldigest.KindExecClose:
		return "q"
	}
	return ""
}

// shortSQL is the maximum length of a statement that stays on one line.
const shortSQL = 72

// formatSQL marks up a normalized statement, with one line per clause, join and condition. It changes only
// white space between tokens, so the copied text is the same statement.
func formatSQL(text string) template.HTML {
	if len(text) <= shortSQL {
		return markUp(text, true)
	}
	return markUp(breakLines(text), true)
}

// A sqlBlock is a query or the content of a pair of parentheses.
type sqlBlock struct {
	query   bool // its clauses start lines
	indent  int
	between int  // BETWEENs whose AND has not been read
	cases   int  // open CASEs
	values  bool // VALUES has started a line: the next one is a function
	began   bool // it has a token
}

// A lineBreaker formats a statement with line breaks.
type lineBreaker struct {
	b      strings.Builder
	blocks []sqlBlock
	last   string // previous token
	space  string // white space after it, as it will be written
	begun  bool   // a line was started, so no space is written
}

func breakLines(text string) string {
	tokens := tokensOf(text)
	f := lineBreaker{blocks: []sqlBlock{{query: true}}}
	for i, t := range tokens {
		if t.kind == sqldigest.KindSpace {
			if f.space = " "; i > 0 && tokens[i-1].kind == sqldigest.KindComment {
				f.space = t.text // it may end the comment
			}
			continue
		}
		f.write(t, tokens[i+1:])
	}
	return f.b.String()
}

// A sqlToken is a token with its text.
type sqlToken struct {
	kind sqldigest.Kind
	text string
}

func tokensOf(text string) []sqlToken {
	var tokens []sqlToken
	var l sqldigest.Lexer
	l.Reset([]byte(text), 0)
	for t := l.Next(); t.Kind != sqldigest.KindEOF; t = l.Next() {
		piece := text[t.Start:t.End]
		kind := t.Kind
		if kind == sqldigest.KindKeyword && piece != strings.ToUpper(piece) {
			kind = sqldigest.KindIdent
		}
		tokens = append(tokens, sqlToken{kind, piece})
	}
	return tokens
}

// nextWord returns the first of tokens that is not white space.
func nextWord(tokens []sqlToken) string {
	for _, t := range tokens {
		if t.kind != sqldigest.KindSpace {
			return t.text
		}
	}
	return ""
}

func (f *lineBreaker) write(t sqlToken, rest []sqlToken) {
	block := &f.blocks[len(f.blocks)-1]
	switch {
	case t.text == ")" && len(f.blocks) > 1:
		if block.query {
			f.line(f.blocks[len(f.blocks)-2].indent)
		}
		f.blocks = f.blocks[:len(f.blocks)-1]
	case t.kind == sqldigest.KindKeyword && block.query && block.began:
		f.beforeKeyword(block, t.text, nextWord(rest))
	}
	if !f.begun {
		f.b.WriteString(f.space)
	}
	f.space, f.begun = "", false
	f.b.WriteString(t.text)
	f.last = t.text
	if t.text == "(" {
		next := nextWord(rest)
		inner := sqlBlock{query: next == "SELECT" || next == "WITH", indent: block.indent}
		block.began = true
		if inner.query {
			inner.indent++
			f.line(inner.indent)
		}
		f.blocks = append(f.blocks, inner)
		return
	}
	f.blocks[len(f.blocks)-1].began = true
}

// line starts a line.
func (f *lineBreaker) line(indent int) {
	f.b.WriteString("\n" + strings.Repeat("  ", indent))
	f.begun = true
}

// beforeKeyword starts a line if a keyword of a query is the first word of a clause.
func (f *lineBreaker) beforeKeyword(b *sqlBlock, word, next string) {
	switch word {
	case "CASE":
		b.cases++
	case "END":
		b.cases = max(b.cases-1, 0)
	case "BETWEEN":
		b.between++
	case "AND", "OR":
		switch {
		case word == "AND" && b.between > 0:
			b.between--
		case b.cases == 0:
			f.line(b.indent + 1)
		}
	case "LEFT", "RIGHT", "INNER", "CROSS", "NATURAL", "JOIN", "STRAIGHT_JOIN":
		if next != "(" && !joinWords[f.last] && f.last != "SELECT" {
			f.line(b.indent)
		}
	case "VALUES", "VALUE":
		if !b.values {
			f.line(b.indent)
		}
		b.values = true
	case "SELECT":
		if f.last != "(" {
			f.line(b.indent)
		}
	case "FROM":
		if f.last != "DELETE" {
			f.line(b.indent)
		}
	case "ON", "FOR":
		if next == "DUPLICATE" || word == "FOR" && (next == "UPDATE" || next == "SHARE") {
			f.line(b.indent)
		}
	case "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "SET", "WINDOW", "RETURNING":
		f.line(b.indent)
	}
}

// joinWords precede other words of the same join.
var joinWords = map[string]bool{"LEFT": true, "RIGHT": true, "INNER": true, "CROSS": true, "NATURAL": true, "OUTER": true}
