package inventory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// systemSchemas are the servers' own, which no pattern matches.
var systemSchemas = []string{"mysql", "information_schema", "performance_schema", "sys", "ndbinfo"}

func isSystem(schema string) bool { return slices.Contains(systemSchemas, strings.ToLower(schema)) }

// CheckUnnamed returns an error for an object of a schema of the server's, of which only tables are copied that option tables names.
func CheckUnnamed(schema, name string) error {
	if !isSystem(schema) {
		return nil
	}
	return fmt.Errorf("%s.%s is in a schema of the server's: only tables that option tables names are copied from it", schema, name)
}

func errSystem(schema string) error {
	return fmt.Errorf("schema %s is the server's own: it cannot be copied", schema)
}

// A reader reads the objects of a server.
type reader struct {
	q      session.Querier
	sel    *Selection
	grants *grants // nil: whatever is visible is read
	inv    *Inventory
	used   map[Pattern]bool // patterns that have matched

	comments map[string]string // of the views of the schema that is being read: VIEW, or why it is not valid
}

// Read lists the objects of the schemas that a selection names. It fails if the account may not see all requested objects, if a schema does
// not exist, or if a pattern matches nothing.
func Read(ctx context.Context, q session.Querier, sel *Selection) (*Inventory, error) {
	r := &reader{q: q, sel: sel, inv: &Inventory{}, used: make(map[Pattern]bool)}
	defaults, order, err := r.schemas(ctx)
	if err != nil {
		return nil, err
	}
	if r.inv.Source, err = VendorOf(ctx, q); err != nil {
		return nil, err
	}
	if r.grants, err = readGrants(ctx, q, r.inv.Source); err != nil {
		return nil, err
	}
	for _, name := range sel.Schemas {
		switch {
		case isSystem(name):
			return nil, errSystem(name)
		case !slices.Contains(order, name):
			return nil, fmt.Errorf("schema %s does not exist on the source, or the account may not see it", name)
		}
	}
	for _, name := range order {
		if !r.asked(name) {
			continue
		}
		if err := r.readSchema(ctx, name, defaults[name]); err != nil {
			return nil, fmt.Errorf("list the objects of schema %s: %w", name, err)
		}
	}
	for _, p := range slices.Concat(sel.Tables, sel.Exclude) {
		if !r.used[p] {
			return nil, fmt.Errorf("%s %w: no object that is asked for has such a name, or the account may not see it", p, errNothing)
		}
	}
	r.inv.sort()
	return r.inv, nil
}

// VendorOf returns the vendor of a server.
func VendorOf(ctx context.Context, q session.Querier) (dialect.Vendor, error) {
	version := ""
	if err := q.Query(ctx, "SELECT @@version", func(row mysqlwire.TextRow) error {
		version = string(row[0])
		return nil
	}); err != nil {
		return dialect.Unknown, fmt.Errorf("read the server's version: %w", err)
	}
	if session.IsMariaDB(version) {
		return dialect.MariaDB, nil
	}
	return dialect.MySQL, nil
}

// Prefixes of the names that tare alter gives to tables beside the one that it alters.
const (
	ShadowPrefix   = "_tare_new_"
	OldPrefix      = "_tare_old_"
	RevertedPrefix = "_tare_rev_"
	SentryPrefix   = "tare_sentry_" // after a character that is sorted behind the table's name
)

// ofAlter reports whether a table has the name of one of tare alter.
func ofAlter(name string) bool {
	for _, p := range []string{ShadowPrefix, OldPrefix, RevertedPrefix} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	_, size := utf8.DecodeRuneInString(name)
	return strings.HasPrefix(name[size:], SentryPrefix)
}

// schemas returns the default collations of all schemas.
func (r *reader) schemas(ctx context.Context) (defaults map[string]string, order []string, err error) {
	defaults = make(map[string]string)
	err = r.q.Query(ctx, "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA ORDER BY 1", func(row mysqlwire.TextRow) error {
		name := string(row[0])
		order = append(order, name)
		defaults[name] = string(row[1])
		return nil
	})
	if err != nil {
		err = fmt.Errorf("list the schemas of the source: %w", err)
	}
	return defaults, order, err
}

// asked reports whether a schema is asked for, as a whole or for some of its tables.
func (r *reader) asked(schema string) bool {
	if r.whole(schema) {
		return true
	}
	system := isSystem(schema)
	return slices.ContainsFunc(r.sel.Tables, func(p Pattern) bool {
		return wildcard(p.Schema, schema) && (!system || p.Schema == schema)
	})
}

func (r *reader) whole(schema string) bool { return slices.Contains(r.sel.Schemas, schema) }

// add adds an object with the fate that the selection gives it.
func (r *reader) add(o *Object) {
	o.Fate = Copied
	leave := func(why string) { o.Fate, o.Why = LeftOut, why }
	for _, p := range r.sel.Exclude {
		if o.Kind != Schema && p.Match(o.Schema, o.Name) {
			r.used[p] = true
			leave("excluded by option exclude " + p.String())
		} else if o.Kind == Trigger && p.Match(o.Schema, o.Table) {
			leave("its table is excluded by option exclude " + p.String())
		}
	}
	matched, named := false, false
	for _, p := range r.sel.Tables {
		if o.Kind == Table && p.Match(o.Schema, o.Name) {
			r.used[p], matched = true, true
			named = named || p.Name == o.Name
		}
	}
	switch {
	case o.Kind == Grantee:
		leave("accounts and their privileges are copied with option users alone")
	case o.Name == binlog.HeartbeatTable && o.Kind == Table:
		leave("heartbeats of a copy that follows")
	case o.Kind == Table && !named && ofAlter(o.Name):
		leave("a table of tare alter: old, reverted or unfinished; tare alter list shows it")
	case o.Fate == LeftOut, o.Kind == Schema, matched:
	case !r.whole(o.Schema):
		leave("not among option tables")
	case o.Kind != Table && o.Kind != Package && o.Kind != Library && !r.sel.carries(o.Kind):
		leave("left out by option objects")
	}
	r.inv.Objects = append(r.inv.Objects, o)
}

// readSchema reads the objects of a schema. Those that are left out keep no definition.
func (r *reader) readSchema(ctx context.Context, schema, collation string) error {
	r.add(&Object{Kind: Schema, Schema: schema, Name: schema, Collation: collation})
	for _, k := range []Kind{Table, View, Function, Trigger, Event} {
		lacks := ""
		if r.grants != nil {
			lacks = r.grants.lacks(k, schema)
		}
		if lacks == "" {
			continue
		}
		if k == Table || r.whole(schema) && (r.sel.carries(k) || k == Function && r.sel.carries(Procedure)) {
			return fmt.Errorf("the source's account cannot see all objects of the kind %s: it lacks %s; grant it, or name the kinds to copy by option objects", k, lacks)
		}
		r.inv.Objects = append(r.inv.Objects, &Object{
			Kind: k, Schema: schema, Fate: LeftOut, Why: "the account lacks " + lacks + ", so there may be some that are not listed",
		})
	}
	for _, read := range []func(context.Context, string) error{
		r.readTables, r.readViews, r.readRoutines, r.readLibraries, r.readTriggers, r.readEvents, r.readGrantees,
	} {
		if err := read(ctx, schema); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readTables(ctx context.Context, schema string) error {
	r.comments = make(map[string]string)
	var sequences, invalid []*Object
	err := r.q.Query(ctx, "SELECT TABLE_NAME, TABLE_TYPE, TABLE_ROWS, DATA_LENGTH, AUTO_INCREMENT, TABLE_COLLATION, TABLE_COMMENT FROM information_schema.TABLES"+
		" WHERE TABLE_SCHEMA = "+session.SchemaText(schema)+" ORDER BY 1", func(row mysqlwire.TextRow) error {
		o := &Object{Kind: Table, Schema: schema, Name: string(row[0])}
		o.RowsEstimate, _ = strconv.ParseInt(string(row[2]), 10, 64) // NULL where the server does not know
		o.BytesEstimate, _ = strconv.ParseInt(string(row[3]), 10, 64)
		o.AutoIncrement, _ = strconv.ParseUint(string(row[4]), 10, 64)
		o.Collation = string(row[5])
		switch kind := string(row[1]); kind {
		case "VIEW":
			r.comments[o.Name] = string(row[6])
			return nil
		case "SEQUENCE":
			sequences = append(sequences, &Object{Kind: Sequence, Schema: schema, Name: o.Name})
			return nil
		case "BASE TABLE":
		default:
			o.Note = kind
			invalid = append(invalid, o)
		}
		r.add(o)
		return nil
	})
	if err != nil {
		return err
	}
	for _, o := range invalid {
		o.needsHand("it is a table of the kind %s, whose earlier rows cannot be copied", o.Note)
		o.Note = ""
	}
	for _, o := range sequences {
		r.add(o)
	}
	return r.defineCopied(ctx, sequences)
}

// defineCopied reads the definitions of the objects that are copied.
func (r *reader) defineCopied(ctx context.Context, all []*Object) error {
	for _, o := range all {
		if o.Fate != Copied {
			continue
		}
		if err := r.define(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readViews(ctx context.Context, schema string) error {
	all, err := r.list(ctx, View, schema, "SELECT TABLE_NAME, DEFINER FROM information_schema.VIEWS WHERE TABLE_SCHEMA = %s ORDER BY 1")
	if err != nil {
		return err
	}
	if err := r.defineCopied(ctx, all); err != nil {
		return err
	}
	for _, o := range all {
		if c := r.comments[o.Name]; c != "" && c != "VIEW" {
			o.needsHand("it is not valid on the source: %s", c)
		}
	}
	return nil
}

func (r *reader) readRoutines(ctx context.Context, schema string) error {
	var all []*Object
	err := r.q.Query(ctx, "SELECT ROUTINE_TYPE, ROUTINE_NAME, DEFINER FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = "+session.SchemaText(schema)+" ORDER BY 1, 2",
		func(row mysqlwire.TextRow) error {
			o := &Object{Kind: Kind(strings.ToLower(string(row[0]))), Schema: schema, Name: string(row[1]), Definer: string(row[2])}
			if o.Kind == "package body" {
				return nil // of its package
			}
			r.add(o)
			all = append(all, o)
			return nil
		})
	if err != nil {
		return err
	}
	for _, o := range all {
		switch {
		case o.Fate != Copied:
			continue
		case o.Kind != Function && o.Kind != Procedure:
			o.needsHand("packages are not copied: create it in the target, and exclude it")
			continue
		}
		if err := r.define(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// readLibraries lists MySQL's libraries of JavaScript, which servers before 9.2 have not.
func (r *reader) readLibraries(ctx context.Context, schema string) error {
	if r.inv.Source != dialect.MySQL {
		return nil
	}
	err := r.q.Query(ctx, "SELECT LIBRARY_NAME FROM information_schema.LIBRARIES WHERE LIBRARY_SCHEMA = "+session.SchemaText(schema)+" ORDER BY 1",
		func(row mysqlwire.TextRow) error {
			o := &Object{Kind: Library, Schema: schema, Name: string(row[0])}
			r.add(o)
			o.needsHand("libraries are not copied: create it in the target, and exclude it")
			return nil
		})
	if absent(err) {
		return nil
	}
	return err
}

func (r *reader) readTriggers(ctx context.Context, schema string) error {
	var all []*Object
	order := ", ACTION_ORDER" // in which those of one table, time and event act
	err := r.q.Query(ctx, "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, DEFINER FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = "+session.SchemaText(schema)+
		" ORDER BY EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION"+order, func(row mysqlwire.TextRow) error {
		o := &Object{Kind: Trigger, Schema: schema, Name: string(row[0]), Table: string(row[1]), Definer: string(row[2])}
		r.add(o)
		all = append(all, o)
		return nil
	})
	if err != nil {
		return err
	}
	return r.defineCopied(ctx, all)
}

func (r *reader) readEvents(ctx context.Context, schema string) error {
	var all []*Object
	err := r.q.Query(ctx, "SELECT EVENT_NAME, DEFINER, STATUS FROM information_schema.EVENTS WHERE EVENT_SCHEMA = "+session.SchemaText(schema)+" ORDER BY 1",
		func(row mysqlwire.TextRow) error {
			o := &Object{Kind: Event, Schema: schema, Name: string(row[0]), Definer: string(row[1])}
			o.Context.Status = string(row[2])
			r.add(o)
			all = append(all, o)
			return nil
		})
	if err != nil {
		return err
	}
	return r.defineCopied(ctx, all)
}

func (r *reader) readGrantees(ctx context.Context, schema string) error {
	if r.sel.Users && r.whole(schema) {
		return nil // listed by package accounts
	}
	text := session.SchemaText(schema)
	return r.q.Query(ctx, "SELECT GRANTEE FROM information_schema.SCHEMA_PRIVILEGES WHERE TABLE_SCHEMA = "+text+
		" UNION SELECT GRANTEE FROM information_schema.TABLE_PRIVILEGES WHERE TABLE_SCHEMA = "+text+
		" UNION SELECT GRANTEE FROM information_schema.COLUMN_PRIVILEGES WHERE TABLE_SCHEMA = "+text+" ORDER BY 1", func(row mysqlwire.TextRow) error {
		r.add(&Object{Kind: Grantee, Schema: schema, Name: string(row[0])})
		return nil
	})
}

// list adds the objects whose names and definers a statement selects.
func (r *reader) list(ctx context.Context, k Kind, schema, sql string) (all []*Object, err error) {
	err = r.q.Query(ctx, fmt.Sprintf(sql, session.SchemaText(schema)), func(row mysqlwire.TextRow) error {
		o := &Object{Kind: k, Schema: schema, Name: string(row[0]), Definer: string(row[1])}
		r.add(o)
		all = append(all, o)
		return nil
	})
	return all, err
}

// define reads an object's definition.
func (r *reader) define(ctx context.Context, o *Object) error {
	sql, column, also := o.shown()
	if err := r.show(ctx, o, sql, column, also); err != nil || o.Kind != Trigger {
		return err
	}
	// MySQL quotes names in the text of a trigger that MariaDB leaves as they were given.
	err := r.q.Query(ctx, "SELECT ACTION_TIMING, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, DEFINER, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = "+
		session.SchemaText(o.Schema)+" AND TRIGGER_NAME = "+session.SchemaText(o.Name), func(row mysqlwire.TextRow) error {
		o.Acts = fmt.Sprintf("%s %s ON %s BY %s: %s", row[0], row[1], row[2], row[3], strings.TrimSpace(string(row[4])))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the definition of %s: %w", o, err)
	}
	return nil
}

// show reads an object's definition, which is the given column of a statement's row.
func (r *reader) show(ctx context.Context, o *Object, sql string, column int, also func(mysqlwire.TextRow)) error {
	err := r.q.Query(ctx, sql, func(row mysqlwire.TextRow) error {
		if len(row) <= column {
			return fmt.Errorf("%s returned %d columns", sql, len(row))
		}
		o.Definition = string(row[column])
		if also != nil {
			also(row)
		}
		return nil
	})
	if err == nil && o.Definition == "" {
		err = fmt.Errorf("the account may not see its definition")
	}
	if err != nil {
		return fmt.Errorf("read the definition of %s: %w", o, err)
	}
	return nil
}

func (o *Object) sqlName() string { return session.Ident(o.Schema) + "." + session.Ident(o.Name) }
