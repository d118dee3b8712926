package tabledef

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// createIn returns a table's CREATE TABLE statement for another schema or name, on a server of the given
// version.
func createIn(create, table, version string) (string, error) {
	rest, ok := bodyOf(create)
	if !ok {
		return "", fmt.Errorf("the server's CREATE TABLE statement is of a form that is not known: %.100q", create)
	}
	if strings.Contains(version, "MariaDB") { // MariaDB has invisible columns, but ignores comments for MySQL's version
		rest = mysqlInvisible.ReplaceAllString(rest, "${1}INVISIBLE$2")
	}
	return "CREATE TABLE " + table + " (\n" + rest, nil
}

// bodyOf returns the text after the name in a server's CREATE TABLE statement. The name may contain a parenthesis.
func bodyOf(create string) (body string, ok bool) {
	rest, ok := strings.CutPrefix(create, "CREATE TABLE `")
	for ok {
		if _, rest, ok = strings.Cut(rest, "`"); !ok {
			return "", false
		}
		doubled, more := strings.CutPrefix(rest, "`")
		if !more {
			return strings.CutPrefix(rest, " (\n")
		}
		rest = doubled
	}
	return "", false
}

// checkCreate returns an error unless a statement of createIn creates a table of the engine, and nothing else: the text is
// a source's or a dump's, which does not choose the statements of the target. The text is read as the target does,
// in sessions of Tare's sql_mode, and as servers of other versions would.
func checkCreate(create, engine, version string) error {
	var err error
	for _, r := range readings(create, version) {
		if err == nil {
			err = checkCreateAs(r.text, engine, r.mode)
		}
	}
	if err == nil {
		err = checkReading(create, version)
	}
	if err != nil {
		return fmt.Errorf("its definition is more than that of a table of %s: %w", engine, err)
	}
	return nil
}

// A reading is a statement as a server reads it.
type reading struct {
	text string
	mode sqldigest.Mode
}

// readings returns a statement as the target reads it, and as a server would that executes all of its executable comments.
func readings(create, version string) []reading {
	var m sqldigest.Mode
	target := m.WithServer(sqldigest.ParseServer(version))
	all := []reading{{create, target}, {create, m}}
	if tidb := withoutMarks(create, m); tidb != create {
		all = append(all, reading{tidb, m})
		if target.Server().Kind == sqldigest.ServerTiDB {
			all = append(all, reading{tidb, target})
		}
	}
	return all
}

// tidbMark matches the start of a comment that TiDB executes: always, or if it has the feature.
var tidbMark = regexp.MustCompile(`^/\*T!(\[[^\]]*\])?`)

// withoutMarks returns a statement with spaces in place of the marks of comments that TiDB executes and other servers skip.
func withoutMarks(create string, m sqldigest.Mode) string {
	if !strings.Contains(create, "/*T!") {
		return create
	}
	text := []byte(create)
	var l sqldigest.Lexer
	for l.Reset([]byte(create), m); ; {
		t := l.Next()
		if t.Kind == sqldigest.KindEOF {
			return string(text)
		}
		comment := text[t.Start:t.End]
		if mark := tidbMark.Find(comment); t.Kind == sqldigest.KindComment && mark != nil {
			end := bytes.TrimSuffix(comment, []byte("*/"))
			copy(comment[len(end):], "  ")
			copy(comment, strings.Repeat(" ", min(len(mark), len(end))))
		}
	}
}

// checkReading returns an error if the target may read a statement in another way than readings: quotes would be in
// comments, or comments in quotes.
func checkReading(create, version string) error {
	errUnsure := errors.New("it has a comment or a character that servers read in different ways")
	var m sqldigest.Mode
	m = m.WithServer(sqldigest.ParseServer(version))
	kind := m.Server().Kind
	if kind == sqldigest.ServerUnknown || kind == sqldigest.ServerTiDB {
		create = withoutMarks(create, m)
	}
	var l sqldigest.Lexer
	l.Reset([]byte(create), m)
	closes := -1    // where the executable comment ends if a server skips it
	marked := false // a mark is between this token and the one before
	after := ""     // the token before
	for t := l.Next(); t.Kind != sqldigest.KindEOF; t = l.Next() {
		switch {
		case kind != sqldigest.ServerUnknown:
			continue
		case t.Kind == sqldigest.KindExecOpen:
			marked = true
			if closes = strings.Index(create[t.End:], "*/"); closes < 0 || strings.Contains(create[t.End:t.End+closes], "/*") {
				return errUnsure
			}
			closes += t.End
		case t.Kind == sqldigest.KindExecClose:
			marked = true
			if t.Start != closes {
				return errUnsure
			}
			closes = -1
		case t.Kind == sqldigest.KindSpace || t.Kind == sqldigest.KindComment:
		default:
			text := create[t.Start:t.End]
			if marked && (after == "." || text == ".") {
				return errUnsure
			}
			marked, after = false, text
		}
	}
	if l.Unsure() || closes >= 0 { // a quoted text has the end of the comment
		return errUnsure
	}
	return nil
}

// checkCreateAs is checkCreate in one reading.
func checkCreateAs(create, engine string, m sqldigest.Mode) error {
	var l sqldigest.Lexer
	l.Reset([]byte(create), m)
	next := func() (sqldigest.Token, string) {
		t := l.NextSignificant()
		if t.Kind == sqldigest.KindKeyword || t.Kind == sqldigest.KindIdent || t.Kind == sqldigest.KindOperator {
			return t, strings.ToUpper(create[t.Start:t.End])
		}
		return t, ""
	}
	depth, tail := 0, false // tail: after the columns
	for t, word := next(); t.Kind != sqldigest.KindEOF; {
		switch {
		case word == "(":
			depth++
		case word == ")":
			depth--
			tail = tail || depth == 0
		case word == ";":
			return errors.New("it has a second statement")
		case word == "REFERENCES": // foreign keys are created after the rows, by their parts
			return errors.New("it has REFERENCES")
		case word == "SELECT", tail && (word == "TABLE" || word == "UNION"), word == "LIKE" && depth < 2: // else it is of an expression
			return fmt.Errorf("it has %s", word)
		case tail && word == "VALUES": // of a partition: LESS THAN or IN
			if _, word = next(); word != "LESS" && word != "IN" {
				return errors.New("it has VALUES")
			}
		case tail && (word == "DATA" || word == "INDEX"):
			option := word
			if t, word = next(); word == "DIRECTORY" {
				return fmt.Errorf("it has %s DIRECTORY, a path on the source: create the table in the target without it, and repeat the copy", option)
			}
			continue
		case tail && word == "START":
			if t, word = next(); word == "TRANSACTION" {
				return errors.New("it has START TRANSACTION")
			}
			continue
		case tail && word == "TABLESPACE":
			if t, word = next(); word == "," || word == ")" {
				continue // a column by which the table is partitioned
			}
			if word == "=" {
				t, _ = next()
			}
			if name := sqldigest.Unquote(create[t.Start:t.End]); name != "innodb_file_per_table" {
				return fmt.Errorf("it has the tablespace %.40q, a file on the source: create the table in the target without it, and repeat the copy", name)
			}
		case tail && (word == "ENGINE" || word == "CONNECTION"):
			option := word
			if t, word = next(); word == "," || word == ")" {
				continue // a column by which the table is partitioned
			}
			if option == "CONNECTION" {
				return errors.New("it has CONNECTION")
			}
			if word == "=" {
				t, _ = next()
			}
			if name := sqldigest.Unquote(create[t.Start:t.End]); !strings.EqualFold(name, engine) {
				return fmt.Errorf("it has the engine %.40q", name)
			}
		}
		t, word = next()
	}
	return nil
}

// Qualifiers returns the names before a dot in the definition of a table to be created, as the target and as other servers read
// it: MariaDB's DEFAULT names the schema of a sequence.
func (t *Table) Qualifiers(version string) (names []string) {
	for _, r := range readings(t.Create, version) {
		var l sqldigest.Lexer
		l.Reset([]byte(r.text), r.mode)
		next := func() (text string, ok bool) {
			at := l.NextSignificant()
			return r.text[at.Start:at.End], at.Kind != sqldigest.KindEOF
		}
		before, ok := next()
		for ok && before != "(" { // the table's name
			before, ok = next()
		}
		for ok {
			var at string
			if at, ok = next(); at == "." {
				if name := sqldigest.Unquote(before); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			before = at
		}
	}
	return names
}
