package binlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// maxSQLTokens bounds the tokens of a statement that the parser reads. A longer one stops the reader.
const maxSQLTokens = 200_000

// A sqlToken is a significant token of a statement.
type sqlToken struct {
	kind sqldigest.Kind
	text string // a name without its quotes; anything else as written
}

func (t sqlToken) is(keyword string) bool {
	return (t.kind == sqldigest.KindKeyword || t.kind == sqldigest.KindIdent) && strings.EqualFold(t.text, keyword)
}

func (t sqlToken) op(text string) bool { return t.kind == sqldigest.KindOperator && t.text == text }

func (t sqlToken) isName() bool {
	switch t.kind {
	case sqldigest.KindKeyword, sqldigest.KindIdent, sqldigest.KindQuotedIdent, sqldigest.KindIntroducer:
		return true
	}
	return false
}

// tokenize splits a statement into its significant tokens, including the contents of executable comments: a
// server removes from its log those that it skipped. MySQL treats MariaDB's as plain comments and leaves them
// in its log: with skipMaria they are omitted. ok is false if the statement has too many tokens.
func tokenize(sql []byte, mode sqldigest.Mode, skipMaria bool) (tokens []sqlToken, ok bool) {
	var l sqldigest.Lexer
	l.Reset(sql, mode)
	for {
		t := l.Next()
		text := sql[t.Start:t.End]
		switch t.Kind {
		case sqldigest.KindEOF:
			return tokens, true
		case sqldigest.KindSpace, sqldigest.KindComment, sqldigest.KindExecClose:
			continue
		case sqldigest.KindExecOpen:
			if skipMaria && bytes.HasPrefix(text, mariaComment) {
				_, rest, _ := bytes.Cut(sql[t.End:], commentEnd)
				sql = rest
				l.Reset(sql, mode)
			}
			continue
		}
		if len(tokens) == maxSQLTokens {
			return nil, false
		}
		token := sqlToken{kind: t.Kind, text: string(text)}
		if t.Kind == sqldigest.KindQuotedIdent {
			token.text = sqldigest.Unquote(string(text))
		}
		tokens = append(tokens, token)
	}
}

var (
	mariaComment = []byte("/*M!")
	commentEnd   = []byte("*/")
)

// Session settings in a statement's event that determine how its text is parsed, with their names in the
// servers' sources.
const (
	varFlags         = 0 // Q_FLAGS2_CODE, 4 bytes
	varSQLMode       = 1 // Q_SQL_MODE_CODE, 8 bytes
	varAutoIncrement = 3 // Q_AUTO_INCREMENT, 4 bytes
	varCharset       = 4 // Q_CHARSET_CODE, 6 bytes, the client's first
	varCatalog       = 6 // Q_CATALOG_NZ_CODE, a length and the bytes

	modeANSIQuotes         = 1 << 2
	modeOracle             = 1 << 9
	modeNoBackslashEscapes = 1 << 20
)

// sessionMode returns how a statement is parsed, from the status variables of its event. Variables are in
// ascending order of their numbers; those after the character set do not matter.
func sessionMode(variables []byte) (mode sqldigest.Mode) {
	for len(variables) > 0 {
		size := 0
		rest := variables[1:]
		switch variables[0] {
		case varFlags, varAutoIncrement:
			size = 4
		case varSQLMode:
			size = 8
		case varCharset:
			size = 6
		case varCatalog:
			if len(rest) > 0 {
				size = 1 + int(rest[0])
			}
		}
		if size == 0 || len(rest) < size {
			break
		}
		switch variables[0] {
		case varSQLMode:
			mode |= modeOf(binary.LittleEndian.Uint64(rest))
		case varCharset:
			mode = mode.WithCharset(sqldigest.CharsetOfCollation(binary.LittleEndian.Uint16(rest)))
		}
		variables = rest[size:]
	}
	return mode
}

func modeOf(sqlMode uint64) (mode sqldigest.Mode) {
	for _, m := range [...]struct {
		bit  uint64
		mode sqldigest.Mode
	}{{modeANSIQuotes, sqldigest.ANSIQuotes}, {modeOracle, sqldigest.Oracle}, {modeNoBackslashEscapes, sqldigest.NoBackslashEscapes}} {
		if sqlMode&m.bit != 0 {
			mode |= m.mode
		}
	}
	return mode
}

// namesUTF8 reports whether names in a statement parsed with mode are in UTF-8.
func namesUTF8(mode sqldigest.Mode) bool {
	name := mode.Charset().String()
	return strings.HasPrefix(name, "utf8")
}

// hexText returns a string literal's bytes in hexadecimal digits, or hexadecimal digits unchanged.
func hexText(t sqlToken) (string, bool) {
	text := t.text
	if t.kind != sqldigest.KindString || len(text) < 2 {
		return "", false
	}
	switch {
	case text[0] == 'X' || text[0] == 'x':
		return strings.ToLower(strings.Trim(text[1:], "'")), true
	case text[0] == '\'' && !strings.ContainsAny(text[1:len(text)-1], `'\`):
		return hex.EncodeToString([]byte(text[1 : len(text)-1])), true
	}
	return "", false
}
