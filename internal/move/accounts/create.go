package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Report says what a copy did about accounts.
type Report struct {
	Accounts int      `json:"accounts"` // that are copied
	Created  int      `json:"created"`  // by this run
	Granted  int      `json:"granted"`  // statements GRANT of this run
	Notes    []string `json:"notes"`    // what was not carried, or is different
}

// A Creator creates accounts in the target.
type Creator struct {
	Conn *mysqlconn.Client

	// Check fails unless the run may still write to the target. It is called before each statement.
	Check func(ctx context.Context) error

	// Created is called for each account that was created.
	Created func(text string)

	there *server // the target before the first Grant
}

// mayCreate fails if the account of the target lacks a privilege that the plan requires.
func (p *Plan) mayCreate(ctx context.Context, to *mysqlconn.Client, there *server) error {
	held, err := inventory.ReadPrivileges(ctx, querier{to}, there.vendor)
	if err != nil {
		return fmt.Errorf("in the target: %w", err)
	}
	n := needs{there: there, held: held, lacking: make(map[string]privileges), roles: make(privileges)}
	for _, a := range p.copied() {
		n.account(a, p.lacks(a, there))
		for l, wanted := range a.grants {
			n.grants(l, wanted, p.has(there, a, l))
		}
		n.rolesOf(a)
	}
	texts := n.texts()
	if len(texts) == 0 {
		return nil
	}
	return fmt.Errorf("option users: the target's account may not create all accounts and privileges: it lacks %s; grant them, or copy without option users", strings.Join(texts, "; "))
}

// needs collects the privileges that the target's account requires for a plan and lacks.
type needs struct {
	there   *server
	held    inventory.Privileges
	lacking map[string]privileges // by the object that they are on
	roles   privileges            // roles that it does not administer
}

func (n *needs) lack(name, on string) {
	if n.lacking[on] == nil {
		n.lacking[on] = make(privileges)
	}
	n.lacking[on][name] = true
}

// account adds the privileges to create an account, or to change one that exists and lacks privileges of the plan.
func (n *needs) account(a *planned, lacks bool) {
	if !a.exists && !n.held.Global("CREATE USER") {
		n.lack("CREATE USER", "*.*")
	}
	if a.exists && lacks && slices.Contains(n.there.global[a.name.String()], "SYSTEM_USER") && !n.held.Global("SYSTEM_USER") {
		n.lack("SYSTEM_USER", "*.*")
	}
}

// grants adds the privileges to grant those of a level that an account has not yet.
func (n *needs) grants(l level, wanted, has privileges) {
	for name := range wanted {
		if !has[name] && !n.held.MayGrant(l.schema, name) {
			n.lack(name, session.Ident(l.schema)+".* WITH GRANT OPTION")
		}
	}
}

// rolesOf adds the privileges to grant an account its roles and to set its default ones.
func (n *needs) rolesOf(a *planned) {
	administers := n.there.held[n.there.me]
	for role := range a.roles {
		if _, has := n.there.held[a.name][role]; has {
			continue
		}
		if n.there.vendor == dialect.MariaDB && n.there.accounts[role] != nil && !administers[role] { // it administers those that it creates
			n.roles[role.sql()] = true
		}
		if n.there.vendor == dialect.MySQL && !n.held.Global("ROLE_ADMIN") && !n.held.Global("SUPER") {
			n.lack("ROLE_ADMIN", "*.*")
		}
	}
	if n.there.vendor == dialect.MariaDB && len(a.defaults) > 0 && !n.held.Has("mysql", "UPDATE") {
		n.lack("UPDATE", "`mysql`.*")
	}
}

// texts returns what is lacking in the form of GRANT.
func (n *needs) texts() (texts []string) {
	for _, on := range slices.Sorted(maps.Keys(n.lacking)) {
		texts = append(texts, strings.Join(slices.Sorted(maps.Keys(n.lacking[on])), ", ")+" ON "+on)
	}
	if len(n.roles) > 0 {
		texts = append(texts, strings.Join(slices.Sorted(maps.Keys(n.roles)), ", ")+" WITH ADMIN OPTION")
	}
	return texts
}

// levelIn returns a level as the target stores it.
func (p *Plan) levelIn(l level) level {
	if l.kind == inventory.Schema && !p.literal {
		l.schema = strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`).Replace(l.schema)
	}
	return l
}

// has returns the privileges that an account has on a level of the target.
func (p *Plan) has(there *server, a *planned, l level) privileges {
	if l.kind != inventory.Schema {
		return there.grants[a.name][l]
	}
	granted, _, _, _ := there.onSchema(a.name, l.schema)
	return granted
}

// copied returns the accounts that are copied.
func (p *Plan) copied() (all []*planned) {
	for _, a := range p.accounts {
		if a.object.Fate == inventory.Copied {
			all = append(all, a)
		}
	}
	return all
}

// Create creates the accounts that the target has not, and grants the privileges on schemas and the tables that exist, the roles and the default
// roles that they lack. An account that exists keeps its definition.
func (p *Plan) Create(ctx context.Context, c *Creator) error {
	there, err := p.begin(ctx, c)
	if err != nil {
		return err
	}
	for _, a := range p.copied() {
		if err := p.create(ctx, c, a, there); err != nil {
			return err
		}
	}
	ready := func(l level) bool { return l.kind == inventory.Schema || p.tables[l.whole()] }
	for _, a := range p.copied() {
		if err := p.grantLevels(ctx, c, a, there, ready); err != nil {
			return err
		}
	}
	for _, a := range p.copied() {
		if err := p.grantRoles(ctx, c, a, there); err != nil {
			return err
		}
	}
	for _, a := range p.copied() {
		if err := p.setDefaults(ctx, c, a, there); err != nil {
			return err
		}
	}
	return nil
}

// begin reads the accounts of the target, and prepares the session.
func (p *Plan) begin(ctx context.Context, c *Creator) (there *server, err error) {
	if p.vendor == dialect.MariaDB { // where GRANT would create an account that was dropped meanwhile
		if err := session.Set(ctx, c.Conn, session.Value{Name: "sql_mode", SQL: "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_AUTO_CREATE_USER'"}); err != nil {
			return nil, fmt.Errorf("in the target: %w", err)
		}
	}
	if there, err = readServer(ctx, querier{c.Conn}); err != nil {
		return nil, fmt.Errorf("in the target: %w", err)
	}
	return there, nil
}

// create creates an account that the target has not.
func (p *Plan) create(ctx context.Context, c *Creator, a *planned, there *server) error {
	if there.accounts[a.name] != nil {
		return nil
	}
	if a.exists {
		return fmt.Errorf("create account %s in the target: it existed there at the start, and was dropped since; run the same command again", a.name)
	}
	if err := c.exec(ctx, a, a.definition.create(p.vendor, a.name)); err != nil {
		return err
	}
	a.created = true
	c.Created("account " + a.name.String())
	return nil
}

// Grant grants the privileges on an object that has been created. Views that refer to it may require them of their definers.
func (p *Plan) Grant(ctx context.Context, c *Creator, o *inventory.Object) error {
	on := objectLevel(o)
	if !slices.ContainsFunc(p.copied(), func(a *planned) bool { return a.hasGrants(on) }) {
		return nil
	}
	if c.there == nil { // the privileges on an object are granted once
		var err error
		if c.there, err = p.begin(ctx, c); err != nil {
			return err
		}
	}
	for _, a := range p.copied() {
		if err := p.grantLevels(ctx, c, a, c.there, func(l level) bool { return l.whole() == on }); err != nil {
			return err
		}
	}
	return nil
}

func (p *planned) hasGrants(on level) bool {
	for l := range p.grants {
		if l.whole() == on {
			return true
		}
	}
	return false
}

// Report says what was done, after the accounts of the target were compared with the plan.
func (p *Plan) Report(ctx context.Context, to *mysqlconn.Client) (*Report, error) {
	return p.newReport(), p.verify(ctx, to)
}

func (p *Plan) newReport() *Report {
	r := &Report{Granted: p.granted, Notes: []string{}}
	for _, a := range p.accounts {
		switch {
		case a.object.Fate != inventory.Copied:
			r.Notes = append(r.Notes, a.source.String()+": left out: "+a.object.Why)
			continue
		case a.object.Note != "":
			r.Notes = append(r.Notes, a.source.String()+": "+a.object.Note)
		}
		r.Accounts++
		if a.created {
			r.Created++
		}
	}
	return r
}

// grantLevels grants the privileges that an account lacks on the levels that are ready.
func (p *Plan) grantLevels(ctx context.Context, c *Creator, a *planned, there *server, ready func(level) bool) error {
	for _, l := range slices.SortedFunc(maps.Keys(a.grants), func(a, b level) int { return strings.Compare(fmt.Sprintf("%q", a), fmt.Sprintf("%q", b)) }) {
		wanted, has := maps.Clone(a.grants[l]), p.has(there, a, l)
		if !ready(l) || covers(has, wanted) {
			continue
		}
		stored := p.levelIn(l)
		if exact := there.grants[a.name][stored]; len(exact) == 0 { // a grant on a pattern would have no effect any more
			maps.Copy(wanted, has)
			has = nil
		}
		var missing []string
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if !has[name] && name != grantOption {
				if l.column != "" {
					name += " (" + session.Ident(l.column) + ")"
				}
				missing = append(missing, name)
			}
		}
		option := ""
		if wanted[grantOption] && !has[grantOption] {
			option = " WITH GRANT OPTION"
		}
		if len(missing) == 0 {
			missing = []string{"USAGE"}
		}
		if err := c.exec(ctx, a, "GRANT "+strings.Join(missing, ", ")+" ON "+stored.sql()+" TO "+a.name.sql()+option); err != nil {
			return err
		}
		p.granted++
	}
	return nil
}

// covers reports whether privileges are among others.
func covers(has, wanted privileges) bool {
	for name := range wanted {
		if !has[name] {
			return false
		}
	}
	return true
}

// sql returns a level as GRANT takes it.
func (l level) sql() string {
	switch l.kind {
	case inventory.Schema:
		return session.Ident(l.schema) + ".*"
	case inventory.Table:
		return "TABLE " + session.Ident(l.schema) + "." + session.Ident(l.name)
	}
	return strings.ToUpper(string(l.kind)) + " " + session.Ident(l.schema) + "." + session.Ident(l.name)
}

// grantRoles grants the roles that an account lacks.
func (p *Plan) grantRoles(ctx context.Context, c *Creator, a *planned, there *server) error {
	for _, role := range sorted(a.roles) {
		admin := a.roles[role]
		if has, held := there.held[a.name][role]; held && (has || !admin) {
			continue
		}
		option := ""
		if admin {
			option = " WITH ADMIN OPTION"
		}
		if err := c.exec(ctx, a, "GRANT "+role.sql()+" TO "+a.name.sql()+option); err != nil {
			return err
		}
		p.granted++
	}
	return nil
}

// setDefaults sets the default roles of an account with the definition of the source, which this run or an earlier one may have created, unless it
// has others.
func (p *Plan) setDefaults(ctx context.Context, c *Creator, a *planned, there *server) error {
	if found := there.accounts[a.name]; len(a.defaults) == 0 || !a.created && !a.same || found != nil && len(found.defaults) > 0 {
		return nil
	}
	roles := make([]string, len(a.defaults))
	for i, role := range a.defaults {
		roles[i] = role.sql()
	}
	word := " TO "
	if p.vendor == dialect.MariaDB {
		word = " FOR "
	}
	return c.exec(ctx, a, "SET DEFAULT ROLE "+strings.Join(roles, ", ")+word+a.name.sql())
}

// verify fails unless the accounts of the target have what the plan gives them; those that this run has created have nothing else.
func (p *Plan) verify(ctx context.Context, to *mysqlconn.Client) error {
	there, err := readServer(ctx, querier{to})
	if err != nil {
		return fmt.Errorf("in the target: %w", err)
	}
	var texts []string
	for _, a := range p.copied() {
		for _, difference := range p.differences(a, there) {
			texts = append(texts, a.name.String()+" "+difference)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	return fmt.Errorf("the accounts of the target differ from those that were to be created: %s; run the same command again", strings.Join(slices.Compact(texts), "; "))
}

// differences returns how an account of the target differs from the plan.
func (p *Plan) differences(a *planned, there *server) (all []string) {
	found := there.accounts[a.name]
	if found == nil {
		return []string{"does not exist"}
	}
	if different := a.definition.differences(&found.definition); (a.created || a.same) && len(different) > 0 {
		all = append(all, "has another definition: "+strings.Join(different, ", "))
	}
	if a.created && !sameNames(found.defaults, a.defaults) || a.same && len(a.defaults) > 0 && len(found.defaults) == 0 {
		all = append(all, "has other default roles")
	}
	for l, wanted := range a.grants {
		has := p.has(there, a, l)
		for name := range wanted {
			if !has[name] {
				all = append(all, fmt.Sprintf("lacks %s on %s", name, l))
			}
		}
	}
	for role, admin := range a.roles {
		if has, held := there.held[a.name][role]; !held || admin && !has {
			all = append(all, fmt.Sprintf("lacks the role %s", role))
		}
	}
	if extra := p.exceeding(a, there); a.created && len(extra) > 0 {
		all = append(all, "has privileges that the source's has not: on "+strings.Join(extra, ", "))
	}
	return all
}

// exec executes a statement about an account. Errors do not have its text.
func (c *Creator) exec(ctx context.Context, a *planned, sql string) error {
	if err := c.Check(ctx); err != nil {
		return err
	}
	_, err := c.Conn.Exec(ctx, sql)
	if err == nil {
		return nil
	}
	if strings.HasPrefix(sql, "CREATE USER") {
		err = withheld(err)
	}
	return fmt.Errorf("create account %s and its privileges in the target: %w", a.name, err)
}

// withheld returns an error of a server without its message, which may have a part of the statement, and so of an authentication string.
func withheld(err error) error {
	var refused *mysqlconn.ServerError
	if !errors.As(err, &refused) || session.Denied(refused.Number) || slices.Contains([]mysqlwire.Errno{errAccountExists, errNoPlugin, errOption, errHashLength}, refused.Number) {
		return err
	}
	copied := *refused
	copied.Message = "(its message is withheld, since it may have a part of an authentication string)"
	return &copied
}

// Errors of servers whose messages have names alone.
const (
	errOption        = 1290 // strict_password_validation
	errHashLength    = 1372
	errAccountExists = 1396
	errNoPlugin      = 1524
)
