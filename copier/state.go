package copier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// StateVersion is the form of the state's tables. A newer Tare reads older forms: in form 1
// positions have no GTID, and there is no copy_follow.
const StateVersion = 2

// A state is what the target knows of a copy, in tables of a schema of their own:
//
//	copy_table     one row a target table: where its rows come from, how far it is, which
//	               indexes are still to be built
//	copy_chunk     one row a chunk that was cut: its key range, its rows, whether it is copied
//	copy_verified  one row a chunk that a verification has found equal, until it is through
//	copy_definition one row a table: how the source has described it (definition.go)
//	copy_follow    one row a copy that follows its source: how far it has come (follow_state.go)
//	copy_cutover   one row a cutover: how far it is (cutover_state.go)
//
// A chunk is noted as copied in the transaction that writes its rows, so state and rows
// cannot differ, whatever is killed when. Chunks may be copied in any order.
type state struct{ schema string }

func (s state) tables() string    { return rowstream.Ident(s.schema) + ".copy_table" }
func (s state) chunks() string    { return rowstream.Ident(s.schema) + ".copy_chunk" }
func (s state) verifieds() string { return rowstream.Ident(s.schema) + ".copy_verified" }

// create makes the state's tables if they are missing.
func (s state) create(ctx context.Context, c *mysqlconn.Client) error {
	for _, sql := range []string{
		"CREATE DATABASE IF NOT EXISTS " + rowstream.Ident(s.schema),
		"CREATE TABLE IF NOT EXISTS " + s.tables() + ` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  version       int NOT NULL COMMENT 'form of this row and of its chunks',
  source        blob NOT NULL COMMENT 'address of the server that the rows come from',
  spec          blob NOT NULL COMMENT 'which rows and columns they are',
  phase         varbinary(16) NOT NULL COMMENT 'copying, indexing or finished',
  position      blob NOT NULL COMMENT 'of the binary log when the first chunk was read',
  indexes       longblob NOT NULL COMMENT 'definitions of the indexes left out, a line each',
  started       datetime NOT NULL,
  finished      datetime DEFAULT NULL,
  PRIMARY KEY (target_schema, target_table)
) ENGINE=InnoDB COMMENT='what tare copy has done'`,
		"CREATE TABLE IF NOT EXISTS " + s.chunks() + ` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  chunk         bigint NOT NULL,
  after_key     longblob DEFAULT NULL COMMENT 'length-encoded values; NULL: the start',
  upto_key      longblob DEFAULT NULL COMMENT 'length-encoded values; NULL: the end',
  copied        tinyint NOT NULL DEFAULT 0,
  row_count     bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (target_schema, target_table, chunk)
) ENGINE=InnoDB COMMENT='chunks of the tables in copy_table'`,
		"CREATE TABLE IF NOT EXISTS " + s.verifieds() + ` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  chunk         bigint NOT NULL,
  PRIMARY KEY (target_schema, target_table, chunk)
) ENGINE=InnoDB COMMENT='chunks that a verification which is not through has found equal'`,
		"CREATE TABLE IF NOT EXISTS " + s.definitions() + ` (
  target_schema varbinary(256) NOT NULL,
  target_table  varbinary(256) NOT NULL,
  definition    longblob NOT NULL COMMENT 'of the source, in JSON, as it was where following goes on',
  upto          blob NOT NULL COMMENT 'place in the binary log before which changes of the definition are contained',
  stopped       longblob NOT NULL COMMENT 'the statement about the table that has ended a run',
  PRIMARY KEY (target_schema, target_table)
) ENGINE=InnoDB COMMENT='how the source has described the tables of tare copy'`,
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create the state's tables in schema %s of the target: %w", s.schema, err)
		}
	}
	return nil
}

// A tableState is a row of copy_table with its chunks.
type tableState struct {
	source, spec string
	phase        phase
	indexes      []index // that were left out
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
		err = fmt.Errorf("it was written by a later version of Tare (form %d, this one knows %d): go on with that one", version, StateVersion)
	}
	if err == nil && t != nil {
		err = s.loadChunks(ctx, c, spec, keyColumns, t)
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of %s in the target: %w", spec.target(), err)
	}
	return t, nil
}

func (s state) loadChunks(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, keyColumns int, t *tableState) error {
	_, err := c.Query(ctx, "SELECT chunk, after_key, upto_key, copied, row_count FROM "+s.chunks()+spec.where()+" ORDER BY chunk FOR UPDATE", func(row mysqlwire.TextRow) error {
		k := chunkState{copied: string(row[3]) == "1"}
		number, err1 := strconv.Atoi(string(row[0]))
		after, err2 := rowstream.DecodeKey(row[1], keyColumns)
		upto, err3 := rowstream.DecodeKey(row[2], keyColumns)
		rows, err4 := strconv.ParseInt(string(row[4]), 10, 64)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return fmt.Errorf("chunk %s: %w", row[0], err)
		}
		if number != len(t.chunks) {
			return fmt.Errorf("chunk %d is missing", len(t.chunks))
		}
		k.Chunk, k.rows = rowstream.Chunk{Number: number, After: after, Upto: upto}, rows
		t.chunks = append(t.chunks, k)
		return nil
	})
	return err
}

// encodeKey is a key tuple as a literal.
func encodeKey(key mysqlwire.TextRow) string {
	if key == nil {
		return "NULL"
	}
	return literal(string(rowstream.EncodeKey(key)))
}

// begin notes that a table is being copied.
func (s state) begin(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, source, position string, indexes []index) error {
	var lines strings.Builder
	for _, x := range indexes {
		lines.WriteString(string(x) + "\n")
	}
	_, err := c.Exec(ctx, "INSERT INTO "+s.tables()+" (target_schema, target_table, version, source, spec, phase, position, indexes, started) VALUES ("+
		literal(spec.ToSchema)+", "+literal(spec.ToName)+", "+strconv.Itoa(StateVersion)+", "+literal(source)+", "+literal(spec.text())+", "+
		literal(string(copying))+", "+literal(position)+", "+literal(lines.String())+", UTC_TIMESTAMP())")
	return s.noted(spec, err)
}

// cut notes a chunk before anything is copied of it. Doing so twice is doing it once.
func (s state) cut(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, k rowstream.Chunk) error {
	_, err := c.Exec(ctx, "INSERT INTO "+s.chunks()+" (target_schema, target_table, chunk, after_key, upto_key) VALUES ("+
		literal(spec.ToSchema)+", "+literal(spec.ToName)+", "+strconv.Itoa(k.Number)+", "+encodeKey(k.After)+", "+encodeKey(k.Upto)+") ON DUPLICATE KEY UPDATE chunk = chunk")
	return s.noted(spec, err)
}

// phaseOf is how far a table is, and the position of its first snapshot; empty and zero when nothing is known.
func (s state) phaseOf(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) (is phase, p rowstream.Position, err error) {
	_, err = c.Query(ctx, "SELECT phase, position FROM "+s.tables()+spec.where(), func(row mysqlwire.TextRow) (err error) {
		is = phase(row[0])
		p, err = rowstream.ParsePosition(string(row[1]))
		return err
	})
	if absent(err) {
		err = nil
	}
	return is, p, err
}

// copied notes, within the transaction that wrote the rows, that a chunk is copied.
func (s state) copied(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, k rowstream.Chunk, rows int64) error {
	res, err := c.Exec(ctx, "UPDATE "+s.chunks()+" SET copied = 1, row_count = "+strconv.FormatInt(rows, 10)+
		spec.where()+" AND chunk = "+strconv.Itoa(k.Number)+" AND copied = 0")
	if err == nil && res.AffectedRows != 1 {
		err = errors.New("its row is gone, or says that it was copied already: is another copy to the same table at work?")
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

// enter notes a table's phase.
func (s state) enter(ctx context.Context, c *mysqlconn.Client, spec *TableSpec, p phase) error {
	end := ""
	if p == finished {
		end = ", finished = UTC_TIMESTAMP()"
	}
	_, err := c.Exec(ctx, "UPDATE "+s.tables()+" SET phase = "+literal(string(p))+end+spec.where())
	return s.noted(spec, err)
}

// forget drops what is known of a table.
func (s state) forget(ctx context.Context, c *mysqlconn.Client, spec *TableSpec) error {
	for _, table := range []string{s.verifieds(), s.definitions(), s.chunks(), s.tables()} {
		if _, err := c.Exec(ctx, "DELETE FROM "+table+spec.where()); err != nil {
			return s.noted(spec, err)
		}
	}
	return nil
}

func (s state) noted(spec *TableSpec, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("note the progress of %s in schema %s of the target: %w", spec.target(), s.schema, err)
}
