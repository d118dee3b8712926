package sqldigest

// A Kind says what a token is.
type Kind uint8

// The kinds of tokens.
const (
	KindEOF         Kind = iota // the end of the input; it has no bytes
	KindSpace                   // white space
	KindComment                 // a comment of any kind that the server skips
	KindExecOpen                // "/*!", "/*!50000", "/*M!100100": what follows is SQL
	KindExecClose               // its "*/"
	KindHintOpen                // "/*+" after SELECT, INSERT, REPLACE, UPDATE, DELETE
	KindHintClose               // its "*/"
	KindKeyword                 // Token.Keyword tells which
	KindIdent                   // a bare identifier
	KindQuotedIdent             // an identifier in backticks, or in double quotes under ANSIQuotes
	KindVariable                // the name after the "@" of a user variable, quotes included
	KindHost                    // the host after the "@" of an account name, quotes included
	KindIntroducer              // a character set introducer, _utf8mb4
	KindString                  // a string literal, with its prefix for N'…', x'…', b'…'
	KindNumber                  // a number in any form, without its sign
	KindParam                   // ?
	KindNull                    // \N
	KindEllipsis                // "...", which stands in normalized text only
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

// A Token is the piece sql[Start:End] of the input. Keyword is set for KindKeyword alone.
type Token struct {
	Kind       Kind
	Keyword    Keyword
	Start, End int
}

// A Lexer splits a statement into tokens that tile it: each begins where the one before
// ends. The zero value is an empty input.
type Lexer struct {
	sql []byte
	pos int
	s   scanner
}

// Reset starts over on sql, which the lexer keeps a view of.
func (l *Lexer) Reset(sql []byte, m Mode) {
	*l = Lexer{sql: sql, s: newScanner(m)}
}

// Next returns the next token, at the end KindEOF, again and again. Anything is some token:
// an unterminated string or comment goes to the end. It does not allocate and reads each byte
// a small constant number of times.
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

// NextSignificant returns the next token that is not space, comment, or the border of an
// executable comment. It does not allocate.
func (l *Lexer) NextSignificant() Token {
	for {
		switch t := l.Next(); t.Kind {
		case KindSpace, KindComment, KindExecOpen, KindExecClose:
		default:
			return t
		}
	}
}

// Unsure reports whether the server may read the tokens so far in another way: the mode is
// unknown, or the text holds what differs between servers and is not proven for this one. See
// Digester.Divergent, which knows the marks of a server of unknown kind besides.
func (l *Lexer) Unsure() bool { return l.s.unsure || l.s.mode.Unknown() }
