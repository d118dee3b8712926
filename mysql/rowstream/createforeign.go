package rowstream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/sqldigest"
)

// A ForeignKey is a foreign key in the text of SHOW CREATE TABLE.
type ForeignKey struct {
	Name          string
	Columns       []string
	Schema, Table string   // the referenced table; an empty Schema is that of the key's table
	Referred      []string // the referenced columns
	OnDelete      string   // CASCADE, SET NULL, …; empty if the server does not print it: NO ACTION or RESTRICT
	OnUpdate      string
}

// Acts reports whether the key changes rows of its table when referenced rows are changed or deleted, instead
// of refusing that.
func (k *ForeignKey) Acts() bool {
	restricts := func(action string) bool { return action == "" || action == "RESTRICT" || action == "NO ACTION" }
	return !restricts(k.OnDelete) || !restricts(k.OnUpdate)
}

// Definition returns the key as a part of ALTER TABLE … ADD. referred is the name of the referenced table in
// SQL.
func (k *ForeignKey) Definition(referred string) string {
	sql := "CONSTRAINT " + session.Ident(k.Name) + " FOREIGN KEY (" + session.Idents(k.Columns) + ") REFERENCES " + referred + " (" + session.Idents(k.Referred) + ")"
	if k.OnDelete != "" {
		sql += " ON DELETE " + k.OnDelete
	}
	if k.OnUpdate != "" {
		sql += " ON UPDATE " + k.OnUpdate
	}
	return sql
}

// CreateForeignKeys returns the foreign keys in the text of SHOW CREATE TABLE, and the text without them. A
// line that cannot be parsed is an error.
func CreateForeignKeys(create string) (keys []ForeignKey, without string, err error) {
	lines := sqldigest.Lines(create, 0)
	kept := make([]string, 0, len(lines))
	for _, line := range lines {
		k, ok, err := parseForeignKey(line)
		if err != nil {
			return nil, "", err
		}
		if ok {
			keys = append(keys, k)
		} else {
			kept = append(kept, line)
		}
	}
	if end := slices.IndexFunc(kept, func(line string) bool { return strings.HasPrefix(line, ")") }); end > 0 && len(keys) > 0 {
		kept[end-1] = strings.TrimSuffix(kept[end-1], ",")
	}
	return keys, strings.Join(kept, "\n"), nil
}

// parseForeignKey parses a line of SHOW CREATE TABLE; ok is false for a line of another kind.
func parseForeignKey(line string) (k ForeignKey, ok bool, err error) {
	rest, isConstraint := strings.CutPrefix(line, "  CONSTRAINT `")
	if !isConstraint {
		if rest, ok = strings.CutPrefix(line, "  FOREIGN KEY "); ok {
			err = fmt.Errorf("parse a foreign key: it has no name: %.200q", rest)
		}
		return k, false, err
	}
	unknown := fmt.Errorf("parse a foreign key: its definition has an unknown form: %.200q", line)
	if k.Name, rest, ok = cutIdent("`" + rest); !ok {
		return k, false, unknown
	}
	if rest, ok = strings.CutPrefix(rest, " FOREIGN KEY "); !ok {
		return k, false, nil // a CHECK constraint
	}
	if k.Columns, rest, ok = cutIdents(rest); !ok {
		return k, false, unknown
	}
	if rest, ok = strings.CutPrefix(rest, " REFERENCES "); !ok {
		return k, false, unknown
	}
	if k.Table, rest, ok = cutIdent(rest); !ok {
		return k, false, unknown
	}
	if after, qualified := strings.CutPrefix(rest, "."); qualified {
		k.Schema = k.Table
		if k.Table, rest, ok = cutIdent(after); !ok {
			return k, false, unknown
		}
	}
	if k.Referred, rest, ok = cutIdents(strings.TrimPrefix(rest, " ")); !ok || len(k.Referred) != len(k.Columns) {
		return k, false, unknown
	}
	rest = strings.TrimSuffix(rest, ",")
	for _, part := range []struct {
		intro  string
		action *string
	}{{" ON DELETE ", &k.OnDelete}, {" ON UPDATE ", &k.OnUpdate}} {
		after, stated := strings.CutPrefix(rest, part.intro)
		if !stated {
			continue
		}
		known := []string{"CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION", "RESTRICT"}
		i := slices.IndexFunc(known, func(action string) bool { return strings.HasPrefix(after, action) })
		if i < 0 {
			return k, false, unknown
		}
		*part.action, rest = known[i], after[len(known[i]):]
	}
	if rest != "" {
		return k, false, unknown
	}
	return k, true, nil
}

// cutIdent cuts a quoted name from the start of s.
func cutIdent(s string) (name, rest string, ok bool) {
	if !strings.HasPrefix(s, "`") {
		return "", s, false
	}
	n := sqldigest.Quoted(s, 0)
	if n < 3 || s[n-1] != '`' {
		return "", s, false
	}
	return sqldigest.Unquote(s[:n]), s[n:], true
}

// cutIdents cuts a list of quoted names in parentheses from the start of s.
func cutIdents(s string) (names []string, rest string, ok bool) {
	rest, ok = strings.CutPrefix(s, "(")
	for ok {
		var name string
		if name, rest, ok = cutIdent(strings.TrimPrefix(rest, " ")); !ok {
			break
		}
		names = append(names, name)
		if after, end := strings.CutPrefix(rest, ")"); end {
			return names, after, true
		}
		rest, ok = strings.CutPrefix(rest, ",")
	}
	return nil, s, false
}
