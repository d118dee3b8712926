package inventory

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Target is the server that objects are copied to.
type Target struct {
	Conn       *mysqlconn.Client
	Translator *dialect.Translator

	// Reformats says that the source and the target write SHOW CREATE of the same object differently, as other versions may.
	Reformats bool

	// Table returns why a table of the source cannot be copied; nil: it can be.
	Table func(ctx context.Context, schema, name string) error

	// Accounts are those that are created before the objects, as user@host in lower case.
	Accounts map[string]bool

	// Cutover says that clients are switched to the target while they are connected.
	Cutover bool
}

// TranslatorTo returns the translator of definitions of a vendor for the server of a connection.
func TranslatorTo(ctx context.Context, from dialect.Vendor, c *mysqlconn.Client, chosen map[string]string) (*dialect.Translator, error) {
	t := &dialect.Translator{From: from, To: dialect.MySQL, Known: make(map[string]bool), Collations: chosen}
	sql := "SELECT COLLATION_NAME, COLLATION_NAME FROM information_schema.COLLATIONS"
	if session.IsMariaDB(c.ServerVersion) {
		t.To = dialect.MariaDB
		sql = "SELECT FULL_COLLATION_NAME, COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
	}
	add := func(row mysqlwire.TextRow) error {
		t.Known[string(row[0])], t.Known[string(row[1])] = true, true
		return nil
	}
	_, err := c.Query(ctx, sql, add)
	if session.IsUnseen(err) { // MariaDB before 10.10 has no full names
		_, err = c.Query(ctx, "SELECT COLLATION_NAME, COLLATION_NAME FROM information_schema.COLLATIONS", add)
	}
	if err != nil {
		return nil, fmt.Errorf("list the collations of the target: %w", err)
	}
	return t, nil
}

// Judge finds objects that need a hand and objects that exist in the target already. It changes nothing.
func (inv *Inventory) Judge(ctx context.Context, source session.Querier, to Target) error {
	there, err := inv.readTarget(ctx, to)
	if err != nil {
		return err
	}
	defaults := make(map[string]string)
	for _, o := range inv.Objects {
		if o.Kind == Schema {
			defaults[o.Schema] = o.Collation
		}
	}
	for _, o := range inv.Objects {
		if o.Fate != Copied {
			continue
		}
		if err := o.translate(to.Translator); err != nil {
			o.needsHand("%v", err)
		}
		switch {
		case to.Cutover && (o.Kind == Trigger || o.Kind == Sequence):
			o.needsHand("with option cutover clients would need it in the target at the switch, where it would act on changes that are still applied: " +
				"exclude it, and create it in the target while clients are paused, or copy without option cutover")
		case o.Context.Database != "" && o.Context.Database != defaults[o.Schema]:
			o.needsHand("it was created when the default collation of its schema was %s, which is %s now: create it again on the source", o.Context.Database, defaults[o.Schema])
		case o.Kind == Table:
			if err := to.Table(ctx, o.Schema, o.Name); err != nil {
				o.needsHand("%v", err)
			}
		}
		there.judge(o, to.Reformats)
	}
	if err := inv.judgeDefiners(ctx, to); err != nil {
		return err
	}
	return inv.judgeReferences(ctx, source, to.Conn)
}

// clientQuerier queries over a connection.
type clientQuerier struct{ c *mysqlconn.Client }

func (q clientQuerier) Query(ctx context.Context, sql string, each func(mysqlwire.TextRow) error) error {
	_, err := q.c.Query(ctx, sql, each)
	return err
}

// A targetObjects lists the objects of a target in the schemas of an inventory.
type targetObjects struct {
	schemas map[string]string // and their default collations
	objects map[string]*Object
}

// place is an object's name among others of its namespace: tables, views and sequences share one.
func (o *Object) place() string {
	kind := o.Kind
	if kind == View || kind == Sequence {
		kind = Table
	}
	return string(kind) + "\x00" + o.Schema + "\x00" + strings.ToLower(o.Name)
}

func (inv *Inventory) readTarget(ctx context.Context, to Target) (*targetObjects, error) {
	t := &targetObjects{schemas: make(map[string]string), objects: make(map[string]*Object)}
	sel := &Selection{}
	for _, o := range inv.Objects {
		if o.Kind == Schema {
			sel.Schemas = append(sel.Schemas, o.Schema)
		}
	}
	r := &reader{q: clientQuerier{to.Conn}, sel: sel, inv: &Inventory{Source: to.Translator.To}}
	defaults, order, err := r.schemas(ctx)
	if err != nil {
		return nil, fmt.Errorf("in the target: %w", err)
	}
	for _, schema := range sel.Schemas {
		if !slices.Contains(order, schema) {
			continue
		}
		t.schemas[schema] = defaults[schema]
		if err := r.readSchema(ctx, schema, defaults[schema]); err != nil {
			return nil, fmt.Errorf("list the objects of schema %s in the target: %w", schema, err)
		}
	}
	for _, o := range r.inv.Objects {
		t.objects[o.place()] = o
	}
	return t, nil
}

// judge compares an object with that of the same name in the target.
func (t *targetObjects) judge(o *Object, reformats bool) {
	if o.Kind == Schema {
		collation, exists := t.schemas[o.Schema]
		o.Exists = exists && collation == o.target.Context.Database
		if exists && !o.Exists {
			o.needsHand("it exists in the target with the default collation %s: ALTER DATABASE %s COLLATE %s there", collation, session.Ident(o.Schema), o.target.Context.Database)
		}
		return
	}
	other := t.objects[o.place()]
	switch {
	case other == nil:
	case other.Kind != o.Kind:
		o.needsHand("the target has a %s of that name", other.Kind)
	case o.Kind == Table: // compared by the copier
		o.Exists = true
	case o.same(other):
		o.Exists = true
	case reformats && (o.Kind == View || o.Kind == Function || o.Kind == Procedure):
		o.Note = "exists in the target; whether its definition is the same is found out when the copy runs"
	default:
		o.needsHand("%v", errOther)
	}
}

var errOther = fmt.Errorf("it exists in the target with another definition: drop it there, or leave it out")

// same reports whether an object in the target equals the translated definition of this one.
func (o *Object) same(there *Object) bool {
	text, context := there.Definition, there.Context
	if o.Kind == Event {
		text, _ = disabledEvent(text, there.mode())
		context.Status = o.target.Context.Status
	}
	if o.Kind == Trigger {
		return there.Acts == o.target.acts && context.normal() == o.target.Context.normal()
	}
	if o.Kind == Sequence {
		return sequenceOptions(text) == sequenceOptions(o.target.Text)
	}
	return text == o.target.Text && context.normal() == o.target.Context.normal()
}

// normal returns the context with the modes of sql_mode in one order.
func (c Context) normal() Context {
	modes := strings.Split(c.SQLMode, ",")
	slices.Sort(modes)
	c.SQLMode = strings.Join(modes, ",")
	return c
}

// sequenceStart is the option of a sequence that its use may change in some versions.
var sequenceStart = regexp.MustCompile(`(?i) (start with|restart with) -?\d+`)

func sequenceOptions(text string) string { return sequenceStart.ReplaceAllString(text, "") }

// translate sets the object's definition in the target.
func (o *Object) translate(t *dialect.Translator) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if user, host := cutDefiner(o.Definer); t.To == dialect.MySQL && (dialect.TrimName(user) != user || dialect.TrimName(host) != host) {
		return fmt.Errorf("its definer is %.80q, and MySQL removes white space around names of accounts: create it again on the source with another definer", o.Definer)
	}
	d := Definition{Context: o.Context}
	if d.Text, err = t.Body(o.Definition, o.mode()); err != nil {
		return err
	}
	if d.acts, err = t.Body(o.Acts, o.mode()); err != nil {
		return err
	}
	switch o.Kind {
	case Schema:
		d.Context.Database, err = t.Collation(o.Collation)
		o.target = d
		return err
	case Table:
		return nil
	case Sequence:
		o.target = d
		if t.To != dialect.MariaDB {
			return fmt.Errorf("%v has no sequences", t.To)
		}
		return nil
	case Event:
		if d.Text, err = disabledEvent(d.Text, o.mode()); err != nil {
			return err
		}
		o.Note = "created DISABLE"
		if o.Context.Status == "ENABLED" {
			o.Note += "; once clients use the target: ALTER EVENT " + o.sqlName() + " ENABLE there, and DISABLE on the source"
		}
	}
	if o.Kind != View {
		if d.Context.SQLMode, err = t.SQLMode(o.Context.SQLMode); err != nil {
			return err
		}
		if d.Context.Database, err = t.Collation(o.Context.Database); err != nil {
			return err
		}
	}
	d.Context.Connection, err = t.Collation(o.Context.Connection)
	o.target = d
	return err
}

// cutDefiner splits a definer, whose host has no @.
func cutDefiner(definer string) (user, host string) {
	at := strings.LastIndexByte(definer, '@')
	if at < 0 {
		return definer, ""
	}
	return definer[:at], definer[at+1:]
}

// judgeDefiners finds the definers that the target has not.
func (inv *Inventory) judgeDefiners(ctx context.Context, to Target) error {
	accounts := make(map[string]bool)
	maps.Copy(accounts, to.Accounts)
	_, err := to.Conn.Query(ctx, "SELECT User, Host FROM mysql.user", func(row mysqlwire.TextRow) error {
		accounts[strings.ToLower(string(row[0])+"@"+string(row[1]))] = true
		return nil
	})
	if refused := (*mysqlconn.ServerError)(nil); asServer(err, &refused) && session.Denied(refused.Number) {
		for _, o := range inv.Objects {
			if o.Fate == Copied && o.Definer != "" && o.Note == "" {
				o.Note = "whether its definer " + o.Definer + " exists in the target could not be read from mysql.user"
			}
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the accounts of the target: %w", err)
	}
	for _, o := range inv.Objects {
		if o.Fate == LeftOut || o.Definer == "" {
			continue
		}
		definer := strings.ToLower(o.Definer)
		if !strings.Contains(definer, "@") {
			definer += "@" // a role of MariaDB
		}
		if !accounts[definer] {
			o.needsHand("its definer %s does not exist in the target: create the account there, or copy it by option users", o.Definer)
		}
	}
	return nil
}

// judgeReferences finds views that refer to objects that are neither copied nor in the target.
func (inv *Inventory) judgeReferences(ctx context.Context, source session.Querier, c *mysqlconn.Client) error {
	if source != nil {
		if err := inv.ReadReferences(ctx, source); err != nil {
			return err
		}
	}
	goes := inv.referable()
	there := make(map[Reference]bool)
	for _, o := range inv.Objects {
		if o.Kind != View || o.Fate == LeftOut {
			continue
		}
		for _, r := range o.References {
			if goes[r] {
				continue
			}
			if _, known := there[r]; !known {
				var err error
				if there[r], err = r.exists(ctx, clientQuerier{c}); err != nil {
					return err
				}
			}
			if !there[r] {
				o.needsHand("it refers to %s.%s, which is neither copied nor in the target", r.Schema, r.Name)
			}
		}
	}
	return nil
}
