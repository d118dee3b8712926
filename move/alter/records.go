package alter

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// records is a table of the altered server with one record, in JSON, for each altered table.
type records struct {
	name    string // in Schema
	column  string
	comment string
	fact    string // which a record proves; %s is the table
}

var (
	jobRecords   = records{name: "alter_job", column: "job", comment: "what tare alter copies", fact: "%s is being altered"}                                          //nolint:gochecknoglobals // a constant
	queueRecords = records{name: "alter_queue", column: "entry", comment: "the latest entry of a queue of tare alter for each table", fact: "a queue has altered %s"} //nolint:gochecknoglobals // a constant
)

func (r records) quotedName() string { return session.Ident(Schema) + "." + session.Ident(r.name) }

func (r records) where(s *Statement) string {
	return " WHERE table_schema = " + session.Literal(s.Schema) + " AND table_name = " + session.Literal(s.Table)
}

// loadRecord returns the record of a table, nil if there is none.
func loadRecord[T any](ctx context.Context, c *mysqlconn.Client, r records, s *Statement) (record *T, err error) {
	_, err = c.Query(ctx, "SELECT "+r.column+" FROM "+r.quotedName()+r.where(s), func(row mysqlwire.TextRow) error {
		record = new(T)
		return json.Unmarshal(row[0], record)
	})
	if state.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read from schema %s whether "+r.fact+": %w", Schema, s.fullName(), err)
	}
	return record, nil
}

// save writes the record of a table, in place of an earlier one.
func (r records) save(ctx context.Context, c *mysqlconn.Client, s *Statement, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	value := session.Literal(string(text))
	for _, sql := range []string{
		"CREATE TABLE IF NOT EXISTS " + r.quotedName() + ` (
  table_schema varbinary(256) NOT NULL,
  table_name   varbinary(256) NOT NULL,
  ` + r.column + ` longblob NOT NULL COMMENT 'JSON',
  started      datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (table_schema, table_name)
) ENGINE=InnoDB COMMENT='` + r.comment + "'",
		"INSERT INTO " + r.quotedName() + " (table_schema, table_name, " + r.column + ") VALUES (" + session.Literal(s.Schema) + ", " +
			session.Literal(s.Table) + ", " + value + ") ON DUPLICATE KEY UPDATE " + r.column + " = " + value,
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("record in schema %s that "+r.fact+": %w", Schema, s.fullName(), err)
		}
	}
	return nil
}

// delete deletes the record of a table.
func (r records) delete(ctx context.Context, c *mysqlconn.Client, s *Statement) error {
	if _, err := c.Exec(ctx, "DELETE FROM "+r.quotedName()+r.where(s)); err != nil && !state.Absent(err) {
		return fmt.Errorf("delete the record of %s in schema %s: %w", s.fullName(), Schema, err)
	}
	return nil
}
