package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Errors of servers about what a view refers to and does not exist, or not yet.
const (
	errNoSuchTable   = 1146
	errNoSuchRoutine = 1305
	errInvalidView   = 1356
)

// A Creator creates objects in the target.
type Creator struct {
	Conn *mysqlconn.Client

	// Check fails unless the run may still write to the target. It is called before each statement.
	Check func(ctx context.Context) error

	// Scratch is a schema for definitions that are compared, which is created and dropped.
	Scratch string

	// Created is called for each object that was created; nil: it is not.
	Created func(*Object)

	// Present is called for each object that exists then, created or not, before others are created; nil: it is not.
	Present func(context.Context, *Object) error
}

// Create creates the objects of some kinds that are copied and do not exist yet. Views are created in the order of their references.
func (c *Creator) Create(ctx context.Context, inv *Inventory, kinds ...Kind) error {
	for _, k := range kinds {
		pending := inv.Copied(k)
		for len(pending) > 0 {
			var later []*Object
			var last error
			for _, o := range pending {
				err := c.create(ctx, o)
				if err == nil && c.Present != nil {
					err = c.Present(ctx, o)
				}
				switch {
				case err == nil:
				case k == View && waits(err):
					later, last = append(later, o), err
				default:
					return err
				}
			}
			if len(later) == len(pending) {
				return last
			}
			pending = later
		}
	}
	return nil
}

// waits reports whether an object may be created once others are.
func waits(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && (refused.Number == errNoSuchTable || refused.Number == errNoSuchRoutine || refused.Number == errInvalidView)
}

func asServer(err error, to **mysqlconn.ServerError) bool { return errors.As(err, to) }

// create creates an object unless it is there.
func (c *Creator) create(ctx context.Context, o *Object) error {
	if o.Kind == Schema {
		return c.exec(ctx, o, "CREATE DATABASE IF NOT EXISTS "+session.Ident(o.Schema)+" COLLATE "+o.target.Context.Database)
	}
	if c.Conn.Capabilities.Has(mysqlwire.CapMultiStatements) {
		panic("BUG: inventory: a definition could have a second statement")
	}
	there, err := c.read(ctx, o, o.Schema)
	if err != nil {
		return err
	}
	if there != nil {
		return c.compare(ctx, o, there)
	}
	err = c.as(ctx, o, o.Schema, o.target.Text)
	if err != nil {
		return err
	}
	if there, err = c.read(ctx, o, o.Schema); err == nil && there == nil {
		err = fmt.Errorf("create %s in the target: it is not there although the server has reported no error: its time may have passed; leave it out", o)
	}
	if err == nil && c.Created != nil {
		c.Created(o)
	}
	return err
}

// as executes the statement that creates an object, with the settings that the object keeps.
func (c *Creator) as(ctx context.Context, o *Object, schema, text string) error {
	t := &o.target.Context
	values := []session.Value{{Name: "sql_mode", SQL: session.Literal(t.SQLMode)}}
	if o.Kind == View || o.Kind == Sequence {
		values[0].SQL = "''"
	}
	if t.Client != "" {
		values = append(values, session.Value{Name: "character_set_client", SQL: session.Literal(t.Client)},
			session.Value{Name: "collation_connection", SQL: session.Literal(t.Connection)})
	}
	if t.TimeZone != "" {
		values = append(values, session.Value{Name: "time_zone", SQL: session.Literal(t.TimeZone)})
	}
	if err := c.exec(ctx, o, "USE "+session.Ident(schema)); err != nil {
		return err
	}
	if err := c.set(ctx, o, values); err != nil {
		return err
	}
	err := c.exec(ctx, o, text)
	if restored := c.set(ctx, o, session.Usual(c.Conn, "sql_mode", "time_zone", "character_set_client", "character_set_connection")); restored != nil {
		return restored // also after an error for which Create continues with another view
	}
	// Servers leave the names of the default schema out of the text of views.
	if restored := c.exec(ctx, o, "USE information_schema"); restored != nil {
		return restored
	}
	return err
}

func (c *Creator) set(ctx context.Context, o *Object, values []session.Value) error {
	err := c.Check(ctx)
	if err == nil {
		err = session.Set(ctx, c.Conn, values...)
	}
	if err != nil {
		return fmt.Errorf("create %s in the target: %w", o, err)
	}
	return nil
}

func (c *Creator) exec(ctx context.Context, o *Object, sql string) error {
	if err := c.Check(ctx); err != nil {
		return err
	}
	if _, err := c.Conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("create %s in the target: %w", o, err)
	}
	return nil
}

// read returns the object of the same kind and name in a schema of the target, nil if there is none.
func (c *Creator) read(ctx context.Context, o *Object, schema string) (*Object, error) {
	s, n := session.SchemaText(schema), session.SchemaText(o.Name)
	query := ""
	switch o.Kind {
	case Sequence, View:
		query = "TABLES WHERE TABLE_SCHEMA = " + s + " AND TABLE_NAME = " + n
	case Function, Procedure:
		query = "ROUTINES WHERE ROUTINE_SCHEMA = " + s + " AND ROUTINE_NAME = " + n + " AND ROUTINE_TYPE = '" + strings.ToUpper(string(o.Kind)) + "'"
	case Trigger:
		query = "TRIGGERS WHERE TRIGGER_SCHEMA = " + s + " AND TRIGGER_NAME = " + n
	case Event:
		query = "EVENTS WHERE EVENT_SCHEMA = " + s + " AND EVENT_NAME = " + n
	default:
		panic("BUG: a " + string(o.Kind) + " is not created here")
	}
	found, err := session.QueryValue(ctx, c.Conn, "SELECT COUNT(*) FROM information_schema."+query)
	if err != nil {
		return nil, fmt.Errorf("look for %s in the target: %w", o, err)
	}
	if found == "0" {
		return nil, nil
	}
	there := &Object{Kind: o.Kind, Schema: schema, Name: o.Name}
	r := &reader{q: clientQuerier{c.Conn}}
	if err := r.define(ctx, there); err != nil {
		return nil, fmt.Errorf("in the target: %w", err)
	}
	return there, nil
}

// shown returns the statement that shows an object's definition, the number of its column, and a function that reads the settings.
func (o *Object) shown() (sql string, column int, also func(mysqlwire.TextRow)) {
	sql = "SHOW CREATE " + strings.ToUpper(string(o.Kind)) + " " + o.sqlName()
	switch o.Kind {
	case View:
		return sql, 1, func(row mysqlwire.TextRow) {
			o.Context = Context{Client: string(row[2]), Connection: string(row[3])}
		}
	case Sequence:
		return sql, 1, nil
	case Event:
		return sql, 3, func(row mysqlwire.TextRow) {
			o.Context = Context{
				SQLMode: string(row[1]), TimeZone: string(row[2]), Client: string(row[4]), Connection: string(row[5]), Database: string(row[6]),
				Status: o.Context.Status,
			}
		}
	}
	return sql, 2, func(row mysqlwire.TextRow) {
		o.Context = Context{SQLMode: string(row[1]), Client: string(row[3]), Connection: string(row[4]), Database: string(row[5])}
	}
}

// compare fails unless an object of the target equals the translated definition of this one. A text that the server has reformatted is compared with that
// of the same definition in the scratch schema.
func (c *Creator) compare(ctx context.Context, o, there *Object) error {
	if o.same(there) {
		return nil
	}
	if o.Kind != View && o.Kind != Function && o.Kind != Procedure {
		return fmt.Errorf("create %s in the target: %w", o, errOther)
	}
	if err := c.exec(ctx, o, "CREATE DATABASE IF NOT EXISTS "+session.Ident(c.Scratch)); err != nil {
		return err
	}
	schema := o.Schema // of functions that a view calls, whose names may be without it
	if o.Kind != View {
		schema = c.Scratch
		if err := c.exec(ctx, o, "ALTER DATABASE "+session.Ident(c.Scratch)+" COLLATE "+o.target.Context.Database); err != nil {
			return err
		}
	}
	here, scratch := "VIEW "+o.sqlName()+" AS ", "VIEW "+session.Ident(c.Scratch)+"."+session.Ident(o.Name)+" AS "
	err := c.as(ctx, o, schema, strings.Replace(o.target.Text, here, scratch, 1))
	var again *Object
	if err == nil {
		again, err = c.read(ctx, o, c.Scratch)
	}
	if dropped := c.exec(ctx, o, "DROP DATABASE "+session.Ident(c.Scratch)); err == nil {
		err = dropped
	}
	if err != nil {
		return err
	}
	if again == nil || strings.Replace(again.Definition, scratch, here, 1) != there.Definition || again.Context.normal() != there.Context.normal() {
		return fmt.Errorf("create %s in the target: %w", o, errOther)
	}
	return nil
}

// RaiseSequences sets the sequences of the target to the next values of those of the source, which are recorded if source is nil. None is lowered.
func (c *Creator) RaiseSequences(ctx context.Context, inv *Inventory, source session.Querier) error {
	if source != nil {
		if err := inv.ReadSequences(ctx, source); err != nil {
			return err
		}
	}
	for _, o := range inv.Copied(Sequence) {
		if _, err := strconv.ParseInt(o.Next, 10, 64); err != nil {
			return fmt.Errorf("raise %s: its next value is %.40q", o, o.Next)
		}
		if err := c.exec(ctx, o, "DO SETVAL("+o.sqlName()+", "+o.Next+", 0)"); err != nil {
			return err
		}
	}
	return nil
}
