package accounts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/visible"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Plan is the accounts that are copied, with their privileges on the schemas of an inventory.
type Plan struct {
	schemas  []string
	objects  map[level]bool // those that are copied, without columns
	tables   map[level]bool // those of them that exist before others are created
	patterns []string       // accounts that are excluded
	existing []string       // accounts of the target that get privileges although their definitions differ
	accounts []*planned
	digests  map[Name][sha256.Size]byte // of the source's accounts
	literal  bool                       // names of schemas in grants of the target are no patterns
	vendor   dialect.Vendor             // of the target
	granted  int                        // statements of this run
}

// A planned account is one that is copied, in the form of the target.
type planned struct {
	name       Name
	source     Name
	definition definition
	grants     map[level]privileges // whose schemas are names
	roles      map[Name]bool        // with the admin option
	defaults   []Name

	exists  bool // in the target, before this copy
	same    bool // exists with the same definition
	created bool // by this run
	object  inventory.Object
}

func (p *planned) needsHand(format string, args ...any) {
	why := visible.Line(fmt.Sprintf(format, args...))
	if p.object.Fate == inventory.NeedsHand {
		why = p.object.Why + "; " + why
	}
	p.object.Fate, p.object.Why = inventory.NeedsHand, why
}

func (p *planned) note(text string) {
	text = visible.Line(text)
	if p.object.Note != "" {
		text = p.object.Note + "; " + text
	}
	p.object.Note = text
}

// New reads the accounts with privileges on the whole schemas of a selection, and judges what becomes of them in the target. It changes nothing.
func New(ctx context.Context, source session.Querier, to *mysqlconn.Client, inv *inventory.Inventory, sel *inventory.Selection) (*Plan, error) {
	from, err := readServer(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("at the source: %w", err)
	}
	there, err := readServer(ctx, querier{to})
	if err != nil {
		return nil, fmt.Errorf("in the target: %w", err)
	}
	p := &Plan{schemas: sel.Schemas, patterns: sel.ExcludeUsers, existing: sel.GrantExisting, objects: make(map[level]bool), tables: make(map[level]bool), literal: there.literal, vendor: there.vendor}
	for _, o := range inv.Objects {
		if o.Fate != inventory.LeftOut {
			p.objects[objectLevel(o)] = true
			p.tables[objectLevel(o)] = o.Kind == inventory.Table || o.Kind == inventory.Sequence
		}
	}
	p.digests = p.digest(from)
	p.plan(from, there)
	if err := errors.Join(p.checkPatterns("option exclude-users", p.patterns), p.checkPatterns("option grant-existing", p.existing)); err != nil {
		return nil, err
	}
	if err := p.mayCreate(ctx, to, there); err != nil {
		return nil, err
	}
	return p, nil
}

// querier queries over a connection.
type querier struct{ c *mysqlconn.Client }

func (q querier) Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	_, err := q.c.Query(ctx, sql, each)
	return err
}

// objectLevel returns the level on which privileges on an object are granted: tables, views and sequences are alike.
func objectLevel(o *inventory.Object) level {
	l := level{kind: o.Kind, schema: o.Schema, name: o.Name}
	if o.Kind == inventory.View || o.Kind == inventory.Sequence {
		l.kind = inventory.Table
	}
	if o.Kind == inventory.Function || o.Kind == inventory.Procedure {
		l.name = strings.ToLower(l.name)
	}
	return l
}

// whole returns the level of the object that a level is a part of.
func (l level) whole() level {
	l.column = ""
	return l
}

// on reports whether a level is a schema, a pattern that matches it, or an object of it.
func (l level) on(schema string, literal bool) bool {
	if l.kind == inventory.Schema && !literal {
		return inventory.GrantMatches(l.schema, schema)
	}
	return l.schema == schema
}

// plan fills in the accounts.
func (p *Plan) plan(from, to *server) {
	chosen := p.selected(from)
	others := p.unselected(from, chosen)
	there := make(map[Name]Name)
	for _, n := range slices.Concat(sorted(chosen), sorted(others)) {
		a := p.account(from, to, n, others[n])
		p.accounts = append(p.accounts, a)
		if a.object.Fate == inventory.LeftOut {
			continue
		}
		if other, taken := there[a.name]; taken {
			a.needsHand("it would be the same account in the target as %s; exclude one of them by option exclude-users", other)
		}
		there[a.name] = n
	}
	carried := make(map[Name]*planned)
	for _, a := range p.accounts {
		if a.object.Fate != inventory.LeftOut {
			carried[a.source] = a
		}
	}
	for _, a := range p.accounts {
		if a.object.Fate != inventory.LeftOut {
			a.addRoles(from, to, carried)
			a.compareRoles(from, to)
			p.compare(a, from, to)
		}
	}
	for _, a := range p.accounts {
		if a.object.Fate != inventory.LeftOut {
			p.judgeRoles(a, to)
		}
	}
}

// account plans one account without its roles. Why is not empty if it is left out.
func (p *Plan) account(from, to *server, n Name, why string) *planned {
	a := &planned{source: n, name: from.nameIn(to, n), grants: make(map[level]privileges), roles: make(map[Name]bool)}
	a.object = inventory.Object{Kind: inventory.Account, Name: n.String(), Fate: inventory.Copied}
	if reserved := p.reserved(from, n); reserved != "" {
		why = reserved
	}
	if why != "" {
		a.object.Fate, a.object.Why = inventory.LeftOut, visible.Line(why)
		return a
	}
	here := from.accounts[n]
	a.define(here, from, to)
	for _, schema := range p.schemas {
		a.schemaGrants(from, schema)
	}
	p.objectGrants(a, from)
	a.translate(from, to)
	p.listOthers(a, from)
	return a
}

// nameIn returns the name that an account has in the target, where roles may have another host.
func (s *server) nameIn(to *server, n Name) Name {
	if a := s.accounts[n]; a != nil && a.role && s.vendor != to.vendor {
		n.Host = map[dialect.Vendor]string{dialect.MySQL: "%"}[to.vendor]
	}
	return n
}

// define sets the definition in the target.
func (p *planned) define(here *account, from, to *server) {
	_, exists := to.accounts[p.name]
	for _, problem := range here.problems {
		if !exists {
			p.needsHand("%s", problem)
		}
	}
	if trimmed := p.name.trimmed(); to.vendor == dialect.MySQL && trimmed != p.name {
		p.needsHand("MySQL removes white space around names of accounts, and would create %s: exclude it by option exclude-users, and create it with another name", trimmed)
	}
	if len(here.methods) == 0 && !here.role {
		return
	}
	there, left, why := here.inTarget(from, to)
	p.definition = there
	switch {
	case exists:
	case why != "":
		p.needsHand("%s", why)
	case there.expired && there.lifetime != "":
		p.needsHand("its password has expired and has a lifetime, which one statement cannot create; %s", byHand)
	case from.vendor != to.vendor && !hostUnderstood(p.name.Host):
		p.needsHand("its host is an address with the length of a prefix, which MySQL alone has: create it on the source with a netmask")
	case to.vendor == dialect.MySQL && len([]rune(p.name.User)) > 32:
		p.needsHand("MySQL's names of accounts have at most 32 characters; exclude it by option exclude-users")
	case len(left) > 0:
		p.note(fmt.Sprintf("%v has no %s", to.vendor, strings.Join(left, ", no ")))
	}
}

// onSchema returns an account's privileges on a schema as a whole. Of several grants whose names match, servers use
// the exact one, or else the most specific one of the patterns, which are returned; why is not empty if these have different privileges.
func (s *server) onSchema(n Name, schema string) (granted privileges, exact bool, levels []level, why string) {
	for l, one := range s.grants[n] {
		switch {
		case l.kind != inventory.Schema || len(one) == 0 || !l.on(schema, s.literal):
		case s.literal || inventory.GrantIsExact(l.schema):
			granted, exact = one, true
		default:
			levels = append(levels, l)
		}
	}
	if exact || len(levels) == 0 {
		return granted, exact, levels, ""
	}
	slices.SortFunc(levels, func(a, b level) int { return strings.Compare(a.schema, b.schema) })
	granted = s.grants[n][levels[0]]
	for _, other := range levels[1:] {
		if !maps.Equal(granted, s.grants[n][other]) {
			why = fmt.Sprintf("its grants on %s and on %s both match the schema %s, with different privileges: GRANT them on the schema itself", levels[0].schema, other.schema, schema)
		}
	}
	return granted, false, levels, why
}

// schemaGrants plans the privileges on a schema.
func (p *planned) schemaGrants(from *server, schema string) {
	granted, exact, patterns, why := from.onSchema(p.source, schema)
	if why != "" {
		p.needsHand("%s", why)
	}
	if len(granted) == 0 {
		return
	}
	p.grants[level{kind: inventory.Schema, schema: schema}] = maps.Clone(granted)
	for _, l := range patterns {
		if exact {
			p.note(fmt.Sprintf("not carried: its grant on the pattern %s, which has no effect on %s beside the one on that schema", l.schema, schema))
		} else if slices.ContainsFunc(from.schemas, func(other string) bool { return other != schema && l.on(other, false) }) {
			p.note(fmt.Sprintf("its grant on the pattern %s, which matches other schemas, too, is made on %s alone", l.schema, schema))
		}
	}
}

// objectGrants plans the privileges on tables, columns and routines.
func (p *Plan) objectGrants(a *planned, from *server) {
	var left []string
	for l, granted := range from.grants[a.source] {
		if l.kind == inventory.Schema || len(granted) == 0 || !slices.Contains(p.schemas, l.schema) {
			continue
		}
		if !p.objects[l.whole()] {
			left = append(left, string(l.kind)+" "+l.schema+"."+l.name)
			continue
		}
		a.grants[l] = maps.Clone(granted)
	}
	if len(left) > 0 {
		slices.Sort(left)
		a.note("not carried, since they are not copied: privileges on " + strings.Join(slices.Compact(left), ", "))
	}
}

// translate replaces privileges by those of the target: all of them by all, and others by the same ones.
func (p *planned) translate(from, to *server) {
	left := make(privileges)
	for l, granted := range p.grants {
		option := granted[grantOption]
		delete(granted, grantOption)
		all := l.column == "" && maps.Equal(granted, from.all[l.kind])
		if all {
			granted = maps.Clone(to.all[l.kind])
		}
		for name := range granted {
			switch {
			case !slices.Contains(known, name):
				p.needsHand("its privilege %s is not understood; exclude it by option exclude-users", name)
			case l.column == "" && !to.all[l.kind][name]:
				left[name] = true
				delete(granted, name)
			}
		}
		if option {
			granted[grantOption] = true
		}
		p.grants[l] = granted
		if len(granted) == 0 {
			delete(p.grants, l)
		}
	}
	if len(left) > 0 {
		p.note("not carried, since the target does not have them: " + strings.Join(slices.Sorted(maps.Keys(left)), ", "))
	}
}

// listOthers notes the privileges that are not carried.
func (p *Plan) listOthers(a *planned, from *server) {
	if global := from.onAll(a.source); len(global) > 0 {
		a.note("not carried: " + strings.Join(global, ", ") + " on *.*")
	}
	others := make(map[string]privileges)
	for l, granted := range from.grants[a.source] {
		if len(granted) == 0 || slices.ContainsFunc(p.schemas, func(schema string) bool { return l.on(schema, from.literal) }) {
			continue
		}
		if others[l.schema] == nil {
			others[l.schema] = make(privileges)
		}
		maps.Copy(others[l.schema], granted)
	}
	for _, schema := range slices.Sorted(maps.Keys(others)) {
		a.note("not carried: in " + schema + " " + strings.Join(slices.Sorted(maps.Keys(others[schema])), ", "))
	}
	for _, other := range from.proxies[a.source] {
		a.note("not carried: PROXY on " + other.String())
	}
}

// addRoles plans the roles that an account holds.
func (p *planned) addRoles(from, to *server, carried map[Name]*planned) {
	var left []string
	for role, admin := range from.held[p.source] {
		r := carried[role]
		if r == nil {
			left = append(left, role.String())
			continue
		}
		if to.vendor == dialect.MariaDB && !r.definition.role {
			p.needsHand("%s is granted to it, which is no role but an account: MariaDB grants roles alone", role)
		}
		p.roles[r.name] = admin
	}
	if len(left) > 0 {
		slices.Sort(left)
		p.note("not carried: the roles " + strings.Join(left, ", "))
	}
	if here := from.accounts[p.source]; here != nil {
		for _, role := range here.defaults {
			if r := carried[role]; r != nil {
				p.defaults = append(p.defaults, r.name)
			}
		}
	}
	if to.vendor == dialect.MariaDB && len(p.defaults) > 1 {
		p.needsHand("it has %d default roles, MariaDB permits one; %s", len(p.defaults), byHand)
	}
}

// String returns the level for people.
func (l level) String() string {
	text := l.schema
	if l.kind != inventory.Schema {
		text += "." + l.name
	}
	if l.column != "" {
		text += "." + l.column
	}
	return text
}

// Objects returns the accounts as objects of an inventory.
func (p *Plan) Objects() (all []*inventory.Object) {
	for _, a := range p.accounts {
		all = append(all, &a.object)
	}
	return all
}

// Definers returns the accounts that are copied, as user@host in lower case; of no plan none.
func (p *Plan) Definers() map[string]bool {
	all := make(map[string]bool)
	if p == nil {
		return all
	}
	for _, a := range p.accounts {
		if a.object.Fate == inventory.Copied {
			all[strings.ToLower(a.name.User+"@"+a.name.Host)] = true
		}
	}
	return all
}
