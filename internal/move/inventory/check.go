package inventory

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// A source or a dump is not trusted with the text that is executed in the target: it must be the one statement that
// creates the object, with the definer that the inventory lists. What follows the header is the object's own body; the
// connection that executes it accepts no second statement.

// Values of a context, of which names become parts of statements.
var (
	charsetName = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	timeZone    = regexp.MustCompile(`^[A-Za-z0-9_+:/-]{1,64}$`)
)

// sqlModes are all modes of MySQL 5.7 to 9.7 and MariaDB 10.2 to 11.8, as both list them for sql_mode.
//
//nolint:gochecknoglobals // a list
var sqlModes = strings.Fields(`REAL_AS_FLOAT PIPES_AS_CONCAT ANSI_QUOTES IGNORE_SPACE IGNORE_BAD_TABLE_OPTIONS
	NOT_USED NOT_USED_9 NOT_USED_10 NOT_USED_11 NOT_USED_12 NOT_USED_13 NOT_USED_14 NOT_USED_15 NOT_USED_16 NOT_USED_17
	NOT_USED_18 NOT_USED_29 ONLY_FULL_GROUP_BY NO_UNSIGNED_SUBTRACTION NO_DIR_IN_CREATE POSTGRESQL ORACLE MSSQL DB2 MAXDB
	NO_KEY_OPTIONS NO_TABLE_OPTIONS NO_FIELD_OPTIONS MYSQL323 MYSQL40 ANSI NO_AUTO_VALUE_ON_ZERO NO_BACKSLASH_ESCAPES
	STRICT_TRANS_TABLES STRICT_ALL_TABLES NO_ZERO_IN_DATE NO_ZERO_DATE INVALID_DATES ALLOW_INVALID_DATES
	ERROR_FOR_DIVISION_BY_ZERO TRADITIONAL NO_AUTO_CREATE_USER HIGH_NOT_PRECEDENCE NO_ENGINE_SUBSTITUTION
	PAD_CHAR_TO_FULL_LENGTH EMPTY_STRING_IS_NULL SIMULTANEOUS_ASSIGNMENT TIME_ROUND_FRACTIONAL TIME_TRUNCATE_FRACTIONAL`)

// check returns an error unless the settings are values that a server has.
func (c *Context) check() error {
	for _, name := range []string{c.Client, c.Connection, c.Database} {
		if name != "" && !charsetName.MatchString(name) {
			return fmt.Errorf("its character set or collation %.40q is no name of one", name)
		}
	}
	if c.TimeZone != "" && !timeZone.MatchString(c.TimeZone) {
		return fmt.Errorf("its time zone %.40q is no name of one", c.TimeZone)
	}
	for mode := range strings.SplitSeq(c.SQLMode, ",") {
		if mode != "" && !slices.Contains(sqlModes, mode) {
			return fmt.Errorf("its sql_mode has %.40q, which is unknown", mode)
		}
	}
	return nil
}

// check returns an error unless the definition is the one statement that creates the object.
func (o *Object) check() error {
	if err := o.Context.check(); err != nil {
		return err
	}
	if o.Collation != "" && !charsetName.MatchString(o.Collation) {
		return fmt.Errorf("its default collation %.40q is no name of one", o.Collation)
	}
	switch o.Kind {
	case View, Sequence, Function, Procedure, Trigger, Event:
	default:
		return nil // it has no definition
	}
	h := newHeader(o)
	if err := h.parse(); err != nil {
		return fmt.Errorf("its definition is not the CREATE %s of that name alone: %w", strings.ToUpper(string(o.Kind)), err)
	}
	return nil
}

// A header is the part of a definition up to the object's name and what must follow it.
type header struct {
	o    *Object
	text string
	lex  sqldigest.Lexer
	tok  sqldigest.Token // not yet consumed
}

// mode returns the mode in which servers read the object's definition.
func (o *Object) mode() (m sqldigest.Mode) {
	if o.Kind != View && o.Kind != Sequence {
		m = m.WithSQLMode([]byte(o.Context.SQLMode))
	}
	if o.Context.Client != "" {
		m = m.WithCharset(sqldigest.CharsetNamed([]byte(o.Context.Client)))
	}
	return m
}

func newHeader(o *Object) *header {
	h := &header{o: o, text: o.Definition}
	h.lex.Reset([]byte(o.Definition), o.mode())
	h.next()
	return h
}

// next reads the next token that is no space. Comments are tokens: a server prints none in a header.
func (h *header) next() {
	for h.tok = h.lex.Next(); h.tok.Kind == sqldigest.KindSpace; h.tok = h.lex.Next() {
	}
}

func (h *header) word() string { return h.text[h.tok.Start:h.tok.End] }

// accept consumes words in any case, or nothing.
func (h *header) accept(words ...string) bool {
	before, tok := h.lex, h.tok
	for _, w := range words {
		if h.tok.Kind == sqldigest.KindString || h.tok.Kind == sqldigest.KindQuotedIdent || !strings.EqualFold(h.word(), w) {
			h.lex, h.tok = before, tok
			return false
		}
		h.next()
	}
	return true
}

func (h *header) require(words ...string) error {
	if !h.accept(words...) {
		return fmt.Errorf("%s is expected, not %.40q", strings.Join(words, " "), h.word())
	}
	return nil
}

func (h *header) parse() error {
	if err := h.require("CREATE"); err != nil { // without OR REPLACE, which drops a table of a sequence's name
		return err
	}
	if h.accept("ALGORITHM", "=") && !h.accept("UNDEFINED") && !h.accept("MERGE") && !h.accept("TEMPTABLE") {
		return fmt.Errorf("unknown ALGORITHM %.40q", h.word())
	}
	if err := h.definer(); err != nil {
		return err
	}
	if h.o.Kind == View && h.accept("SQL", "SECURITY") && !h.accept("DEFINER") && !h.accept("INVOKER") {
		return fmt.Errorf("unknown SQL SECURITY %.40q", h.word())
	}
	if h.o.Kind == Function {
		h.accept("AGGREGATE")
	}
	if err := h.require(strings.ToUpper(string(h.o.Kind))); err != nil {
		return err
	}
	if h.o.Definer == "" && h.o.Kind != Sequence { // it would be the account of the copy, with its privileges
		return errors.New("it has no definer: create it again on the source with one")
	}
	h.accept("IF", "NOT", "EXISTS")
	if err := h.name(h.o.Name); err != nil {
		return err
	}
	return h.after()
}

// after checks what follows the name.
func (h *header) after() error {
	switch h.o.Kind {
	case Function, Procedure:
		return h.require("(") // else it would load a library
	case Trigger:
		if !h.accept("BEFORE") && !h.accept("AFTER") {
			return fmt.Errorf("BEFORE or AFTER is expected, not %.40q", h.word())
		}
		for !h.accept("ON") { // INSERT, UPDATE, DELETE, also of columns or several in later versions
			if !h.isWord() && h.word() != "," && !h.isPlainComment() {
				return fmt.Errorf("ON is expected, not %.40q", h.word())
			}
			h.next()
		}
		if err := h.name(h.o.Table); err != nil {
			return err
		}
		return h.require("FOR", "EACH", "ROW")
	case Event:
		if err := h.require("ON", "SCHEDULE"); err != nil {
			return err
		}
		_, _, err := h.status()
		return err
	case Sequence:
		return h.sequence()
	case View:
		for h.tok.Kind != sqldigest.KindEOF && !h.accept("AS") { // the list of columns
			if h.tok.Kind != sqldigest.KindQuotedIdent && h.tok.Kind != sqldigest.KindIdent && !strings.Contains("(,)", h.word()) {
				return fmt.Errorf("AS is expected, not %.40q", h.word())
			}
			h.next()
		}
	}
	return h.single()
}

// single checks that the rest of the statement has no end.
func (h *header) single() error {
	for ; h.tok.Kind != sqldigest.KindEOF; h.next() {
		switch {
		case h.tok.Kind == sqldigest.KindOperator && h.word() == ";":
			return errors.New("it has a second statement")
		case h.tok.Kind == sqldigest.KindExecOpen:
			return errors.New("it has a comment that servers execute")
		}
	}
	return nil
}

// definer checks that the definer is the one that the inventory lists.
func (h *header) definer() error {
	var given strings.Builder
	if h.accept("DEFINER", "=") {
		for h.isName() {
			part := sqldigest.Unquote(strings.TrimPrefix(h.word(), "@"))
			if strings.HasPrefix(h.word(), "@") && len(h.word()) > 0 {
				given.WriteString("@")
			}
			given.WriteString(part)
			end := h.tok.End
			h.next()
			if h.tok.Start != end || h.tok.Kind == sqldigest.KindKeyword {
				break // a space ends an account name
			}
		}
	}
	if strings.TrimSuffix(given.String(), "@") != strings.TrimSuffix(h.o.Definer, "@") {
		return fmt.Errorf("its definer is %.80q, listed is %.80q", given.String(), h.o.Definer)
	}
	return nil
}

// name consumes a name, possibly with the object's schema, and checks both.
func (h *header) name(want string) error {
	got, err := h.ident()
	if err == nil && h.accept(".") {
		if got != h.o.Schema {
			return fmt.Errorf("its schema is %.80q, not %.80q", got, h.o.Schema)
		}
		got, err = h.ident()
	}
	if err == nil && got != want {
		err = fmt.Errorf("the name %.80q is expected, not %.80q", want, got)
	}
	return err
}

func (h *header) ident() (string, error) {
	switch h.tok.Kind {
	case sqldigest.KindIdent, sqldigest.KindQuotedIdent, sqldigest.KindKeyword:
		name := sqldigest.Unquote(h.word())
		h.next()
		return name, nil
	}
	return "", fmt.Errorf("a name is expected, not %.40q", h.word())
}
