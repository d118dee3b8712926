package rowstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Table is a table's description at one point in time.
type Table struct {
	Schema, Name string
	Columns      []Column // columns that are read; excludes generated ones
	Generated    []Column // columns that the server computes: their values can be included in checksums
	Key          []int    // the columns of the key that orders the rows, as indexes in Columns
	KeyName      string   // of the key's index, "PRIMARY" for the primary key
	Descending   []bool   // by column of Key: chunks have it in descending order; nil: all ascend
	Create       string   // the text of SHOW CREATE TABLE
	Engine       string
	Triggers     []string  // names of its triggers
	Cascades     []Cascade `json:"-"` // set by ResolveCascades, for a Follower that derives their changes; not sent over a wire

	RowsEstimate  int64 // the server's estimate
	BytesEstimate int64 // the server's estimate, without indexes
}

// FullName returns the table's name with its schema, for messages.
func (t *Table) FullName() string { return t.Schema + "." + t.Name }

// SQLName returns the table's name with its schema, quoted for statements.
func (t *Table) SQLName() string { return session.Ident(t.Schema) + "." + session.Ident(t.Name) }

// ErrNoTable means that a table does not exist, or that the user may not see it.
var ErrNoTable = errors.New("there is no such table, or the user may not see it")

// ParseTable splits "schema.table".
func ParseTable(text string) (schema, name string, err error) {
	schema, name, ok := strings.Cut(text, ".")
	if !ok || schema == "" || name == "" || strings.Contains(name, ".") {
		return "", "", fmt.Errorf("table %q is not of the form schema.table", text)
	}
	return schema, name, nil
}

// ReadTable describes a table over a connection of Connect.
func ReadTable(ctx context.Context, c *mysqlconn.Client, schema, name string) (*Table, error) {
	t := &Table{Schema: schema, Name: name}
	if err := t.read(ctx, c); err != nil {
		return nil, fmt.Errorf("describe table %s: %w", t.FullName(), err)
	}
	return t, nil
}

// read reads the description in the form in which it is parsed, whatever the session's sql_mode is: some modes quote names
// otherwise, leave options out, or have other names of types.
func (t *Table) read(ctx context.Context, c *mysqlconn.Client) error {
	mode, err := session.QueryValue(ctx, c, "SELECT @@SESSION.sql_mode")
	if err != nil {
		return err
	}
	err = session.Set(ctx, c, session.Usual(c, "sql_mode")...)
	for _, step := range []func(context.Context, *mysqlconn.Client) error{
		t.readTable, t.readColumns, t.readCreate, t.readKey, t.readTriggers,
	} {
		if err == nil {
			err = step(ctx, c)
		}
	}
	if restored := session.Set(ctx, c, session.Value{Name: "sql_mode", SQL: session.Literal(mode)}); restored != nil && (err == nil || errors.Is(err, ErrNoTable)) {
		err = restored
	}
	return err
}

// SchemaCondition returns the condition for the rows of an information_schema view about the table.
func (t *Table) SchemaCondition() string {
	return "TABLE_SCHEMA = " + session.SchemaText(t.Schema) + " AND TABLE_NAME = " + session.SchemaText(t.Name)
}

func (t *Table) readTable(ctx context.Context, c *mysqlconn.Client) error {
	kind := ""
	_, err := c.Query(ctx, "SELECT TABLE_TYPE, ENGINE, TABLE_ROWS, DATA_LENGTH FROM information_schema.TABLES WHERE "+t.SchemaCondition(),
		func(row mysqlwire.TextRow) error {
			kind = string(row[0])
			t.Engine = string(row[1])
			t.RowsEstimate, _ = strconv.ParseInt(string(row[2]), 10, 64)
			t.BytesEstimate, _ = strconv.ParseInt(string(row[3]), 10, 64)
			return nil
		})
	switch {
	case err != nil:
		return err
	case kind == "":
		return ErrNoTable
	case kind == "SYSTEM VERSIONED":
		return errors.New("it is system versioned: the history of its rows would be lost")
	case kind != "BASE TABLE":
		return fmt.Errorf("it is a %s: only base tables have rows of their own", strings.ToLower(kind))
	}
	return nil
}

func (t *Table) readColumns(ctx context.Context, c *mysqlconn.Client) error {
	_, err := c.Query(ctx, "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE, EXTRA, GENERATION_EXPRESSION"+
		" FROM information_schema.COLUMNS WHERE "+t.SchemaCondition()+" ORDER BY ORDINAL_POSITION",
		func(row mysqlwire.TextRow) error {
			extra := strings.ToUpper(string(row[6]))
			col := Column{
				Name: string(row[0]), Type: strings.ToLower(string(row[1])), FullType: strings.TrimSuffix(string(row[2]), createtable.OldTemporal),
				Charset: string(row[3]), Collation: string(row[4]), Nullable: string(row[5]) == "YES",
				Unsigned:  strings.Contains(string(row[2]), "unsigned"),
				Generated: createtable.IsGenerated(extra),
				Invisible: strings.Contains(extra, "INVISIBLE"),
				Auto:      strings.Contains(extra, "AUTO_INCREMENT"),
			}
			if col.Generated {
				col.Expression, col.Stored = string(row[7]), !strings.Contains(extra, "VIRTUAL")
				t.Generated = append(t.Generated, col)
				return nil
			}
			t.Columns = append(t.Columns, col)
			return nil
		})
	for i := range t.Columns {
		if err == nil {
			err = t.Columns[i].Known()
		}
	}
	return err
}

// columnOf returns a column by its index: indexes beyond Columns are of Generated.
func (t *Table) columnOf(number int) *Column {
	if number < len(t.Columns) {
		return &t.Columns[number]
	}
	return &t.Generated[number-len(t.Columns)]
}

// readKey chooses the index that orders the rows: the primary key, or else a unique one of whole columns that
// are never NULL. Statements must be able to name it, and equal values must identify one row.
func (t *Table) readKey(ctx context.Context, c *mysqlconn.Client) error {
	type index struct {
		name       string
		columns    []int
		descending []bool
		usable     bool
	}
	var indexes []*index
	_, err := c.Query(ctx, "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART, NULLABLE, INDEX_TYPE, NON_UNIQUE, COLLATION FROM information_schema.STATISTICS WHERE "+
		t.SchemaCondition()+" ORDER BY INDEX_NAME = 'PRIMARY' DESC, INDEX_NAME, SEQ_IN_INDEX",
		func(row mysqlwire.TextRow) error {
			name := string(row[0])
			if len(indexes) == 0 || indexes[len(indexes)-1].name != name {
				indexes = append(indexes, &index{name: name, usable: string(row[5]) == "0" && string(row[4]) == "BTREE"})
			}
			x := indexes[len(indexes)-1]
			i := t.column(string(row[1]))
			if i < 0 || row[2] != nil || string(row[3]) == "YES" || !t.Columns[i].Keyable() {
				x.usable = false
				return nil
			}
			x.columns, x.descending = append(x.columns, i), append(x.descending, string(row[6]) == "D")
			return nil
		})
	if err != nil {
		return err
	}
	for _, k := range createtable.Keys(t.Create) {
		for _, x := range indexes {
			if x.name == k.Name && (k.Hidden() || k.WithoutOverlaps()) {
				x.usable = false
			}
		}
	}
	for _, x := range indexes {
		if x.usable {
			t.Key, t.KeyName = x.columns, x.name
			if slices.Contains(x.descending, true) && slices.Contains(x.descending, false) { // an index of one direction is read in either
				t.Descending = x.descending
			}
			return nil
		}
	}
	return nil
}

// column returns the index of the column with a name, or -1.
func (t *Table) column(name string) int {
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			return i
		}
	}
	return -1
}

func (t *Table) readTriggers(ctx context.Context, c *mysqlconn.Client) error {
	_, err := c.Query(ctx, "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = "+
		session.SchemaText(t.Schema)+" AND EVENT_OBJECT_TABLE = "+session.SchemaText(t.Name)+" ORDER BY 1", appendTo(&t.Triggers))
	return err
}

func (t *Table) readCreate(ctx context.Context, c *mysqlconn.Client) error {
	_, err := c.Query(ctx, "SHOW CREATE TABLE "+t.SQLName(), func(row mysqlwire.TextRow) error {
		t.Create = string(row[1])
		return nil
	})
	return err
}

// appendTo collects the first column of each row.
func appendTo(list *[]string) func(mysqlwire.TextRow) error {
	return func(row mysqlwire.TextRow) error {
		*list = append(*list, string(row[0]))
		return nil
	}
}

// SameShape reports whether rows of both descriptions are read alike.
func (t *Table) SameShape(other *Table) bool {
	return t.KeyName == other.KeyName && slices.Equal(t.Columns, other.Columns) && slices.Equal(t.Key, other.Key) && slices.Equal(t.Generated, other.Generated)
}

// Schemas returns the schemas of tables, without duplicates.
func Schemas(tables []*Table) (names []string) {
	for _, t := range tables {
		names = append(names, t.Schema)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
