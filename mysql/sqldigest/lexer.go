package sqldigest

// A Kind is the kind of a token.
type Kind uint8

// The kinds of tokens.
const (
	KindEOF         Kind = iota // the end of the input; it has no bytes
	KindSpace                   // white space
	KindComment                 // a comment of any kind that the server skips
	KindExecOpen                // "/*!", "/*!50000", "/*M!100100": SQL follows
	KindExecClose               // its "*/"
	KindHintOpen                // "/*+" after SELECT, INSERT, REPLACE, UPDATE, DELETE
	KindHintClose               // its "*/"
	KindKeyword                 // see Token.Keyword
	KindIdent                   // an unquoted identifier
	KindQuotedIdent             // an identifier in backticks, or in double quotes under ANSIQuotes
	KindVariable                // the name after the "@" of a user variable, quotes included
	KindHost                    // the host after the "@" of an account name, quotes included
	KindIntroducer              // a character set introducer, _utf8mb4
	KindString                  // a string literal, with its prefix for N'…', x'…', b'…'
	KindNumber                  // a number in any form, without its sign
	KindParam                   // ?
	KindNull                    // \N
	KindEllipsis                // "...", which occurs only in normalized text
	KindOperator                // an operator or punctuation of one to three bytes
)

var kindNames = [...]string{
	"EOF", "Space", "Comment", "ExecOpen", "ExecClose", "HintOpen", "HintClose", "Keyword", "Ident", "QuotedIdent",
	"Variable", "Host", "Introducer", "String", "Number", "Param", "Null", "Ellipsis", "Operator",
}

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "Kind(?)"
}

// A Token is the piece sql[Start:End] of the input. Keyword is set for KindKeyword only.
type Token struct {
	Kind       Kind
	Keyword    Keyword
	Start, End int
}

// A Lexer splits a statement into adjacent tokens that cover it completely. The zero value is an empty input.
type Lexer struct {
	sql []byte
	pos int
	s   scanner
}

// Reset restarts the lexer on sql, which it aliases.
func (l *Lexer) Reset(sql []byte, m Mode) {
	*l = Lexer{sql: sql, s: newScanner(m)}
}

// Next returns the next token; at the end it returns KindEOF repeatedly. Every input yields tokens: an
// unterminated string or comment extends to the end. Next does not allocate and reads each byte a small
// constant number of times.
func (l *Lexer) Next() Token {
	start := l.pos
	if start >= len(l.sql) {
		return Token{Kind: KindEOF, Start: start, End: start}
	}
	kind, end, word, _ := l.s.next(l.sql, start, true)
	l.pos = end
	t := Token{Kind: kind, Start: start, End: end}
	if kind == KindKeyword {
		t.Keyword = Keyword(keywords[word].canon)
	}
	return t
}

// NextSignificant returns the next token that is not a space, a comment, or the mark of an executable
// comment. It does not allocate.
func (l *Lexer) NextSignificant() Token {
	for {
		switch t := l.Next(); t.Kind {
		case KindSpace, KindComment, KindExecOpen, KindExecClose:
		default:
			return t
		}
	}
}

// Unsure reports whether the server may read the tokens so far in another way: the mode is unknown, or the
// text contains a construct that differs between servers and is not proven for this one. Digester.Divergent
// also detects the marks that matter for a server of unknown kind.
func (l *Lexer) Unsure() bool { return l.s.unsure || l.s.mode.Unknown() }
