package tabledef

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// createIn returns a table's CREATE TABLE statement for another schema or name, on a server of the given
// version.
func createIn(create, table, version string) (string, error) {
	_, rest, ok := strings.Cut(create, " (\n")
	if !ok || !strings.HasPrefix(create, "CREATE TABLE ") {
		return "", fmt.Errorf("the server's CREATE TABLE statement is of a form that is not known: %.100q", create)
	}
	if strings.Contains(version, "MariaDB") { // MariaDB has invisible columns, but ignores comments for MySQL's version
		rest = mysqlInvisible.ReplaceAllString(rest, "${1}INVISIBLE$2")
	}
	return "CREATE TABLE " + table + " (\n" + rest, nil
}

// checkCreate returns an error unless a statement of createIn creates a table of the engine, and nothing else: the text is
// a source's or a dump's, which does not choose the statements of the target. The text is read as the target does,
// in sessions of Tare's sql_mode, and as servers of other versions would.
func checkCreate(create, engine, version string) error {
	for _, s := range []sqldigest.Server{sqldigest.ParseServer(version), {}} {
		var m sqldigest.Mode
		if err := checkCreateAs(create, engine, m.WithServer(s)); err != nil {
			return fmt.Errorf("its definition is more than that of a table of %s: %w", engine, err)
		}
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
	_, body, _ := strings.Cut(t.Create, " (\n")
	for _, s := range []sqldigest.Server{sqldigest.ParseServer(version), {}} {
		var m sqldigest.Mode
		var l sqldigest.Lexer
		l.Reset([]byte(body), m.WithServer(s))
		for before, at := l.NextSignificant(), l.NextSignificant(); before.Kind != sqldigest.KindEOF; before, at = at, l.NextSignificant() {
			if body[at.Start:at.End] != "." || before.Kind == sqldigest.KindOperator {
				continue
			}
			if name := sqldigest.Unquote(body[before.Start:before.End]); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
