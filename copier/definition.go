package copier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A definition is how the source described a table: what its rows look like from the place on that
// following goes on from. It is kept in the target, so that a run after the table was altered can tell.
type definition struct {
	table   *rowstream.Table // as it was described
	layout  []int            // of its columns
	upto    binlog.Position  // changes of the definition before it are contained; zero: none
	stopped string           // the statement about the table that has ended a run; empty: none has
}

// A describedTable is what is noted of a definition, in JSON.
type describedTable struct {
	Table  *rowstream.Table
	Layout []int
}

func (s state) definitions() string { return rowstream.Ident(s.schema) + ".copy_definition" }

// define notes a table's definition, and that nothing has stopped a run with it.
func (s state) define(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, d definition) error {
	text, err := json.Marshal(describedTable{d.table, d.layout})
	if err != nil {
		return err
	}
	return s.write(ctx, c, spec, func() error {
		return change(ctx, c, "REPLACE INTO "+s.definitions()+" (target_schema, target_table, definition, upto, stopped) VALUES ("+
			literal(spec.ToSchema)+", "+literal(spec.ToName)+", "+literal(string(text))+", "+literal(d.upto.String())+", '')", 1, 2)
	})
}

// stoppedBy notes the statement that has ended a run.
func (s state) stoppedBy(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, sql string) error {
	return s.write(ctx, c, spec, func() error {
		if err := change(ctx, c, "UPDATE "+s.definitions()+" SET stopped = "+literal(sql)+spec.where(), 1, 0); err != nil {
			return err
		}
		return mustRead(ctx, c, "SELECT stopped FROM "+s.definitions()+spec.where()+" FOR UPDATE", sql)
	})
}

// definition reads what is noted, nil when nothing is.
func (s state) definition(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) (d *definition, err error) {
	_, err = c.Query(ctx, "SELECT definition, upto, stopped FROM "+s.definitions()+spec.where(), func(row mysqlwire.TextRow) error {
		var described describedTable
		err := json.Unmarshal(row[0], &described)
		d = &definition{table: described.Table, layout: described.Layout, stopped: string(row[2])}
		if err == nil {
			d.upto, err = binlog.ParsePosition(string(row[1]))
		}
		return err
	})
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read from schema %s of the target how %s was defined: %w", s.schema, spec.source(), err)
	}
	return d, nil
}

// absent reports whether an error says that there is no such table or schema.
func absent(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && (refused.Number == errNoSuchTable || refused.Number == mysqlwire.ErrnoUnknownDatabase)
}

// sameShape reports whether rows of both are read alike.
func (d *definition) sameShape(b *definition) bool {
	return reflect.DeepEqual(d.table.Columns, b.table.Columns) && slices.Equal(d.layout, b.layout) && slices.Equal(d.table.Key, b.table.Key)
}
