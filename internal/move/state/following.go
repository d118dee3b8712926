package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A Following is the row of copy_follow that has the position up to which a copy has followed its source: all
// changes before the position are in the target, and, if several writers were active, some after it. Changes
// are applied again from there, which yields the same rows.
type Following struct {
	State
	ID      string // of the target tables
	Source  string // identity of the followed server
	Targets string // their names, one per line
}

// Follows returns the name of copy_follow.
func (s State) Follows() string { return session.Ident(s.Schema) + ".copy_follow" }

// CreateFollow creates the table if it is missing.
func (s State) CreateFollow(ctx context.Context, c *mysqlconn.Client) error {
	return s.createTables(ctx, c, "CREATE TABLE IF NOT EXISTS "+s.Follows()+` (
  id       varbinary(64) NOT NULL COMMENT 'of the target tables',
  version  int NOT NULL COMMENT 'form of this row',
  source   blob NOT NULL COMMENT 'identity of the server that is followed',
  targets  longblob NOT NULL COMMENT 'target tables, a line each',
  position longblob NOT NULL COMMENT 'of its binary log: all before it is in the target',
  noted    datetime(6) NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='how far tare copy --follow has come'`)
}

// Followed returns the state of following these tables together.
func (s State) Followed(source string, tables []tabledef.Spec) *Following {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].StateTarget()
	}
	slices.Sort(names)
	f := &Following{State: s, Source: source, Targets: strings.Join(names, "\n")}
	f.ID = idOf(f.Targets)
	return f
}

func idOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// FollowedBack returns the state of following these tables from the target of their copy, which is recorded in
// their source. Its id also depends on that target, so that it differs from the id of a copy to them.
func (s State) FollowedBack(target string, tables []tabledef.Spec) *Following {
	f := s.Followed(target, tables)
	f.ID = idOf(target + "\n" + f.Targets)
	return f
}

// Where returns the condition for the row.
func (f *Following) Where() string { return " WHERE id = " + session.Literal(f.ID) }

// Position returns the position from which following resumes; zero if it has not started. It waits for a
// transaction that is still being committed or rolled back.
func (f *Following) Position(ctx context.Context, c *mysqlconn.Client) (p binlog.Position, err error) {
	err = RepeatDeadlocked(func() error {
		_, err := c.Query(ctx, "SELECT version, position FROM "+f.Follows()+f.Where()+" FOR UPDATE", func(row mysqlwire.TextRow) error {
			var err error
			p, err = binlog.ParsePosition(string(row[1]))
			return errors.Join(CheckForm(row[0]), err)
		})
		return err
	})
	if Absent(err) { // nothing was followed
		err = nil
	}
	if err != nil {
		return p, fmt.Errorf("read from schema %s of the target how far the copy has followed: %w", f.Schema, err)
	}
	return p, nil
}

// FollowedTables returns, by target table, the positions before which all of its changes are in it: one for
// each set of tables that was followed together from the source, which may be recorded under several names.
func (s State) FollowedTables(ctx context.Context, c *mysqlconn.Client, sources []string) (map[string][]binlog.Position, error) {
	all := make(map[string][]binlog.Position)
	_, err := c.Query(ctx, "SELECT targets, position FROM "+s.Follows()+" WHERE source IN "+among(sources), func(row mysqlwire.TextRow) error {
		p, err := binlog.ParsePosition(string(row[1]))
		if err != nil {
			return err
		}
		for target := range strings.SplitSeq(string(row[0]), "\n") {
			all[target] = append(all[target], p)
		}
		return nil
	})
	if Absent(err) { // nothing was followed
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("read from schema %s of the target which tables were followed: %w", s.Schema, err)
	}
	return all, nil
}

// Latest returns the latest of positions, ignoring those that are zero. It fails if neither of two is before
// the other: changes would be skipped after either.
func Latest(all ...binlog.Position) (last binlog.Position, err error) {
	for _, p := range all {
		before, known := last.IsZero(), true
		if !before { // a zero one is before none
			before, known = last.Before(p)
		}
		if !known {
			return last, fmt.Errorf("its rows contain all changes before %s and all before %s, and neither is before the other: "+
				"they come from servers that had different transactions; copy the table again with option restart", last, p)
		}
		if before {
			last = p
		}
	}
	return last, nil
}

// Note records, within the transaction that wrote the changes, that everything before p is in the target. It
// also checks the epoch.
func (f *Following) Note(ctx context.Context, c *mysqlconn.Client, p binlog.Position) error {
	err := f.Lease.Check(ctx, c)
	if err == nil {
		err = ExecExact(ctx, c, "REPLACE INTO "+f.Follows()+" (id, version, source, targets, position, noted) VALUES ("+
			session.Literal(f.ID)+", "+strconv.Itoa(StateVersion)+", "+session.Literal(f.Source)+", "+session.Literal(f.Targets)+", "+session.Literal(p.String())+", UTC_TIMESTAMP(6))", 1, 2)
	}
	if err != nil {
		return fmt.Errorf("note in schema %s of the target how far the copy has followed: %w", f.Schema, err)
	}
	return nil
}

// Record is Note in a separate transaction.
func (f *Following) Record(ctx context.Context, c *mysqlconn.Client, p binlog.Position) error {
	return transaction(ctx, c, func() error { return f.Note(ctx, c, p) })
}

// Forget deletes the record.
func (f *Following) Forget(ctx context.Context, c *mysqlconn.Client) error {
	if err := f.Lease.Write(ctx, c, func() error { return ExecExact(ctx, c, "DELETE FROM "+f.Follows()+f.Where()) }); err != nil {
		return fmt.Errorf("forget in schema %s of the target how far the copy had followed: %w", f.Schema, err)
	}
	return nil
}

// RecordedSources returns the recorded sources of the tables' rows.
func (s State) RecordedSources(ctx context.Context, c *mysqlconn.Client, specs []tabledef.Spec) (all []string, err error) {
	for i := range specs {
		source, err := session.QueryValue(ctx, c, "SELECT source FROM "+s.Tables()+RowsOf(&specs[i]))
		if Absent(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the state of %s in the target: %w", specs[i].Target(), err)
		}
		if source != "" && !slices.Contains(all, source) {
			all = append(all, source)
		}
	}
	return all, nil
}

// among returns an SQL list of strings.
func among(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = session.Literal(s)
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// Cutovers returns the name of copy_cutover.
func (s State) Cutovers() string { return session.Ident(s.Schema) + ".copy_cutover" }

// CreateCutover creates the table if it is missing.
func (s State) CreateCutover(ctx context.Context, c *mysqlconn.Client) error {
	return s.createTables(ctx, c, "CREATE TABLE IF NOT EXISTS "+s.Cutovers()+` (
  id              varbinary(64) NOT NULL COMMENT 'as in copy_follow',
  version         int NOT NULL COMMENT 'form of this row',
  source          blob NOT NULL COMMENT 'identity of the server that clients come from',
  targets         longblob NOT NULL COMMENT 'target tables, a line each',
  phase           varbinary(16) NOT NULL COMMENT 'cutting, cut, reversing, done, handing over or handed over',
  source_position longblob NOT NULL COMMENT 'of its binary log: all before it was in the target at the switch',
  target_position longblob NOT NULL COMMENT 'of the binary log here: what clients write comes after it',
  noted           datetime(6) NOT NULL,
  switched        datetime(6) DEFAULT NULL COMMENT 'when the switch was noted',
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='where the clients of a tare copy --cutover are'`)
}
