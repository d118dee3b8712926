package tabledef

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

// differences returns the differences between the descriptions of a table that matter for its rows, one
// sentence each.
func differences(source, target *rowstream.Table) []string {
	return DifferencesBetween("in the source", "in the target", source, target)
}

// DifferencesBetween is like differences, with the names of the sides.
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

// sameColumn reports whether a column of the target stores the same values as the source's.
func sameColumn(source, target *rowstream.Column) bool {
	return source.Nullable == target.Nullable && (jsonAsText(source, target) || sameType(source, target) && source.Charset == target.Charset)
}

// displayWidth matches the display width that some servers show for integers and others no longer do.
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

// uniqueColumns returns a function that reports whether a column is part of a unique key on either side: then
// its collation decides which values are equal. The values of all other columns are only stored, and their
// collation does not matter.
func uniqueColumns(tables ...*rowstream.Table) func(column string) bool {
	var parts []keyPart
	for _, t := range tables {
		for _, k := range uniqueKeys(t.Create) {
			parts = append(parts, k...)
		}
	}
	return func(column string) bool {
		return slices.ContainsFunc(parts, func(p keyPart) bool {
			return strings.EqualFold(p.column, column) || p.column == "" && strings.Contains(strings.ToLower(p.rest), strings.ToLower(session.Ident(column)))
		})
	}
}

// KeyNames returns a list of the key's columns.
func KeyNames(t *rowstream.Table) string {
	names := make([]string, len(t.Key))
	for i, k := range t.Key {
		names[i] = strings.ToLower(t.Columns[k].Name)
	}
	return strings.Join(names, ", ")
}

// An Index is a secondary index that is created after the rows: its line in SHOW CREATE TABLE.
type Index string

// Name returns the index's name, quoted for SQL.
func (x Index) Name() string { return secondaryKey.FindStringSubmatch("  " + string(x))[2] }

// secondaryKey matches a line of SHOW CREATE TABLE that defines a non-unique index.
var secondaryKey = regexp.MustCompile("^  ((?:FULLTEXT |SPATIAL )?KEY (`(?:[^`]|``)+`) .*?),?$")

// SecondaryIndexes parses the non-unique indexes from SHOW CREATE TABLE. It excludes indexes that start
// with the AUTO_INCREMENT column, which must remain the first column of some index.
func SecondaryIndexes(t *rowstream.Table) []Index {
	auto := ""
	for i := range t.Columns {
		if t.Columns[i].Auto {
			auto = "(" + session.Ident(t.Columns[i].Name)
		}
	}
	var all []Index
	for _, line := range sqldigest.Lines(t.Create, 0) {
		m := secondaryKey.FindStringSubmatch(line)
		if m == nil || auto != "" && strings.Contains(m[1], auto) || strings.Contains(line, "\n") { // the state has one line per index
			continue
		}
		all = append(all, Index(m[1]))
	}
	return all
}

// JoinIndexes returns a list of index definitions for messages.
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

// mysqlInvisible matches MySQL's notation of an invisible column.
var mysqlInvisible = regexp.MustCompile("(?m)^(  `.*)/\\*!80023 INVISIBLE \\*/((?: COMMENT '.*')?,?)$")
