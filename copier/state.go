package copier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// StateVersion is the form of the state's tables. A newer Tare reads older forms: in form 1
// positions have no GTID, and there is no copy_follow; in form 2 there is no copy_epoch;
// in form 3 there is no copy_foreign_key, and sources are addresses.
const StateVersion = 4

// A state is what the target knows of a copy, in tables of a schema of their own:
//
//	copy_table     one row a target table: where its rows come from, how far it is, which
//	               indexes are still to be built
//	copy_chunk     one row a chunk that was cut: its key range, its rows, whether it is copied
//	copy_verified  one row a chunk that a verification has found equal, until it is through
//	copy_definition one row a table: how the source has described it (definition.go)
//	copy_follow    one row a copy that follows its source: how far it has come (follow_state.go)
//	copy_cutover   one row a cutover: how far it is (cutover_state.go)
//	copy_foreign_key one row per foreign key that is to be created after the rows (foreignkeys.go)
//	copy_epoch     one row per target table: which run may write to it (lease.go)
//
// A chunk is recorded as copied in the transaction that writes its rows, so state and rows
// cannot differ, no matter what is killed, or when. Chunks may be copied in any order.
//
// Everything is written in a transaction that checks the run's epoch. No write passes over what it finds: a
// number of rows that is not the expected one, or another value than was written, is an error.
type state struct {
	schema string
	lease  *lease // nil: read only
}

func (s state) tables() string    { return rowstream.Ident(s.schema) + ".copy_table" }
func (s state) chunks() string    { return rowstream.Ident(s.schema) + ".copy_chunk" }
func (s state) verifieds() string { return rowstream.Ident(s.schema) + ".copy_verified" }

// createTables creates the state's schema, and tables of it, if they are missing.
func (s state) createTables(ctx context.Context, c *mysqlconn.Client, statements ...string) error {
	for _, sql := range append([]string{"CREATE DATABASE IF NOT EXISTS " + rowstream.Ident(s.schema)}, statements...) {
		if _, err := c.Exec(ctx, sql); err != nil {
			err = fmt.Errorf("create the state's tables in schema %s of the target: %w", s.schema, err)
			if refused := new(mysqlconn.ServerError); errors.As(err, &refused) && (refused.Number == errDatabaseDenied || refused.Number == errTableDenied) {
				err = fmt.Errorf("%w; GRANT ALL ON %s.* TO the user of --to, or name another schema with --state-schema", err, rowstream.Ident(s.schema))
			}
			return err
		}
	}
	return nil
}

// create creates the state's tables if they are missing.
func (s state) create(ctx context.Context, c *mysqlconn.Client) error {
	return s.createTables(ctx, c,
		"CREATE TABLE IF NOT EXISTS "+s.tables()+` (
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

// A tableState is a row of copy_table with its chunks.
type tableState struct {
	source, spec string
	phase        phase
	indexes      []index      // that were left out
	keys         []foreignKey // that are still to be created
	started      string
	position     string // of the first run's snapshot
	chunks       []chunkState
}

// A chunkState is a row of copy_chunk.
type chunkState struct {
	rowstream.Chunk
	copied bool
	rows   int64
}

// where is the condition for the rows of one target table.
func (s *TableSpec) where() string {
	return " WHERE target_schema = " + literal(s.ToSchema) + " AND target_table = " + literal(s.ToName)
}

func literal(s string) string { return string(rowstream.AppendQuoted(nil, []byte(s))) }

// load reads what is known of a target table, nil when nothing is. It waits for
// transactions that are still being committed or rolled back.
func (s state) load(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, keyColumns int) (t *tableState, err error) {
	version := 0
	_, err = c.Query(ctx, "SELECT version, source, spec, phase, indexes, started, position FROM "+s.tables()+spec.where()+" FOR UPDATE", func(row mysqlwire.TextRow) error {
		t = &tableState{source: string(row[1]), spec: string(row[2]), phase: phase(row[3]), started: string(row[5]), position: string(row[6])}
		for line := range strings.Lines(string(row[4])) {
			t.indexes = append(t.indexes, index(strings.TrimSuffix(line, "\n")))
		}
		version, err = strconv.Atoi(string(row[0]))
		return err
	})
	if err == nil && t != nil && version > StateVersion {
		err = fmt.Errorf("it was written by a later version of Tare (form %d, this one supports %d): use that version", version, StateVersion)
	}
	if err == nil && t != nil && t.phase == emptying {
		err = errors.New("a run with --restart was stopped before it had emptied the table: repeat it with --restart")
	}
	if err == nil && t != nil {
		if t.chunks, err = s.loadChunks(ctx, c, spec, keyColumns); err == nil {
			err = contiguous(t.chunks, t.phase != copying)
		}
		if err == nil {
			t.keys, err = s.loadKeys(ctx, c, spec)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of %s in the target: %w", spec.target(), err)
	}
	return t, nil
}

// loadChunks reads a table's chunks. It waits for transactions that are still being committed or rolled back.
func (s state) loadChunks(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, keyColumns int) (chunks []chunkState, err error) {
	_, err = c.Query(ctx, "SELECT chunk, after_key, upto_key, copied, row_count FROM "+s.chunks()+spec.where()+" ORDER BY chunk FOR UPDATE", func(row mysqlwire.TextRow) error {
		k := chunkState{copied: string(row[3]) == "1"}
		number, err1 := strconv.Atoi(string(row[0]))
		after, err2 := rowstream.DecodeKey(row[1], keyColumns)
		upto, err3 := rowstream.DecodeKey(row[2], keyColumns)
		rows, err4 := strconv.ParseInt(string(row[4]), 10, 64)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return fmt.Errorf("chunk %s: %w", row[0], err)
		}
		k.Chunk, k.rows = rowstream.Chunk{Number: number, After: after, Upto: upto}, rows
		chunks = append(chunks, k)
		return nil
	})
	return chunks, err
}

// contiguous fails unless the chunks follow each other without a gap or an overlap, from the start of the table
// on; with complete, also unless they reach its end and all are copied.
func contiguous(chunks []chunkState, complete bool) error {
	const try = "rows between them may be missing in the target; copy the table again with --restart"
	for i, k := range chunks {
		switch {
		case k.Number != i:
			return fmt.Errorf("%w: chunk %d is missing: %s", errState, i, try)
		case i == 0 && k.After != nil, i > 0 && chunks[i-1].Upto == nil, i > 0 && encodeKey(k.After) != encodeKey(chunks[i-1].Upto):
			return fmt.Errorf("%w: chunk %d does not start where the one before it ends: %s", errState, i, try)
		case complete && !k.copied:
			return fmt.Errorf("%w: chunk %d is not copied, although a run has copied it: the target may have lost acknowledged commits; "+
				"run the same command again, and if the table counts as finished, copy it again with --restart", errState, i)
		}
	}
	if complete && (len(chunks) == 0 || chunks[len(chunks)-1].Upto != nil) {
		return fmt.Errorf("%w: %d chunks do not reach the end of the table: %s", errState, len(chunks), try)
	}
	return nil
}

// encodeKey is a key tuple as a literal.
func encodeKey(key mysqlwire.TextRow) string {
	if key == nil {
		return "NULL"
	}
	return literal(string(rowstream.EncodeKey(key)))
}

// begin records that a table is being copied; text says which rows, in which order.
func (s state) begin(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, text, source, position string, indexes []index, keys []foreignKey) error {
	var lines strings.Builder
	for _, x := range indexes {
		lines.WriteString(string(x) + "\n")
	}
	return s.write(ctx, c, spec, func() error {
		if err := change(ctx, c, "DELETE FROM "+s.tables()+spec.where()+" AND phase = "+literal(string(emptying)), 0, 1); err != nil {
			return err
		}
		err := change(ctx, c, "INSERT INTO "+s.tables()+" (target_schema, target_table, version, source, spec, phase, position, indexes, started) VALUES ("+
			literal(spec.ToSchema)+", "+literal(spec.ToName)+", "+strconv.Itoa(StateVersion)+", "+literal(source)+", "+literal(text)+", "+
			literal(string(copying))+", "+literal(position)+", "+literal(lines.String())+", UTC_TIMESTAMP())", 1)
		if err != nil {
			return err
		}
		return s.recordKeys(ctx, c, spec, keys)
	})
}

// upgrade gives the row of a table that an older form has left the present one, which older programs refuse: they
// check no epoch.
func (s state) upgrade(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) error {
	return s.write(ctx, c, spec, func() error {
		return change(ctx, c, "UPDATE "+s.tables()+" SET version = "+strconv.Itoa(StateVersion)+spec.where(), 0, 1)
	})
}

// cut records a chunk before anything of it is copied. The bounds are read back: what is recorded is what is
// copied. A repetition finds its own bounds.
func (s state) cut(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, k rowstream.Chunk) error {
	return s.write(ctx, c, spec, func() error {
		if err := change(ctx, c, "INSERT INTO "+s.chunks()+" (target_schema, target_table, chunk, after_key, upto_key) VALUES ("+
			literal(spec.ToSchema)+", "+literal(spec.ToName)+", "+strconv.Itoa(k.Number)+", "+encodeKey(k.After)+", "+encodeKey(k.Upto)+
			") ON DUPLICATE KEY UPDATE chunk = chunk"); err != nil {
			return err
		}
		found := false
		_, err := c.Query(ctx, "SELECT after_key <=> "+encodeKey(k.After)+" AND upto_key <=> "+encodeKey(k.Upto)+" AND copied = 0 FROM "+s.chunks()+
			spec.where()+" AND chunk = "+strconv.Itoa(k.Number)+" FOR UPDATE", func(row mysqlwire.TextRow) error {
			found = string(row[0]) == "1"
			return nil
		})
		if err == nil && !found {
			err = fmt.Errorf("%w: chunk %d is recorded with other bounds than this run's, or as copied; run the same command again to resume from the recorded state", errState, k.Number)
		}
		return err
	})
}

// phaseOf is how far a table is, and the position of its first snapshot; empty and zero when nothing is known.
func (s state) phaseOf(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) (is phase, p binlog.Position, err error) {
	_, err = c.Query(ctx, "SELECT phase, position FROM "+s.tables()+spec.where(), func(row mysqlwire.TextRow) (err error) {
		is = phase(row[0])
		p, err = binlog.ParsePosition(string(row[1]))
		return err
	})
	if absent(err) {
		err = nil
	}
	return is, p, err
}

// copied records, within the transaction that wrote the rows, that a chunk is copied. It checks the epoch there.
func (s state) copied(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, k rowstream.Chunk, rows int64) error {
	err := s.lease.check(ctx, c)
	if err == nil {
		err = change(ctx, c, "UPDATE "+s.chunks()+" SET copied = 1, row_count = "+strconv.FormatInt(rows, 10)+
			spec.where()+" AND chunk = "+strconv.Itoa(k.Number)+" AND copied = 0", 1)
	}
	return s.noted(spec, err)
}

// isCopied tells whether a chunk's transaction was committed. It waits for one that is still
// at work.
func (s state) isCopied(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, k rowstream.Chunk) (copied bool, err error) {
	_, err = c.Query(ctx, "SELECT copied FROM "+s.chunks()+spec.where()+" AND chunk = "+strconv.Itoa(k.Number)+" FOR UPDATE", func(row mysqlwire.TextRow) error {
		copied = string(row[0]) == "1"
		return nil
	})
	return copied, s.noted(spec, err)
}

// enter records a table's phase. All that come after copying need all of the table to be copied, by what
// is recorded in the target.
func (s state) enter(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, p phase, keyColumns int) error {
	end := ""
	if p == finished {
		end = ", finished = UTC_TIMESTAMP()"
	}
	return s.write(ctx, c, spec, func() error {
		chunks, err := s.loadChunks(ctx, c, spec, keyColumns)
		if err == nil {
			err = contiguous(chunks, true)
		}
		if err == nil {
			err = change(ctx, c, "UPDATE "+s.tables()+" SET phase = "+literal(string(p))+end+spec.where(), 1, 0)
		}
		if err != nil {
			return err
		}
		return mustRead(ctx, c, "SELECT phase FROM "+s.tables()+spec.where()+" FOR UPDATE", string(p))
	})
}

// mustRead fails unless a statement gives the value.
func mustRead(ctx context.Context, c *mysqlconn.Client, sql, want string) error {
	got, err := queryValue(ctx, c, sql)
	if err == nil && got != want {
		err = fmt.Errorf("%w: wrote %.100q, read back %.100q (%.100q)", errState, want, got, sql)
	}
	return err
}

// empty records that a table is being emptied, in place of all that is recorded of its rows.
func (s state) empty(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) error {
	return s.write(ctx, c, spec, func() error {
		for _, table := range []string{s.verifieds(), s.definitions(), s.chunks()} {
			if _, err := c.Exec(ctx, "DELETE FROM "+table+spec.where()); err != nil {
				return err
			}
		}
		return change(ctx, c, "UPDATE "+s.tables()+" SET phase = "+literal(string(emptying))+", version = "+strconv.Itoa(StateVersion)+spec.where(), 0, 1)
	})
}

// leftOut reads the indexes that an earlier run has left out of a table.
func (s state) leftOut(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) (indexes []index, err error) {
	lines, err := queryValue(ctx, c, "SELECT indexes FROM "+s.tables()+spec.where())
	for line := range strings.Lines(lines) {
		indexes = append(indexes, index(strings.TrimSuffix(line, "\n")))
	}
	return indexes, err
}

// write changes the state in a transaction that checks the epoch.
func (s state) write(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, do func() error) error {
	return s.noted(spec, s.lease.write(ctx, c, do))
}

func (s state) noted(spec *TableSpec, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("note the progress of %s in schema %s of the target: %w", spec.target(), s.schema, err)
}
