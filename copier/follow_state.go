package copier

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A followState is the row of copy_follow that says how far a copy has followed its source:
// all changes before the position are in the target, and, when several writers were at work,
// some after it. Changes are applied again from there, which leaves the same rows.
type followState struct {
	state
	id      string // of the target tables
	source  string // identity of the server that is followed
	targets string // their names, a line each
}

func (s state) follows() string { return rowstream.Ident(s.schema) + ".copy_follow" }

// createFollow makes the table if it is missing.
func (s state) createFollow(ctx context.Context, c *mysqlconn.Client) error {
	return s.createTables(ctx, c, "CREATE TABLE IF NOT EXISTS "+s.follows()+` (
  id       varbinary(64) NOT NULL COMMENT 'of the target tables',
  version  int NOT NULL COMMENT 'form of this row',
  source   blob NOT NULL COMMENT 'identity of the server that is followed',
  targets  longblob NOT NULL COMMENT 'target tables, a line each',
  position longblob NOT NULL COMMENT 'of its binary log: all before it is in the target',
  noted    datetime(6) NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='how far tare copy --follow has come'`)
}

// followed is the state of following these tables together.
func (s state) followed(source string, tables []TableSpec) *followState {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].target()
	}
	slices.Sort(names)
	f := &followState{state: s, source: source, targets: strings.Join(names, "\n")}
	f.id = idOf(f.targets)
	return f
}

func idOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// formerID is the id of following the tables from a source, as it was until form 4 of the state.
func (f *followState) formerID(source string) string { return idOf(source + "\n" + f.targets) }

func (f *followState) where() string { return " WHERE id = " + literal(f.id) }

// position is where following goes on: zero when it has not begun. It waits for a
// transaction that is still being committed or rolled back.
func (f *followState) position(ctx context.Context, c *mysqlconn.Client) (p binlog.Position, err error) {
	version := 0
	_, err = c.Query(ctx, "SELECT version, position FROM "+f.follows()+f.where()+" FOR UPDATE", func(row mysqlwire.TextRow) error {
		var err1, err2 error
		version, err1 = strconv.Atoi(string(row[0]))
		p, err2 = binlog.ParsePosition(string(row[1]))
		return errors.Join(err1, err2)
	})
	if err == nil && version > StateVersion {
		err = fmt.Errorf("it was written by a later version of Tare (form %d, this one supports %d): use that version", version, StateVersion)
	}
	if absent(err) { // it has not followed
		err = nil
	}
	if err != nil {
		return p, fmt.Errorf("read from schema %s of the target how far the copy has followed: %w", f.schema, err)
	}
	return p, nil
}

// followedTables are the positions before which all changes of a target table are in it, by the
// name of the table: of all sets of tables that were followed from the source together, which may be recorded in several ways.
func (s state) followedTables(ctx context.Context, c *mysqlconn.Client, sources []string) (map[string][]binlog.Position, error) {
	all := make(map[string][]binlog.Position)
	_, err := c.Query(ctx, "SELECT targets, position FROM "+s.follows()+" WHERE source IN "+among(sources), func(row mysqlwire.TextRow) error {
		p, err := binlog.ParsePosition(string(row[1]))
		if err != nil {
			return err
		}
		for target := range strings.SplitSeq(string(row[0]), "\n") {
			all[target] = append(all[target], p)
		}
		return nil
	})
	if absent(err) { // none were
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("read from schema %s of the target which tables were followed: %w", s.schema, err)
	}
	return all, nil
}

// latest returns the latest of positions, of which any may be zero. It fails where neither of two is before the other: changes
// would be skipped after either.
func latest(all ...binlog.Position) (last binlog.Position, err error) {
	for _, p := range all {
		if p.IsZero() {
			continue
		}
		before, known := last.IsZero(), true
		if !before {
			before, known = last.Before(p)
		}
		if !known {
			return last, fmt.Errorf("its rows contain all changes before %s and all before %s, and neither is before the other: "+
				"they come from servers that had different transactions; copy the table again with --restart", last, p)
		}
		if before {
			last = p
		}
	}
	return last, nil
}

// note records, within the transaction that wrote the changes, that all before p is in the target. It checks the
// epoch there.
func (f *followState) note(ctx context.Context, c *mysqlconn.Client, p binlog.Position) error {
	err := f.lease.check(ctx, c)
	if err == nil {
		err = change(ctx, c, "REPLACE INTO "+f.follows()+" (id, version, source, targets, position, noted) VALUES ("+
			literal(f.id)+", "+strconv.Itoa(StateVersion)+", "+literal(f.source)+", "+literal(f.targets)+", "+literal(p.String())+", UTC_TIMESTAMP(6))", 1, 2)
	}
	if err != nil {
		return fmt.Errorf("note in schema %s of the target how far the copy has followed: %w", f.schema, err)
	}
	return nil
}

// record is note in a transaction of its own.
func (f *followState) record(ctx context.Context, c *mysqlconn.Client, p binlog.Position) error {
	return transaction(ctx, c, func() error { return f.note(ctx, c, p) })
}

// forget drops what is known.
func (f *followState) forget(ctx context.Context, c *mysqlconn.Client) error {
	if err := f.lease.write(ctx, c, func() error { return change(ctx, c, "DELETE FROM "+f.follows()+f.where()) }); err != nil {
		return fmt.Errorf("forget in schema %s of the target how far the copy had followed: %w", f.schema, err)
	}
	return nil
}
