package accounts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/inventory"
)

// matches reports whether a pattern of --exclude-users or --grant-existing matches an account.
func matches(pattern string, n Name) bool {
	text := n.User
	if strings.Contains(pattern, "@") {
		text += "@" + n.Host
	}
	return inventory.Pattern{Schema: "*", Name: pattern}.Match("", text)
}

// checkPatterns fails if a pattern matches no account.
func (p *Plan) checkPatterns(option string, patterns []string) error {
	for _, pattern := range patterns {
		if !slices.ContainsFunc(p.accounts, func(a *planned) bool { return matches(pattern, a.source) }) {
			return fmt.Errorf("%s %s matches no account with privileges on the schemas", option, pattern)
		}
	}
	return nil
}

// selected returns the accounts that have privileges on the schemas, and those that hold them as roles.
func (p *Plan) selected(from *server) map[Name]bool {
	chosen := make(map[Name]bool)
	for a, levels := range from.grants {
		for l, granted := range levels {
			if len(granted) > 0 && slices.ContainsFunc(p.schemas, func(schema string) bool { return l.on(schema, from.literal) }) {
				chosen[a] = true
			}
		}
	}
	from.addHolders(chosen)
	return chosen
}

// addHolders adds the accounts that hold those of a set as roles, also by other roles.
func (s *server) addHolders(chosen map[Name]bool) {
	for grown := true; grown; {
		grown = false
		for holder, roles := range s.held {
			for role := range roles {
				if chosen[role] && !chosen[holder] {
					chosen[holder], grown = true, true
				}
			}
		}
	}
}

// unselected returns the accounts that may use the schemas by privileges that are not copied, and why they are left out.
func (p *Plan) unselected(from *server, chosen map[Name]bool) map[Name]string {
	all, global := make(map[Name]string), make(map[Name]bool)
	for n := range from.accounts {
		names := slices.DeleteFunc(slices.Clone(from.onAll(n)), func(name string) bool { return !slices.Contains(known, name) })
		if len(names) == 0 {
			continue
		}
		global[n] = true
		if len(names) >= len(from.all[inventory.Schema]) {
			names = []string{"ALL PRIVILEGES"}
		}
		all[n] = "it has " + strings.Join(names, ", ") + " on *.*, which is not copied: create it in the target by hand, or GRANT the privileges on the schemas to it on the source"
	}
	from.addHolders(global)
	for n := range global {
		if all[n] == "" {
			all[n] = "it holds roles with privileges on all schemas alone, which are not copied"
		}
	}
	for n, others := range from.proxies {
		for _, other := range others {
			if chosen[other] && all[n] == "" {
				all[n] = "it may act as " + other.String() + ", and PROXY is not copied"
			}
		}
	}
	for n, a := range from.accounts {
		if other, found := from.namesake(n, func(other Name) bool { return chosen[other] }); found && !a.role && all[n] == "" {
			all[n] = "it has no privileges on the schemas, but its clients have those of " + other.String() + ": create it in the target by hand if they are to log in as they do on the source"
		}
	}
	maps.DeleteFunc(all, func(n Name, _ string) bool { return chosen[n] })
	return all
}

// namesake returns the first account that has the name of another one for other hosts and satisfies a condition. Servers check the
// privileges on schemas by the name of the user and the host of the client, and not by the account.
func (s *server) namesake(n Name, is func(Name) bool) (other Name, found bool) {
	for _, other := range sorted(s.accounts) {
		if other.User == n.User && other.Host != n.Host && !s.accounts[other].role && is(other) {
			return other, true
		}
	}
	return Name{}, false
}

// onAll returns the privileges of an account on all schemas.
func (s *server) onAll(n Name) []string {
	if n.Host == "" {
		return s.global[n.String()+"@''"]
	}
	return s.global[n.String()]
}

// reserved returns why an account is left out in any case.
func (p *Plan) reserved(from *server, n Name) string {
	switch {
	case slices.Contains([]string{"mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys"}, n.User):
		return "the server's own account"
	case n.User == "root":
		return "an administrator of the server"
	case n == from.me:
		return "the source's account, which the target does not need; if clients use it, too, use another one for the copy"
	case n == (Name{"PUBLIC", ""}) && from.vendor == dialect.MariaDB:
		return "its privileges are those of every account of the server: GRANT … TO PUBLIC in the target if they are meant to be there, too"
	case from.accounts[n] == nil:
		return "it has privileges, but does not exist"
	}
	for _, pattern := range p.patterns {
		if matches(pattern, n) {
			return "excluded by option exclude-users " + pattern
		}
	}
	return ""
}

func sorted[V any](names map[Name]V) []Name {
	return slices.SortedFunc(maps.Keys(names), func(a, b Name) int { return cmp.Or(strings.Compare(a.User, b.User), strings.Compare(a.Host, b.Host)) })
}
