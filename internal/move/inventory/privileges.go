package inventory

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// grants are the privileges of an account on whole schemas.
type grants struct {
	vendor  dialect.Vendor
	granted []grant
	revoked []grant // MySQL's partial revokes
}

// A grant is privileges on one level.
type grant struct {
	privileges []string
	on         string // *.*, `schema`.* or `schema`.`table`
	option     bool   // they may be granted to others
}

// grantLine is a line of SHOW GRANTS.
var grantLine = regexp.MustCompile(`^(GRANT|REVOKE) (.+?) ON (?:TABLE )?(\*\.\*|(?:` + "`(?:[^`]|``)*`" + `)\.(?:\*|` + "`(?:[^`]|``)*`" + `)) (?:TO|FROM) `)

// readGrants reads the privileges of the account, those of its active roles included.
func readGrants(ctx context.Context, q session.Querier, vendor dialect.Vendor) (*grants, error) {
	sql := "SHOW GRANTS"
	if vendor == dialect.MySQL {
		roles := ""
		if err := q.Query(ctx, "SELECT CURRENT_ROLE()", func(row mysqlwire.TextRow) error {
			roles = string(row[0])
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read the account's roles: %w", err)
		}
		if roles != "" && roles != "NONE" {
			sql = "SHOW GRANTS FOR CURRENT_USER() USING " + roles
		}
	}
	g := &grants{vendor: vendor}
	if err := q.Query(ctx, sql, func(row mysqlwire.TextRow) error {
		g.add(string(row[0]))
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the account's privileges: %w", err)
	}
	return g, nil
}

func (g *grants) add(line string) {
	m := grantLine.FindStringSubmatch(line)
	if m == nil {
		return // roles, routines, proxies
	}
	privileges := strings.Split(m[2], ",") // MySQL's dynamic ones have no space between them
	for i := range privileges {
		privileges[i] = strings.TrimSpace(privileges[i])
	}
	one := grant{privileges: privileges, on: m[3], option: strings.HasSuffix(line, " WITH GRANT OPTION")}
	if m[1] == "REVOKE" {
		g.revoked = append(g.revoked, one)
	} else {
		g.granted = append(g.granted, one)
	}
}

// covers reports whether a level covers all objects of a schema. Names of schemas in grants are patterns.
func (g grant) covers(schema string) bool {
	if g.on == "*.*" {
		return true
	}
	name, ok := strings.CutSuffix(g.on, ".*")
	return ok && likeMatches(strings.ReplaceAll(strings.Trim(name, "`"), "``", "`"), schema)
}

// likeMatches matches a name with a pattern of LIKE.
func likeMatches(pattern, name string) bool {
	var b strings.Builder
	b.WriteString("(?s)^")
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case c == '%':
			b.WriteString(".*")
		case c == '_':
			b.WriteString(".")
		case c < 0x80:
			b.WriteString(regexp.QuoteMeta(string(c)))
		default:
			b.WriteByte(c)
		}
	}
	matched, err := regexp.MatchString(b.String()+"$", name)
	return err == nil && matched
}

// has reports whether the account has one of the privileges on a whole schema. Of its grants on names of schemas, servers use the most
// specific one alone: the exact name, or else one of the patterns, of which all must have the privilege here.
func (g *grants) has(schema string, privileges ...string) bool {
	gives := func(one grant) bool {
		return slices.ContainsFunc(one.privileges, func(p string) bool { return p == "ALL PRIVILEGES" || slices.Contains(privileges, p) })
	}
	if slices.ContainsFunc(g.revoked, func(one grant) bool { return one.covers(schema) && gives(one) }) {
		return false
	}
	var exact, patterns []grant
	for _, one := range g.granted {
		switch {
		case one.on == "*.*" && gives(one):
			return true
		case one.on == "*.*" || !one.covers(schema):
		case one.exact():
			exact = append(exact, one)
		default:
			patterns = append(patterns, one)
		}
	}
	if len(exact) > 0 {
		return slices.ContainsFunc(exact, gives)
	}
	return len(patterns) > 0 && !slices.ContainsFunc(patterns, func(one grant) bool { return !gives(one) })
}

// exact reports whether a level is one schema.
func (g grant) exact() bool { return GrantIsExact(g.on) }

// GrantMatches reports whether the name of a schema in a grant, which is a pattern, matches a schema.
func GrantMatches(pattern, schema string) bool { return likeMatches(pattern, schema) }

// GrantIsExact reports whether the name of a schema in a grant has no wildcards.
func GrantIsExact(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '%', '_':
			return false
		}
	}
	return true
}

// hasOn reports whether the account has a privilege on exactly a level, such as `mysql`.`proc`.
func (g *grants) hasOn(level, privilege string) bool {
	return slices.ContainsFunc(g.granted, func(one grant) bool {
		return one.on == level && (slices.Contains(one.privileges, privilege) || slices.Contains(one.privileges, "ALL PRIVILEGES"))
	})
}

// global reports whether the account has a privilege on all schemas.
func (g *grants) global(privilege string) bool { return g.hasOn("*.*", privilege) }

// Privileges are those of an account, its active roles included.
type Privileges struct{ all *grants }

// ReadPrivileges reads the privileges of the account of a connection.
func ReadPrivileges(ctx context.Context, q session.Querier, vendor dialect.Vendor) (Privileges, error) {
	all, err := readGrants(ctx, q, vendor)
	return Privileges{all}, err
}

// Global reports whether the account has a privilege on all schemas.
func (p Privileges) Global(privilege string) bool { return p.all.global(privilege) }

// Has reports whether the account has a privilege on a whole schema.
func (p Privileges) Has(schema, privilege string) bool { return p.all.has(schema, privilege) }

// MayGrant reports whether the account has a privilege on a whole schema and may grant it.
func (p Privileges) MayGrant(schema, privilege string) bool {
	if slices.ContainsFunc(p.all.revoked, func(one grant) bool { return one.covers(schema) && slices.Contains(one.privileges, privilege) }) {
		return false
	}
	return slices.ContainsFunc(p.all.granted, func(one grant) bool {
		return one.option && one.covers(schema) && (privilege == "GRANT OPTION" || slices.Contains(one.privileges, "ALL PRIVILEGES") || slices.Contains(one.privileges, privilege))
	})
}

// lacks returns the privilege by which the account would see all objects of a kind in a schema, with their definitions; empty:
// it does.
func (g *grants) lacks(k Kind, schema string) string {
	need := ""
	switch k {
	case Table, Sequence:
		need = "SELECT"
	case View:
		if !g.has(schema, "SELECT") {
			return "SELECT"
		}
		need = "SHOW VIEW"
	case Trigger:
		need = "TRIGGER"
	case Event:
		need = "EVENT"
	case Function, Procedure, Package, Library:
		if g.vendor == dialect.MySQL {
			if g.global("SHOW_ROUTINE") || g.global("SELECT") {
				return ""
			}
			return "SHOW_ROUTINE (on *.*)"
		}
		if g.hasOn("`mysql`.`proc`", "SELECT") || g.has("mysql", "SELECT") || g.has(schema, "SHOW CREATE ROUTINE") {
			return ""
		}
		return "SELECT on mysql.proc"
	default:
		return ""
	}
	if g.has(schema, need) {
		return ""
	}
	return need
}

// absent reports whether a server refused a statement since it has no such table.
func absent(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && (refused.Number == 1146 || refused.Number == 1109)
}
