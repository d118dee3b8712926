package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// StateVersion is the form of the state's tables.
const StateVersion = 4

// CheckForm returns an error unless a recorded version is StateVersion.
func CheckForm(version []byte) error {
	if n, err := strconv.Atoi(string(version)); err != nil || n != StateVersion {
		return fmt.Errorf("it was written by another version of Tare (form %s, this one supports %d): use that version", version, StateVersion)
	}
	return nil
}

// DefaultStateSchema is the default schema of the state.
const DefaultStateSchema = "_tare"

// A State is the persistent state of a copy in the target, in the tables of a separate schema:
//
//	copy_table     one row a target table: where its rows come from, how far it is, which
//	               indexes are still to be built
//	copy_chunk     one row a chunk that was cut: its key range, its rows, whether it is copied
//	copy_verified  one row a chunk that a verification has found equal, until it is through
//	copy_definition one row a table: how the source has described it
//	copy_follow    one row a copy that follows its source: how far it has come (following.go)
//	copy_cutover   one row a cutover: how far it is (package copier)
//	copy_foreign_key one row per foreign key that is to be created after the rows
//	copy_lookup    one row per target table that a lookup table selects the rows of (lookup.go)
//	copy_epoch     one row per target table: which run may write to it (lease.go)
//
// A chunk is recorded as copied in the transaction that writes its rows, so state and rows
// cannot differ, no matter what is killed, or when. Chunks may be copied in any order.
//
// Everything is written in a transaction that checks the run's epoch. No write passes over what it finds: a
// number of rows that is not the expected one, or another value than was written, is an error.
type State struct {
	Schema string
	Lease  *Lease // nil: read only
}

// Tables returns the name of copy_table.
func (s State) Tables() string    { return session.Ident(s.Schema) + ".copy_table" }
func (s State) chunks() string    { return session.Ident(s.Schema) + ".copy_chunk" }
func (s State) verifieds() string { return session.Ident(s.Schema) + ".copy_verified" }

// createTables creates the state's schema, and tables of it, if they are missing.
func (s State) createTables(ctx context.Context, c *mysqlconn.Client, statements ...string) error {
	for _, sql := range append([]string{"CREATE DATABASE IF NOT EXISTS " + session.Ident(s.Schema)}, statements...) {
		if _, err := c.Exec(ctx, sql); err != nil {
			err = fmt.Errorf("create the state's tables in schema %s of the target: %w", s.Schema, err)
			if refused := new(mysqlconn.ServerError); errors.As(err, &refused) && (refused.Number == errDatabaseDenied || refused.Number == ErrTableDenied) {
				return fmt.Errorf("%w; GRANT ALL ON %s.* TO the target's user, or name another schema with option state-schema", err, session.Ident(s.Schema))
			}
			return WithAdvice(err)
		}
	}
	return nil
}

// Create creates the state's tables if they are missing.
func (s State) Create(ctx context.Context, c *mysqlconn.Client) error {
	return s.createTables(ctx, c,
		"CREATE TABLE IF NOT EXISTS "+s.Tables()+` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  version       int NOT NULL COMMENT 'form of this row and of its chunks',
  source        blob NOT NULL COMMENT 'identity of the server that the rows come from',
  spec          blob NOT NULL COMMENT 'which rows and columns they are',
  phase         varbinary(16) NOT NULL COMMENT 'copying, indexing, finished or emptying',
  position      longblob NOT NULL COMMENT 'of the binary log when the first chunk was read',
  indexes       longblob NOT NULL COMMENT 'definitions of the indexes left out, a line each',
  started       datetime NOT NULL,
  finished      datetime DEFAULT NULL,
  PRIMARY KEY (target_schema, target_table)
) ENGINE=InnoDB COMMENT='what tare copy has done'`,
		"CREATE TABLE IF NOT EXISTS "+s.chunks()+` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  chunk         bigint NOT NULL,
  after_key     longblob DEFAULT NULL COMMENT 'length-encoded values; NULL: the start',
  upto_key      longblob DEFAULT NULL COMMENT 'length-encoded values; NULL: the end',
  copied        tinyint NOT NULL DEFAULT 0,
  row_count     bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (target_schema, target_table, chunk)
) ENGINE=InnoDB COMMENT='chunks of the tables in copy_table'`,
		"CREATE TABLE IF NOT EXISTS "+s.verifieds()+` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  chunk         bigint NOT NULL,
  PRIMARY KEY (target_schema, target_table, chunk)
) ENGINE=InnoDB COMMENT='chunks that a verification which is not through has found equal'`,
		"CREATE TABLE IF NOT EXISTS "+s.definitions()+` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  definition    longblob NOT NULL COMMENT 'of the source, in JSON, as it was where following goes on',
  upto          longblob NOT NULL COMMENT 'place in the binary log before which changes of the definition are contained',
  stopped       longblob NOT NULL COMMENT 'the statement about the table that has ended a run',
  PRIMARY KEY (target_schema, target_table)
) ENGINE=InnoDB COMMENT='how the source has described the tables of tare copy'`,
		"CREATE TABLE IF NOT EXISTS "+s.foreignKeys()+` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  name          varbinary(256) NOT NULL,
  definition    longblob NOT NULL COMMENT 'for ALTER TABLE … ADD',
  referred      longblob NOT NULL COMMENT 'the table that it refers to, as SQL wants it',
  PRIMARY KEY (target_schema, target_table, name)
) ENGINE=InnoDB COMMENT='foreign keys that tare copy is to create after the rows'`)
}

// RowsOf returns the condition for the rows of one target table, or of one of its sources if there are several.
func RowsOf(s *tabledef.Spec) string {
	return " WHERE target_schema = " + session.Literal(s.ToSchema) + " AND target_table = " + session.Literal(s.StateName())
}

// Load returns the records of a target table, or nil if there are none. It waits for transactions that are
// still being committed or rolled back.
func (s State) Load(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, keyColumns int) (t *tabledef.Recorded, err error) {
	err = RepeatDeadlocked(func() error {
		t, err = s.load(ctx, c, spec, keyColumns)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the state of %s in the target: %w", spec.Target(), err)
	}
	return t, nil
}

func (s State) load(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, keyColumns int) (t *tabledef.Recorded, err error) {
	_, err = c.Query(ctx, "SELECT version, source, spec, phase, indexes, started, position FROM "+s.Tables()+RowsOf(spec)+" FOR UPDATE", func(row mysqlwire.TextRow) error {
		t = &tabledef.Recorded{Source: string(row[1]), Spec: string(row[2]), Phase: tabledef.Phase(row[3]), Started: string(row[5]), Position: string(row[6])}
		for line := range strings.Lines(string(row[4])) {
			t.Indexes = append(t.Indexes, tabledef.Index(strings.TrimSuffix(line, "\n")))
		}
		return CheckForm(row[0])
	})
	if err == nil && t != nil && t.Phase == tabledef.Emptying {
		err = errors.New("a run with option restart was stopped before it had emptied the table: repeat it with option restart")
	}
	if err == nil && t != nil {
		if t.Chunks, err = s.loadChunks(ctx, c, spec, keyColumns); err == nil {
			err = Contiguous(t.Chunks, t.Phase != tabledef.Copying)
		}
		if err == nil {
			t.Keys, err = s.LoadKeys(ctx, c, spec)
		}
	}
	return t, err
}

// loadChunks reads a table's chunks. It waits for transactions that are still being committed or rolled back.
func (s State) loadChunks(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, keyColumns int) (chunks []tabledef.RecordedChunk, err error) {
	_, err = c.Query(ctx, "SELECT chunk, after_key, upto_key, copied, row_count FROM "+s.chunks()+RowsOf(spec)+" ORDER BY chunk FOR UPDATE", func(row mysqlwire.TextRow) error {
		k := tabledef.RecordedChunk{Copied: string(row[3]) == "1"}
		number, err1 := strconv.Atoi(string(row[0]))
		after, err2 := rowstream.DecodeKey(row[1], keyColumns)
		upto, err3 := rowstream.DecodeKey(row[2], keyColumns)
		rows, err4 := strconv.ParseInt(string(row[4]), 10, 64)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return fmt.Errorf("chunk %s: %w", row[0], err)
		}
		k.Chunk, k.Rows = rowstream.Chunk{Number: number, After: after, Upto: upto}, rows
		chunks = append(chunks, k)
		return nil
	})
	return chunks, err
}

// Contiguous returns an error unless the chunks follow each other without a gap or an overlap from the start
// of the table. With complete, they must also reach its end, and all must be copied.
func Contiguous(chunks []tabledef.RecordedChunk, complete bool) error {
	const try = "rows between them may be missing in the target; copy the table again with option restart"
	for i, k := range chunks {
		switch {
		case k.Number != i:
			return fmt.Errorf("%w: chunk %d is missing: %s", ErrState, i, try)
		case i == 0 && k.After != nil, i > 0 && chunks[i-1].Upto == nil, i > 0 && EncodeKey(k.After) != EncodeKey(chunks[i-1].Upto):
			return fmt.Errorf("%w: chunk %d does not start where the one before it ends: %s", ErrState, i, try)
		case complete && !k.Copied:
			return fmt.Errorf("%w: chunk %d is not copied, although a run has copied it: the target may have lost acknowledged commits; "+
				"run the same command again, and if the table counts as finished, copy it again with option restart", ErrState, i)
		}
	}
	if complete && (len(chunks) == 0 || chunks[len(chunks)-1].Upto != nil) {
		return fmt.Errorf("%w: %d chunks do not reach the end of the table: %s", ErrState, len(chunks), try)
	}
	return nil
}

// EncodeKey returns a key tuple as an SQL literal.
func EncodeKey(key mysqlwire.TextRow) string {
	if key == nil {
		return "NULL"
	}
	return session.Literal(string(rowstream.EncodeKey(key)))
}

// Begin records that a table is being copied. text describes the rows and the order of the chunks.
func (s State) Begin(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, text, source, position string, indexes []tabledef.Index, keys []tabledef.ForeignKey) error {
	var lines strings.Builder
	for _, x := range indexes {
		lines.WriteString(string(x) + "\n")
	}
	return s.Write(ctx, c, spec, func() error {
		if err := ExecExact(ctx, c, "DELETE FROM "+s.Tables()+RowsOf(spec)+" AND phase = "+session.Literal(string(tabledef.Emptying)), 0, 1); err != nil {
			return err
		}
		err := ExecExact(ctx, c, "INSERT INTO "+s.Tables()+" (target_schema, target_table, version, source, spec, phase, position, indexes, started) VALUES ("+
			session.Literal(spec.ToSchema)+", "+session.Literal(spec.StateName())+", "+strconv.Itoa(StateVersion)+", "+session.Literal(source)+", "+session.Literal(text)+", "+
			session.Literal(string(tabledef.Copying))+", "+session.Literal(position)+", "+session.Literal(lines.String())+", UTC_TIMESTAMP())", 1)
		if err != nil {
			return err
		}
		return s.RecordKeys(ctx, c, spec, keys)
	})
}

// Cut records a chunk before any of its rows are copied. The bounds are read back, because the recorded ones
// are those to copy. A repeated call finds its own bounds.
func (s State) Cut(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, k rowstream.Chunk) error {
	return s.Write(ctx, c, spec, func() error {
		if err := ExecExact(ctx, c, "INSERT INTO "+s.chunks()+" (target_schema, target_table, chunk, after_key, upto_key) VALUES ("+
			session.Literal(spec.ToSchema)+", "+session.Literal(spec.StateName())+", "+strconv.Itoa(k.Number)+", "+EncodeKey(k.After)+", "+EncodeKey(k.Upto)+
			") ON DUPLICATE KEY UPDATE chunk = chunk"); err != nil {
			return err
		}
		found := false
		_, err := c.Query(ctx, "SELECT after_key <=> "+EncodeKey(k.After)+" AND upto_key <=> "+EncodeKey(k.Upto)+" AND copied = 0 FROM "+s.chunks()+
			RowsOf(spec)+" AND chunk = "+strconv.Itoa(k.Number)+" FOR UPDATE", func(row mysqlwire.TextRow) error {
			found = string(row[0]) == "1"
			return nil
		})
		if err == nil && !found {
			err = fmt.Errorf("%w: chunk %d is recorded with other bounds than this run's, or as copied; run the same command again to resume from the recorded state", ErrState, k.Number)
		}
		return err
	})
}

// PhaseOf returns the phase of a table and the position of its first snapshot; empty and zero if there is no
// record.
func (s State) PhaseOf(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) (is tabledef.Phase, p binlog.Position, err error) {
	_, err = c.Query(ctx, "SELECT phase, position FROM "+s.Tables()+RowsOf(spec), func(row mysqlwire.TextRow) (err error) {
		is = tabledef.Phase(row[0])
		p, err = binlog.ParsePosition(string(row[1]))
		return err
	})
	if Absent(err) {
		err = nil
	}
	return is, p, err
}

// copied records, within the transaction that wrote the rows, that a chunk is copied. It checks the epoch there.
func (s State) copied(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, k rowstream.Chunk, rows int64) error {
	err := s.Lease.Check(ctx, c)
	if err == nil {
		err = ExecExact(ctx, c, "UPDATE "+s.chunks()+" SET copied = 1, row_count = "+strconv.FormatInt(rows, 10)+
			RowsOf(spec)+" AND chunk = "+strconv.Itoa(k.Number)+" AND copied = 0", 1)
	}
	return s.wrapError(spec, err)
}

// isCopied reports whether a chunk's transaction was committed. It waits for a transaction in progress.
func (s State) isCopied(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, k rowstream.Chunk) (copied bool, err error) {
	_, err = c.Query(ctx, "SELECT copied FROM "+s.chunks()+RowsOf(spec)+" AND chunk = "+strconv.Itoa(k.Number)+" FOR UPDATE", func(row mysqlwire.TextRow) error {
		copied = string(row[0]) == "1"
		return nil
	})
	return copied, s.wrapError(spec, err)
}

// SetPhase records a table's phase. All phases after copying require that the whole table is recorded as copied.
func (s State) SetPhase(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, p tabledef.Phase, keyColumns int) error {
	end := ""
	if p == tabledef.Finished {
		end = ", finished = UTC_TIMESTAMP()"
	}
	return s.Write(ctx, c, spec, func() error {
		chunks, err := s.loadChunks(ctx, c, spec, keyColumns)
		if err == nil {
			err = Contiguous(chunks, true)
		}
		if err == nil {
			err = ExecExact(ctx, c, "UPDATE "+s.Tables()+" SET phase = "+session.Literal(string(p))+end+RowsOf(spec), 1, 0)
		}
		if err != nil {
			return err
		}
		return MustRead(ctx, c, "SELECT phase FROM "+s.Tables()+RowsOf(spec)+" FOR UPDATE", string(p))
	})
}

// MustRead returns an error unless a query returns the value.
func MustRead(ctx context.Context, c *mysqlconn.Client, sql, want string) error {
	got, err := session.QueryValue(ctx, c, sql)
	if err == nil && got != want {
		err = fmt.Errorf("%w: wrote %.100q, read back %.100q (%.100q)", ErrState, want, got, sql)
	}
	return err
}

// Empty records that a table is being emptied, and deletes the records of its rows.
func (s State) Empty(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) error {
	return s.Write(ctx, c, spec, func() error {
		for _, table := range []string{s.verifieds(), s.definitions(), s.chunks()} {
			if _, err := c.Exec(ctx, "DELETE FROM "+table+RowsOf(spec)); err != nil {
				return err
			}
		}
		return ExecExact(ctx, c, "UPDATE "+s.Tables()+" SET phase = "+session.Literal(string(tabledef.Emptying))+", version = "+strconv.Itoa(StateVersion)+RowsOf(spec), 0, 1)
	})
}

// LeftOut returns the indexes that an earlier run has left out of a table.
func (s State) LeftOut(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) (indexes []tabledef.Index, err error) {
	lines, err := session.QueryValue(ctx, c, "SELECT indexes FROM "+s.Tables()+RowsOf(spec))
	for line := range strings.Lines(lines) {
		indexes = append(indexes, tabledef.Index(strings.TrimSuffix(line, "\n")))
	}
	return indexes, err
}

// Write changes the state in a transaction that checks the epoch.
func (s State) Write(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, do func() error) error {
	return s.wrapError(spec, s.Lease.Write(ctx, c, do))
}

func (s State) wrapError(spec *tabledef.Spec, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("note the progress of %s in schema %s of the target: %w", spec.Target(), s.Schema, err)
}

func (s State) foreignKeys() string { return session.Ident(s.Schema) + ".copy_foreign_key" }

// RecordKeys replaces, within a transaction, the recorded foreign keys of a table.
func (s State) RecordKeys(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, keys []tabledef.ForeignKey) error {
	if err := ExecExact(ctx, c, "DELETE FROM "+s.foreignKeys()+RowsOf(spec)); err != nil {
		return err
	}
	for _, k := range keys {
		if err := ExecExact(ctx, c, "INSERT INTO "+s.foreignKeys()+" (target_schema, target_table, name, definition, referred) VALUES ("+
			session.Literal(spec.ToSchema)+", "+session.Literal(spec.StateName())+", "+session.Literal(k.Name)+", "+session.Literal(k.Definition)+", "+session.Literal(k.Referred)+")", 1); err != nil {
			return err
		}
	}
	return nil
}

// LoadKeys returns the foreign keys of a table that are still to be created.
func (s State) LoadKeys(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) (keys []tabledef.ForeignKey, err error) {
	_, err = c.Query(ctx, "SELECT name, definition, referred FROM "+s.foreignKeys()+RowsOf(spec)+" ORDER BY name", func(row mysqlwire.TextRow) error {
		keys = append(keys, tabledef.ForeignKey{Name: string(row[0]), Definition: string(row[1]), Referred: string(row[2])})
		return nil
	})
	return keys, err
}

// A describedTable is the stored form of a definition, in JSON.
type describedTable struct {
	Table  *rowstream.Table
	Layout []int
}

func (s State) definitions() string { return session.Ident(s.Schema) + ".copy_definition" }

// Define records a table's definition, and that no statement has stopped a run with it.
func (s State) Define(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, d tabledef.Definition) error {
	text, err := json.Marshal(describedTable{d.Table, d.Layout})
	if err != nil {
		return err
	}
	return s.Write(ctx, c, spec, func() error {
		return ExecExact(ctx, c, "REPLACE INTO "+s.definitions()+" (target_schema, target_table, definition, upto, stopped) VALUES ("+
			session.Literal(spec.ToSchema)+", "+session.Literal(spec.StateName())+", "+session.Literal(string(text))+", "+session.Literal(d.Upto.String())+", '')", 1, 2)
	})
}

// StoppedBy records the statement that stopped a run.
func (s State) StoppedBy(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec, sql string) error {
	return s.Write(ctx, c, spec, func() error {
		if err := ExecExact(ctx, c, "UPDATE "+s.definitions()+" SET stopped = "+session.Literal(sql)+RowsOf(spec), 1, 0); err != nil {
			return err
		}
		return MustRead(ctx, c, "SELECT stopped FROM "+s.definitions()+RowsOf(spec)+" FOR UPDATE", sql)
	})
}

// Definition returns the stored definition, or nil if there is none.
func (s State) Definition(ctx context.Context, c *mysqlconn.Client, spec *tabledef.Spec) (d *tabledef.Definition, err error) {
	_, err = c.Query(ctx, "SELECT definition, upto, stopped FROM "+s.definitions()+RowsOf(spec), func(row mysqlwire.TextRow) error {
		var described describedTable
		err := json.Unmarshal(row[0], &described)
		d = &tabledef.Definition{Table: described.Table, Layout: described.Layout, Stopped: string(row[2])}
		if err == nil {
			d.Upto, err = binlog.ParsePosition(string(row[1]))
		}
		return err
	})
	if Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read from schema %s of the target how %s was defined: %w", s.Schema, spec.Source(), err)
	}
	return d, nil
}

// Absent reports whether an error means that a table or schema does not exist.
func Absent(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && (refused.Number == errNoSuchTable || refused.Number == mysqlwire.ErrnoUnknownDatabase)
}
