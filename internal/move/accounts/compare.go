package accounts

import (
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/inventory"
)

// compare compares an account with that of the same name in the target.
func (p *Plan) compare(a *planned, from, to *server) {
	there := to.accounts[a.name]
	isNew := func(other Name) bool { return from.accounts[other] == nil }
	if other, found := to.namesake(a.name, isNew); found && !a.definition.role {
		a.note("the target has " + other.String() + ", too, whose clients may get its privileges on the schemas")
	}
	if there == nil {
		if p.vendor == dialect.MariaDB {
			a.refuseNamesake(to)
		}
		return
	}
	a.exists = true
	if a.definition.role != there.role {
		a.needsHand("the target has an account of that name which is %s; drop it there, or exclude it by option exclude-users", map[bool]string{true: "a role", false: "no role"}[there.role])
		return
	}
	for l := range a.grants {
		if _, _, _, why := to.onSchema(a.name, l.schema); l.kind == inventory.Schema && why != "" {
			a.needsHand("in the target %s", why)
		}
	}
	different := a.definition.differences(&there.definition)
	if len(there.problems) > 0 {
		different = append(different, "attributes that are not understood")
	}
	a.same = len(different) == 0
	a.object.Exists = a.same
	p.judgeExisting(a, from, to, different)
	if extra := p.exceeding(a, to); len(extra) > 0 {
		a.note("has more privileges in the target, which stay: on " + strings.Join(extra, ", "))
	}
	if found := there.defaults; a.same && len(found) > 0 && !sameNames(found, a.defaults) {
		a.note("has other default roles in the target, which stay")
	}
}

// refuseNamesake refuses a role with the name of a user of the target, which MariaDB permits, but clients confuse.
func (p *planned) refuseNamesake(to *server) {
	if other := (Name{p.name.User, "%"}); p.definition.role && to.accounts[other] != nil {
		p.needsHand("the target has an account %s, which is no role: drop it there, or exclude it by option exclude-users", other)
	}
}

// judgeExisting refuses to grant privileges to an account of the target that may belong to other people than the one of the source.
func (p *Plan) judgeExisting(a *planned, from, to *server, different []string) {
	others := p.otherHolders(a, from, to)
	switch {
	case !p.lacks(a, to):
		if len(different) > 0 {
			a.note("exists in the target with another definition (" + strings.Join(different, ", ") + "), which stays")
		}
	case slices.ContainsFunc(p.existing, func(pattern string) bool { return matches(pattern, a.source) }):
		if len(different) > 0 {
			a.note("exists in the target with another definition (" + strings.Join(different, ", ") + "), which stays; missing privileges are granted")
		}
	case len(different) > 0:
		a.needsHand("exists in the target with another definition (%s), and lacks privileges there: if both are the same user, grant them by option grant-existing, else exclude it by option exclude-users",
			strings.Join(different, ", "))
	case len(others) > 0:
		a.needsHand("exists in the target, where %s holds it and would get its privileges, too: grant them by option grant-existing, or exclude it by option exclude-users", strings.Join(others, ", "))
	}
}

// lacks reports whether an account of the target lacks privileges or roles.
func (p *Plan) lacks(a *planned, to *server) bool {
	for l, wanted := range a.grants {
		if !covers(p.has(to, a, l), wanted) {
			return true
		}
	}
	for role, admin := range a.roles {
		if has, held := to.held[a.name][role]; !held || admin && !has {
			return true
		}
	}
	return false
}

// otherHolders returns the accounts that hold a role in the target, and not on the source. That of the copy does not count: it may grant the privileges.
func (p *Plan) otherHolders(a *planned, from, to *server) (texts []string) {
	here, there := map[Name]bool{a.source: true}, map[Name]bool{a.name: true}
	from.addHolders(here)
	to.addHolders(there)
	for n := range here {
		delete(there, from.nameIn(to, n))
	}
	for _, n := range sorted(there) {
		if n != to.me {
			texts = append(texts, n.String())
		}
	}
	return texts
}

// exceeding lists where the account has privileges in the target that it is not planned to have, in the schemas that are copied.
func (p *Plan) exceeding(a *planned, to *server) (texts []string) {
	more := func(l level, granted privileges) {
		for name := range granted {
			if !a.grants[l][name] {
				texts = append(texts, l.String())
				return
			}
		}
	}
	for _, schema := range p.schemas {
		granted, _, _, _ := to.onSchema(a.name, schema)
		more(level{kind: inventory.Schema, schema: schema}, granted)
	}
	for l, granted := range to.grants[a.name] {
		if l.kind != inventory.Schema && slices.Contains(p.schemas, l.schema) {
			more(l, granted)
		}
	}
	slices.Sort(texts)
	return texts
}

// judgeRoles refuses to grant an account a role that has more privileges in the target than it is planned to have: the source, on which
// the account has the role, does not choose these.
func (p *Plan) judgeRoles(a *planned, to *server) {
	for _, r := range p.accounts {
		_, wanted := a.roles[r.name]
		_, has := to.held[a.name][r.name]
		if !wanted || has || slices.ContainsFunc(p.existing, func(pattern string) bool { return matches(pattern, r.source) }) {
			continue
		}
		if more := p.beyond(r.name, to, make(map[Name]bool)); len(more) > 0 {
			a.needsHand("it would get the role %s, which has more privileges in the target: on %s; grant it by option grant-existing, or exclude one of them by option exclude-users",
				r.name, strings.Join(more, ", "))
		}
	}
}

// beyond lists where a role has privileges in the target that it is not planned to have, also by roles that it holds there.
func (p *Plan) beyond(role Name, to *server, seen map[Name]bool) (texts []string) {
	seen[role] = true
	i := slices.IndexFunc(p.accounts, func(a *planned) bool { return a.name == role && a.object.Fate != inventory.LeftOut })
	a := &planned{name: role}
	if i >= 0 {
		a = p.accounts[i]
	}
	if there := to.accounts[role]; len(to.onAll(role)) > 0 || there != nil && there.global {
		texts = append(texts, "*.*")
	}
	for l, granted := range to.grants[role] {
		pattern := l.kind == inventory.Schema && !to.literal && !inventory.GrantIsExact(l.schema)
		if len(granted) > 0 && (pattern || !slices.ContainsFunc(p.schemas, func(schema string) bool { return l.on(schema, to.literal) })) {
			texts = append(texts, l.String())
		}
	}
	texts = append(texts, p.exceeding(a, to)...)
	for other := range to.held[role] {
		if !seen[other] {
			texts = append(texts, p.beyond(other, to, seen)...)
		}
	}
	for _, other := range to.proxies[role] {
		texts = append(texts, "PROXY of "+other.String())
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// differences names the parts in which two definitions differ, without their values.
func (d *definition) differences(other *definition) (parts []string) {
	if d.role && other.role {
		return nil
	}
	a, b := d.terms, other.terms
	for _, part := range []struct {
		name string
		same bool
	}{
		{"role", d.role == other.role},
		{"authentication", slices.Equal(d.methods, other.methods)},
		{"REQUIRE", a.require == b.require},
		{"limits", a.limits == b.limits},
		{"expiry", a.expired == b.expired && a.lifetime == b.lifetime},
		{"lock", a.locked == b.locked},
		{"rules for passwords", a.history == b.history && a.reuse == b.reuse && a.current == b.current && a.failed == b.failed && a.lockDays == b.lockDays},
		{"comment or attribute", a.attribute == b.attribute},
	} {
		if !part.same {
			parts = append(parts, part.name)
		}
	}
	return parts
}

func sameNames(a, b []Name) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(n Name) bool { return !slices.Contains(b, n) })
}

// hostUnderstood reports whether both vendors read the host of an account in the same way: only MySQL has CIDR.
func hostUnderstood(host string) bool {
	_, mask, found := strings.Cut(host, "/")
	return !found || strings.Contains(mask, ".")
}

// compareRoles notes the settings of the source by which roles are active without a default.
func (p *planned) compareRoles(from, to *server) {
	if from.mandatory[p.source] && !to.mandatory[p.name] {
		p.note("every account of the source has it by mandatory_roles: set that in the target, too")
	}
	if from.activateAll && !to.activateAll && len(p.roles) > 0 {
		p.note("the source activates all of its roles at login by activate_all_roles_on_login, the target does not")
	}
}
