package alter

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A mapper finds out where the columns of a definition come from.
type mapper struct {
	text   string
	origin func(column string) (from string, ok bool) // by names in lower case; false: the column is added
	utc    bool                                       // the server's time zone is UTC
	fixed  func(*rowstream.Column) ([]byte, error)    // returns the value that all rows get in an added column
}

// newMapping returns where the columns of the target's definition come from. It returns an error where the result of a
// copy would differ from that of a plain ALTER TABLE, or could lose changes.
func (p *mapper) newMapping(source, target *rowstream.Table) (*tabledef.Mapping, error) {
	m := &tabledef.Mapping{Text: p.text}
	for i := range target.Columns {
		c := tabledef.MappedColumn{Column: target.Columns[i]}
		from, existed := p.origin(strings.ToLower(c.Column.Name))
		n := tabledef.ColumnNumber(source, from)
		var err error
		switch {
		case existed && n >= 0:
			from := &source.Columns[n]
			c.From = from.Name
			if c.Conversion, err = rowstream.ConvertColumn(from, &c.Column); err != nil {
				return nil, err
			}
			if c.Conversion.UTC && !p.utc {
				return nil, fmt.Errorf("column %s: from %s to %s: it depends on the time zone of the session, and that of the server is not UTC", from.Name, from.FullType, c.Column.FullType)
			}
		case existed:
			return nil, fmt.Errorf("column %s is computed now, and would have to keep its values", c.Column.Name)
		case c.Column.Auto:
			return nil, fmt.Errorf("column %s: the rows would get other numbers than by ALTER TABLE", c.Column.Name)
		default:
			if c.Fixed, err = p.fixed(&c.Column); err != nil {
				return nil, fmt.Errorf("find the value of the added column %s: %w", c.Column.Name, err)
			}
		}
		m.Columns = append(m.Columns, c)
	}
	return m, errors.Join(sameKey(m, source, target), safeKeys(m, source, target))
}

// mapped returns the column of the mapping that comes from one of the source; nil if it is dropped.
func mapped(m *tabledef.Mapping, from string) *tabledef.MappedColumn {
	for i := range m.Columns {
		if m.Columns[i].From == from {
			return &m.Columns[i]
		}
	}
	return nil
}

// sameKey returns an error unless the rows of the target can be found by the key that orders those of the source.
func sameKey(m *tabledef.Mapping, source, target *rowstream.Table) error {
	var names []string
	for _, k := range source.Key {
		c := mapped(m, source.Columns[k].Name)
		if c == nil {
			return fmt.Errorf("column %s is of the key by which rows are copied and compared, and cannot be dropped", source.Columns[k].Name)
		}
		names = append(names, session.Ident(c.Column.Name))
	}
	for _, k := range createtable.Keys(target.Create) {
		if indexesRows(&k, names) {
			return nil
		}
	}
	return fmt.Errorf("no index of the new definition starts with (%s), the key by which rows are copied and compared: add one", strings.Join(names, ", "))
}

// indexesRows reports whether the server finds rows by their columns in an index.
func indexesRows(k *createtable.Key, names []string) bool {
	if k.Kind != "PRIMARY KEY" && k.Kind != "UNIQUE KEY" && k.Kind != "KEY" || k.Hidden() || len(k.Parts) < len(names) {
		return false
	}
	return slices.EqualFunc(k.Parts[:len(names)], names, func(part, name string) bool { return strings.EqualFold(strings.TrimSuffix(part, " DESC"), name) })
}

// A newKeyError is the reason against a copy to a table with a unique key that the source does not have.
type newKeyError struct {
	name  string
	parts []string // of the key, as the target has them
}

func (e *newKeyError) Error() string {
	return fmt.Sprintf("the key %s (%s) is unique and new, and rows with equal values would replace each other while they are copied: add it by a separate ALTER TABLE", e.name, strings.Join(e.parts, ", "))
}

// safeKeys returns an error for unique keys by which rows could be equal that are not in the source, and where no key that identifies rows in
// both is left.
func safeKeys(m *tabledef.Mapping, source, target *rowstream.Table) error {
	had := uniqueKeys(m, source)
	identified := false
	for _, k := range createtable.Keys(target.Create) {
		if k.Kind != "PRIMARY KEY" && k.Kind != "UNIQUE KEY" {
			continue
		}
		parts := make([]string, len(k.Parts))
		for i, part := range k.Parts {
			parts[i] = strings.ToLower(strings.TrimSuffix(part, " DESC"))
		}
		never := neverNull(m, source, parts)
		identifies := slices.ContainsFunc(had, func(old []string) bool { return neverNull(m, source, old) && containsAll(parts, old) })
		identified = identified || identifies && never
		if !identifies && !slices.ContainsFunc(had, func(old []string) bool { return slices.Equal(old, parts) }) {
			return &newKeyError{k.Name, k.Parts}
		}
		if err := sameEqualities(m, source, &k); err != nil {
			return err
		}
	}
	if !identified {
		return fmt.Errorf("no unique key of the new definition has all columns of one of the old definition that are never NULL, such as (%s): rows could not be followed", strings.Join(keyNames(source), ", "))
	}
	return nil
}

func keyNames(t *rowstream.Table) (names []string) {
	for _, k := range t.Key {
		names = append(names, t.Columns[k].Name)
	}
	return names
}

func containsAll(parts, old []string) bool {
	return !slices.ContainsFunc(old, func(part string) bool { return !slices.Contains(parts, part) })
}

// neverNull reports whether the parts of a key are whole columns of the source, by the target's names in lower case, that are never NULL.
func neverNull(m *tabledef.Mapping, source *rowstream.Table, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool {
		return !slices.ContainsFunc(m.Columns, func(c tabledef.MappedColumn) bool {
			n := tabledef.ColumnNumber(source, c.From)
			return n >= 0 && strings.ToLower(session.Ident(c.Column.Name)) == part && !source.Columns[n].Nullable
		})
	})
}

// sameEqualities returns an error if values of the columns of a unique key are equal by other rules than in the source.
func sameEqualities(m *tabledef.Mapping, source *rowstream.Table, k *createtable.Key) error {
	for i := range m.Columns {
		c := &m.Columns[i]
		n := tabledef.ColumnNumber(source, c.From)
		if n < 0 || !slices.ContainsFunc(k.Parts, func(part string) bool {
			return strings.Contains(strings.ToLower(part), strings.ToLower(session.Ident(c.Column.Name)))
		}) {
			continue
		}
		if !sameEquality(&source.Columns[n], &c.Column) {
			return fmt.Errorf("column %s is of the unique key %s, and its values would be equal by other rules as %s %s", c.Column.Name, k.Name, c.Column.FullType, c.Column.Collation)
		}
	}
	return nil
}

// uniqueKeys returns the parts of the source's unique keys, in lower case and without directions, by the names that the columns have in the
// target.
func uniqueKeys(m *tabledef.Mapping, source *rowstream.Table) (all [][]string) {
	for _, k := range createtable.Keys(source.Create) {
		if k.Kind != "PRIMARY KEY" && k.Kind != "UNIQUE KEY" {
			continue
		}
		parts := make([]string, len(k.Parts))
		for i, part := range k.Parts {
			parts[i] = mappedPart(m, strings.ToLower(strings.TrimSuffix(part, " DESC")))
		}
		all = append(all, parts)
	}
	return all
}

// mappedPart returns a part of a key, in lower case, by the name that its column has in the target.
func mappedPart(m *tabledef.Mapping, part string) string {
	for _, c := range m.Columns {
		if rest, ok := strings.CutPrefix(part, strings.ToLower(session.Ident(c.From))); ok && c.From != "" {
			return strings.ToLower(session.Ident(c.Column.Name)) + rest
		}
	}
	return part
}

var integerType = regexp.MustCompile(`^(tiny|small|medium|big)?int$`)

// sameEquality reports whether two values of a column are equal if, and only if, they are after the conversion.
func sameEquality(from, to *rowstream.Column) bool {
	switch {
	case integerType.MatchString(from.Type) && integerType.MatchString(to.Type):
		return true
	case from.Collation != "" && to.Collation != "":
		return from.Collation == to.Collation || sameWeights(from.Collation, to.Collation)
	}
	return from.Type == to.Type && from.FullType == to.FullType
}

// sameWeights reports whether a collation of utf8mb4 compares the characters of utf8mb3 as one of that does.
func sameWeights(from, to string) bool {
	for _, prefix := range []string{"utf8mb3_", "utf8_"} {
		if rules, ok := strings.CutPrefix(from, prefix); ok {
			return to == "utf8mb4_"+rules && slices.Contains([]string{"general_ci", "unicode_ci", "unicode_520_ci", "bin"}, rules)
		}
	}
	return false
}

// inUTC reports whether the server's time zone is UTC.
func inUTC(ctx context.Context, c *mysqlconn.Client) (bool, error) {
	zone, err := session.QueryValue(ctx, c, "SELECT IF(@@GLOBAL.time_zone = 'SYSTEM', @@system_time_zone, @@GLOBAL.time_zone)")
	return zone == "UTC" || zone == "+00:00" || zone == "Etc/UTC", err
}

// tableCharset is the default character set in the text of SHOW CREATE TABLE.
var tableCharset = regexp.MustCompile(`(?m)^\) .*?(DEFAULT CHARSET=\w+(?: COLLATE=\w+)?)`)

// A defaulter finds out which value rows get in an added column: the server adds it to a table of one row.
type defaulter struct {
	c      *mysqlconn.Client
	target *rowstream.Table
	name   string // of the table of one row, quoted for SQL
}

// value returns the value in the form of ReadExpr.
func (d *defaulter) value(ctx context.Context, column *rowstream.Column) (value []byte, err error) {
	line := ""
	for _, l := range sqldigest.Lines(d.target.Create, 0) {
		if l = strings.TrimPrefix(l, "  "); strings.HasPrefix(l, session.Ident(column.Name)+" ") {
			line = strings.TrimSuffix(l, ",")
		}
	}
	if line == "" {
		return nil, errors.New("its definition cannot be parsed")
	}
	if !constantDefault(line) {
		return nil, errors.New("its default is an expression, which may have another value for each row")
	}
	charset := ""
	if m := tableCharset.FindStringSubmatch(d.target.Create); m != nil {
		charset = " " + m[1]
	}
	for _, sql := range []string{
		"DROP TABLE IF EXISTS " + d.name, "CREATE TABLE " + d.name + " (tare_row INT PRIMARY KEY) ENGINE=InnoDB" + charset, "INSERT INTO " + d.name + " VALUES (1)",
		"ALTER TABLE " + d.name + " ADD COLUMN " + line,
	} {
		if _, err := d.c.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	if err := session.Set(ctx, d.c, session.Usual(d.c, "sql_mode", "time_zone")...); err != nil { // such as rows are read by
		return nil, err
	}
	_, err = d.c.Query(ctx, "SELECT "+column.ReadExpr()+" FROM "+d.name, func(row mysqlwire.TextRow) error {
		value = slices.Clone(row[0])
		if row[0] != nil && value == nil {
			value = []byte{}
		}
		return nil
	})
	if other := session.Set(ctx, d.c, serversOwn("sql_mode"), serversOwn("time_zone")); err == nil {
		err = other
	}
	if _, other := d.c.Exec(ctx, "DROP TABLE "+d.name); err == nil {
		err = other
	}
	return value, err
}

// constantDefault reports whether the line of a column has a default that is the same for all rows of an ALTER TABLE, or none.
func constantDefault(line string) bool {
	for from, to := range sqldigest.Plain(line, 0) {
		if i := strings.Index(line[from:to], " DEFAULT "); i >= 0 {
			word := strings.ToLower(line[from+i+len(" DEFAULT "):])
			return word == "" || word[0] == '\'' || word[0] == '-' || word[0] >= '0' && word[0] <= '9' || strings.HasPrefix(word, "null") || strings.HasPrefix(word, "b'") ||
				strings.HasPrefix(word, "x'") || word[0] == '_' || strings.HasPrefix(word, "current_timestamp")
		}
	}
	return true
}

// sourcePart returns a part of a key of the target as an expression over the source; empty: it is none of a column of it.
func sourcePart(m *tabledef.Mapping, part string) string {
	part = strings.TrimSuffix(part, " DESC")
	for _, c := range m.Columns {
		rest, ok := strings.CutPrefix(strings.ToLower(part), strings.ToLower(session.Ident(c.Column.Name)))
		switch {
		case !ok || c.From == "":
		case rest == "":
			return session.Ident(c.From)
		case strings.HasPrefix(rest, "("):
			return "LEFT(" + session.Ident(c.From) + ", " + strings.Trim(rest, "()") + ")"
		}
	}
	return ""
}
