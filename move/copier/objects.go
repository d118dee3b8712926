package copier

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/taredb/tare/internal/move/accounts"
	"github.com/taredb/tare/internal/move/dialect"
	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Whole schemas are resolved to their tables before a run starts. Their other objects are created around the rows:
//
//	schemas, sequences ──> tables ──> accounts ──> routines, views, each with its privileges, events (disabled) ──> rows
//	… foreign keys, counters ──> sequences' values, triggers
//
// What the target refuses is refused before a row moves, triggers excepted: they would change the rows that are written, and run twice for
// changes that are followed, which have the effects of the source's triggers. So they are created when nothing is written any more.

// Resolve sets the tables and objects of o by a selection: tables that o has keep their place and their specs, others follow,
// the largest first. The inventory is returned with the error that objects need a hand. Nothing is changed on either side.
func Resolve(ctx context.Context, o *Options, sel inventory.Selection) (*inventory.Inventory, error) {
	for i := range o.Tables {
		o.Tables[i].Defaults()
		sel.Tables = append(sel.Tables, inventory.Pattern{Schema: o.Tables[i].Schema, Name: o.Tables[i].Name})
	}
	if err := o.To.Validate(); err != nil {
		return nil, err
	}
	j := newJob(o)
	defer j.close()
	source, err := j.openInventory(ctx)
	if err != nil {
		return nil, err
	}
	var inv *inventory.Inventory
	if d, ok := j.from.(*dump.Dump); ok {
		if inv, err = d.Inventory(&sel); inv == nil && err == nil && sel.Empty() { // it lists no objects
			return nil, o.dumpTables(d)
		}
	} else {
		inv, err = inventory.Read(ctx, source, &sel)
	}
	if err != nil {
		return nil, err
	}
	if inv == nil {
		return nil, errors.New("the dump lists no objects, since its source did not: name each table by option tables")
	}
	if err := j.judge(ctx, source, inv, &sel); err != nil {
		return nil, fmt.Errorf("compare the source's objects with the target: %w", err)
	}
	o.Objects, o.Selection = inv, sel
	return inv, o.addTables(inv)
}

// openInventory connects to both sides. The source is nil if it is a dump.
func (j *job) openInventory(ctx context.Context) (source session.Querier, err error) {
	if j.from, err = j.o.From(ctx); err != nil {
		return nil, fmt.Errorf("connect to the source: %w", err)
	}
	_, dumped := j.from.(*dump.Dump)
	source, ok := j.from.(session.Querier)
	if !ok && !dumped {
		return nil, errors.New("list the objects of the source: it sends rows alone; read from the server itself or name each table")
	}
	if j.to, err = session.Connect(ctx, j.o.To); err != nil {
		return nil, fmt.Errorf("connect to the target: %w", err)
	}
	return source, nil
}

// judge finds what becomes of the objects.
func (j *job) judge(ctx context.Context, source session.Querier, inv *inventory.Inventory, sel *inventory.Selection) error {
	translator, err := inventory.TranslatorTo(ctx, inv.Source, j.to, j.o.Collations)
	if err != nil {
		return err
	}
	const query = "SELECT SUBSTRING_INDEX(@@version, '-', 1)" // without what its settings add
	version := ""
	if d, ok := j.from.(*dump.Dump); ok {
		version = d.ServerVersion()
	} else if err := source.Query(ctx, query, func(row mysqlwire.TextRow) error {
		version = string(row[0])
		return nil
	}); err != nil {
		return fmt.Errorf("read the source's version: %w", err)
	}
	there, err := session.QueryValue(ctx, j.to, query)
	if err != nil {
		return fmt.Errorf("read the target's version: %w", err)
	}
	plan, err := j.planAccounts(ctx, source, inv, sel)
	if err != nil {
		return err
	}
	if plan != nil {
		defer func() { inv.Objects = append(inv.Objects, plan.Objects()...) }()
	}
	return inv.Judge(ctx, source, inventory.Target{
		Conn: j.to, Translator: translator, Reformats: version != there, Cutover: j.o.Cutover != nil, Accounts: plan.Definers(),
		Table: func(ctx context.Context, schema, name string) error {
			t, err := j.from.Describe(ctx, schema, name)
			if err != nil {
				return err
			}
			if err := tabledef.Suitable(t); err != nil {
				return err
			}
			_, err = translator.Table(t.Create)
			return err
		},
	})
}

// vendorOf returns the vendor of a server by its identity.
func vendorOf(identity string) dialect.Vendor {
	switch {
	case strings.HasPrefix(identity, "mysql "):
		return dialect.MySQL
	case strings.HasPrefix(identity, "mariadb "):
		return dialect.MariaDB
	}
	return dialect.Unknown
}

// schemaObjects creates the objects of schemas besides tables, and accounts.
type schemaObjects struct {
	*job
	created   int              // by this run, besides tables
	accounts  *accounts.Report // nil until privileges are granted
	notCopied []telemetry.NotCopied
}

// withCreator calls do with a creator of objects in the target, again if the connection was lost meanwhile. No later run starts
// while the server executes one of its statements.
func (s *schemaObjects) withCreator(ctx context.Context, do func(c *inventory.Creator) error) error {
	w := s.newWriter()
	defer w.Close()
	var failed error
	err := w.Retry(ctx, func() error {
		c := &inventory.Creator{
			Conn: w.Conn, Scratch: s.o.StateSchema + "_compare",
			Check: func(ctx context.Context) error { return s.state.Lease.Check(ctx, w.Conn) },
			Created: func(o *inventory.Object) {
				s.created++
				s.o.Observe(telemetry.Event{Kind: telemetry.EventObject, Text: o.String()})
			},
		}
		failed = state.WithIndexLock(ctx, w.Conn, s.state.Lease, s.state.Lease.First, s.o.Patience, func() error { return do(c) })
		if state.IsUnreachable(failed) {
			return failed
		}
		return nil
	})
	if err != nil {
		return state.WithAdvice(err)
	}
	return failed
}

// create creates the objects of some kinds that the target has not yet.
func (s *schemaObjects) create(ctx context.Context, kinds ...inventory.Kind) error {
	if s.o.Objects == nil {
		return nil
	}
	return s.withCreator(ctx, func(c *inventory.Creator) error {
		c.Present = s.grantOn(c)
		return c.Create(ctx, s.o.Objects, kinds...)
	})
}

// createLast does what comes after all rows and changes.
func (s *schemaObjects) createLast(ctx context.Context) error {
	if s.o.Objects == nil {
		return nil
	}
	return s.withCreator(ctx, func(c *inventory.Creator) error {
		source, _ := s.from.(session.Querier) // nil for a dump, which has recorded them
		if err := c.RaiseSequences(ctx, s.o.Objects, source); err != nil {
			return err
		}
		return c.Create(ctx, s.o.Objects, inventory.Trigger)
	})
}

// unchanged fails if the source's objects are others than those that were copied.
func (s *schemaObjects) unchanged(ctx context.Context) error {
	source, ok := s.from.(session.Querier)
	if s.o.Objects == nil || !ok {
		return nil
	}
	now, err := inventory.Read(ctx, source, &s.o.Selection)
	if err != nil {
		return err
	}
	changed := s.o.Objects.Changed(now)
	if s.o.Accounts != nil {
		accounts, err := s.o.Accounts.Changed(ctx, source)
		if err != nil {
			return err
		}
		changed = append(changed, accounts...)
	}
	if len(changed) > 0 {
		return fmt.Errorf("all tables that were listed at the start are copied, but the source's objects have changed since: %s; run the same command again",
			strings.Join(changed, "; "))
	}
	return nil
}
