package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// errNoSuchTable is MySQL's error number for a missing table.
const errNoSuchTable = 1146

// A workload is tables and an operation on them.
type workload struct {
	name   string
	tables []table
	op     operation
}

// A table is a table of a workload. It is created and filled if it is missing.
type table struct {
	name   string
	create string
	rows   int

	// row appends the values of row i, from 0, as SQL: (1, 'x').
	row func(dst []byte, i int) []byte
}

// Workloads returns the names of the workloads.
func Workloads() []string { return []string{"point-select", "read-only", "read-write", "tpcc"} }

// newWorkload finds a workload and sizes it.
func newWorkload(o *OLTPOptions) (*workload, error) {
	switch o.Workload {
	case "point-select":
		return &workload{name: o.Workload, tables: sbTables(o), op: pointSelect(o)}, nil
	case "read-only":
		return &workload{name: o.Workload, tables: sbTables(o), op: readOnly(o)}, nil
	case "read-write":
		return &workload{name: o.Workload, tables: sbTables(o), op: readWrite(o)}, nil
	case "tpcc":
		return &workload{name: o.Workload, tables: tpccTables(o), op: tpcc(o)}, nil
	}
	return nil, fmt.Errorf("unknown workload %q: want one of %s", o.Workload, strings.Join(Workloads(), ", "))
}

// prepare creates and fills missing tables, and checks that existing ones are large enough.
func (w *workload) prepare(ctx context.Context, s *connection, c *connector, progress func(format string, args ...any)) error {
	for i := range w.tables {
		t := &w.tables[i]
		have, err := s.runInt(ctx, nil, "SELECT COUNT(*) FROM "+t.name)
		switch {
		case isError(err, errNoSuchTable):
			progress("creating %s with %d rows", t.name, t.rows)
			if err := t.make(ctx, s, c); err != nil {
				return fmt.Errorf("prepare table %s: %w", t.name, err)
			}
		case err != nil:
			return fmt.Errorf("prepare table %s: %w", t.name, err)
		case have < int64(t.rows):
			return fmt.Errorf("table %s has %d rows, the workload requires %d: drop it, or use fewer rows", t.name, have, t.rows)
		}
	}
	return nil
}

// fillBytes is the approximate length of a filling statement.
const fillBytes = 256 << 10

// make creates and fills the table. If that fails, or is interrupted, it leaves none.
func (t *table) make(ctx context.Context, s *connection, c *connector) error {
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), createLimit)
	defer cancel()
	if err := s.run(whole, t.create); err != nil { // not interrupted: the server would create the table after the client had disconnected
		return err
	}
	err := t.fill(ctx, s)
	if err == nil {
		return nil
	}
	s, lost := c.connect(whole)
	if lost == nil {
		lost = errors.Join(s.run(whole, "DROP TABLE "+t.name), s.close())
	}
	return errors.Join(err, lost)
}

// createLimit bounds the creation of a table.
const createLimit = time.Minute

func (t *table) fill(ctx context.Context, s *connection) error {
	head := []byte("INSERT INTO " + t.name + " VALUES ")
	stmt := slices.Clone(head)
	for i := range t.rows {
		if len(stmt) > len(head) {
			stmt = append(stmt, ',')
		}
		stmt = t.row(stmt, i)
		if len(stmt) >= fillBytes || i == t.rows-1 {
			if err := s.run(ctx, string(stmt)); err != nil {
				return err
			}
			stmt = stmt[:len(head)]
		}
	}
	return nil
}

// drop removes the workload's tables.
func (w *workload) drop(ctx context.Context, s *connection) error {
	for i := range w.tables {
		if err := s.run(ctx, "DROP TABLE "+w.tables[i].name); err != nil {
			return err
		}
	}
	return nil
}

// isError reports whether err is the server's error with this number.
func isError(err error, number mysqlwire.Errno) bool {
	e, ok := errors.AsType[*mysqlconn.ServerError](err)
	return ok && e.Number == number
}
