package tabledef

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/rowstream"
)

// differences are what two descriptions of a table do not share and what matters for the
// rows: each is a sentence for people.
func differences(source, target *rowstream.Table) []string {
	return DifferencesBetween("in the source", "in the target", source, target)
}

// DifferencesBetween are differences of a table here and there.
func DifferencesBetween(here, there string, source, target *rowstream.Table) []string {
	var all []string
	byName := make(map[string]*rowstream.Column)
	for i := range target.Columns {
		byName[strings.ToLower(target.Columns[i].Name)] = &target.Columns[i]
	}
	unique := uniqueColumns(source, target)
	for i := range source.Columns {
		s := &source.Columns[i]
		name := s.Name
		t := byName[strings.ToLower(name)]
		delete(byName, strings.ToLower(name))
		switch {
		case t == nil:
			all = append(all, fmt.Sprintf("column %s is missing %s", name, there))
		case jsonAsText(s, t):
			if s.Nullable != t.Nullable {
				all = append(all, fmt.Sprintf("column %s may be NULL in one of the two only", name))
			}
		case !sameType(s, t):
			all = append(all, fmt.Sprintf("column %s is %s %s and %s %s", name, s.FullType, here, t.FullType, there))
		case s.Charset != t.Charset:
			all = append(all, fmt.Sprintf("column %s has the character set %s %s and %s %s", name, s.Charset, here, t.Charset, there))
		case s.Collation != t.Collation && unique(name):
			all = append(all, fmt.Sprintf("column %s, which is of a unique key, has the collation %s %s and %s %s", name, s.Collation, here, t.Collation, there))
		case s.Nullable != t.Nullable:
			all = append(all, fmt.Sprintf("column %s may be NULL in one of the two only", name))
		}
	}
	for i := range target.Columns {
		c := &target.Columns[i]
		if byName[strings.ToLower(c.Name)] != nil {
			all = append(all, fmt.Sprintf("column %s is missing %s", c.Name, here))
		}
	}
	all = append(all, generatedDifferences(here, there, source, target)...)
	if s, t := KeyNames(source), KeyNames(target); s != t {
		all = append(all, fmt.Sprintf("the rows are ordered by the key (%s) %s and (%s) %s", s, here, t, there))
	}
	return all
}

// sameColumn reports whether a column of the target holds what the source's does.
func sameColumn(source, target *rowstream.Column) bool {
	return source.Nullable == target.Nullable && (jsonAsText(source, target) || sameType(source, target) && source.Charset == target.Charset)
}

// displayWidth is the width for printing that some servers show with integers and others no
// longer do.
var displayWidth = regexp.MustCompile(`^((?:tiny|small|medium|big)?int|year)\(\d+\)`)

func sameType(a, b *rowstream.Column) bool {
	plain := func(c *rowstream.Column) string {
		if c.Type == "geometrycollection" { // MariaDB's name
			return "geomcollection"
		}
		return displayWidth.ReplaceAllString(c.FullType, "$1")
	}
	return plain(a) == plain(b)
}

// jsonAsText reports whether the source has MySQL's JSON and the target MariaDB's, which is text.
func jsonAsText(source, target *rowstream.Column) bool {
	return source.Type == "json" && target.Type == "longtext" && target.Charset == "utf8mb4"
}

// uniqueColumns tells of a column whether it is of a unique key on one of the two sides: which of
// its values are the same then is a matter of its collation. All other columns' values are only
// stored, under whatever collation.
func uniqueColumns(tables ...*rowstream.Table) func(column string) bool {
	var parts []keyPart
	for _, t := range tables {
		for _, k := range uniqueKeys(t.Create) {
			parts = append(parts, k...)
		}
	}
	return func(column string) bool {
		return slices.ContainsFunc(parts, func(p keyPart) bool {
			return strings.EqualFold(p.column, column) || p.column == "" && strings.Contains(strings.ToLower(p.rest), strings.ToLower(rowstream.Ident(column)))
		})
	}
}

// KeyNames lists the columns of the key.
func KeyNames(t *rowstream.Table) string {
	names := make([]string, len(t.Key))
	for i, k := range t.Key {
		names[i] = strings.ToLower(t.Columns[k].Name)
	}
	return strings.Join(names, ", ")
}

// An Index is a secondary index that is built after the rows: its line in SHOW CREATE TABLE.
type Index string

// Name returns the index's name, quoted for SQL.
func (x Index) Name() string { return secondaryKey.FindStringSubmatch("  " + string(x))[2] }

// secondaryKey is a line of SHOW CREATE TABLE that defines an index which no row needs to be
// checked against: not the primary key, nor a unique one.
var secondaryKey = regexp.MustCompile("^  ((?:FULLTEXT |SPATIAL )?KEY (`(?:[^`]|``)+`) .*?),?$")

// SecondaryIndexes reads them out of the text of SHOW CREATE TABLE. An AUTO_INCREMENT column
// must stay the first of some index: an index that starts with one is not among them.
func SecondaryIndexes(t *rowstream.Table) []Index {
	auto := ""
	for i := range t.Columns {
		if t.Columns[i].Auto {
			auto = "(" + rowstream.Ident(t.Columns[i].Name)
		}
	}
	var all []Index
	for _, line := range rowstream.CreateLines(t.Create) {
		m := secondaryKey.FindStringSubmatch(line)
		if m == nil || auto != "" && strings.Contains(m[1], auto) || strings.Contains(line, "\n") { // the state has one line for each
			continue
		}
		all = append(all, Index(m[1]))
	}
	return all
}

// JoinIndexes lists index definitions for people.
func JoinIndexes(indexes []Index) string {
	parts := make([]string, len(indexes))
	for i, x := range indexes {
		parts[i] = string(x)
	}
	return strings.Join(parts, ", ")
}

// DropIndexes returns one ALTER TABLE that drops indexes.
func DropIndexes(table string, indexes []Index) string {
	parts := make([]string, len(indexes))
	for i, x := range indexes {
		parts[i] = "DROP INDEX " + x.Name()
	}
	return "ALTER TABLE " + table + " " + strings.Join(parts, ", ")
}

// AddIndexes returns one ALTER TABLE that adds indexes.
func AddIndexes(table string, indexes []Index) string {
	parts := make([]string, len(indexes))
	for i, x := range indexes {
		parts[i] = "ADD " + string(x)
	}
	return "ALTER TABLE " + table + " " + strings.Join(parts, ", ")
}

// createIn is a table's CREATE TABLE statement for another schema or name, on a server of the
// version.
func createIn(create, table, version string) (string, error) {
	_, rest, ok := strings.Cut(create, " (\n")
	if !ok || !strings.HasPrefix(create, "CREATE TABLE ") {
		return "", fmt.Errorf("the server's CREATE TABLE statement is of a form that is not known: %.100q", create)
	}
	if strings.Contains(version, "MariaDB") { // which has invisible columns, and skips what MySQL says of its own version
		rest = mysqlInvisible.ReplaceAllString(rest, "${1}INVISIBLE$2")
	}
	return "CREATE TABLE " + table + " (\n" + rest, nil
}

// mysqlInvisible is how MySQL says of a column that it is invisible.
var mysqlInvisible = regexp.MustCompile("(?m)^(  `.*)/\\*!80023 INVISIBLE \\*/((?: COMMENT '.*')?,?)$")
