package verify

import (
	"context"
	"fmt"
	"strings"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// generatedColumns prepares the comparison of the table's stored generated columns. It returns nil if there
// are none, or if only some columns are copied.
func generatedColumns(t *tabledef.Table) *comparison {
	if len(t.Spec.Columns) > 0 || t.Spec.Mapping != nil {
		return nil
	}
	c := &comparison{t: t, target: t.Written, source: rowstream.SumOptions{Where: t.Spec.Where, Plan: t.Plan}}
	if o := t.Target.Owned; o != nil { // the chunk has no rows of other sources
		c.there.Where = o.Condition()
	}
	for i := range t.Source.Generated {
		if t.Source.Generated[i].Stored {
			c.addGenerated(t.Source, t.Written, i)
		}
	}
	if len(c.source.Columns) == 0 {
		return nil
	}
	target := *t.Written
	target.Schema, target.Name, target.KeyName, target.Key, c.target = t.Spec.ToSchema, t.Spec.ToName, "", nil, &target
	for _, k := range t.Source.Key {
		n := tabledef.ColumnNumber(&target, t.Source.Columns[k].Name)
		target.Key = append(target.Key, n)
		c.source.Columns, c.there.Columns = append(c.source.Columns, k), append(c.there.Columns, n)
	}
	return c
}

// addGenerated adds a generated column to the comparison if both sides have it.
func (c *comparison) addGenerated(source, target *rowstream.Table, number int) {
	for i := range target.Generated {
		if strings.EqualFold(target.Generated[i].Name, source.Generated[number].Name) && c.t.ComparesGenerated(&source.Generated[number], &target.Generated[i]) {
			c.source.Columns = append(c.source.Columns, len(source.Columns)+number)
			c.there.Columns = append(c.there.Columns, len(target.Columns)+i)
		}
	}
}

// Generated compares the stored generated columns of a chunk, if the table has any. The connection to the
// target must have the transaction that wrote the chunk open.
func Generated(ctx context.Context, view rowstream.ViewReader, to *mysqlconn.Client, t *tabledef.Table, k rowstream.Chunk) error {
	c := generatedColumns(t)
	if c == nil {
		return nil
	}
	source, err := rowstream.SumChunk(ctx, view, c.t.Source, k, c.source)
	if err != nil {
		return state.SourceError{Err: err}
	}
	target, err := rowstream.SumChunkOf(ctx, to, c.target, k, c.there)
	if err != nil || source == target {
		return err
	}
	rows := make(map[string]uint64)
	var read UnexplainedError
	for row, err := range rowstream.SumRows(ctx, view, c.t.Source, k, c.source) {
		if err != nil {
			return state.SourceError{Err: err}
		}
		rows[string(rowstream.EncodeKey(row.Key))] = row.Sum
		read.SourceRows.Rows++
		read.SourceRows.Sum ^= row.Sum
	}
	n := 0
	for row, err := range rowstream.SumRowsOf(ctx, to, c.target, k, c.there) {
		if err != nil {
			return err
		}
		read.TargetRows.Rows++
		read.TargetRows.Sum ^= row.Sum
		if was, ok := rows[string(rowstream.EncodeKey(row.Key))]; ok && was != row.Sum {
			n++
		}
	}
	if n == 0 {
		read.Table, read.Chunk, read.After, read.Upto = t.Spec.Source(), k.Number, keyText(k.After), keyText(k.Upto)
		read.Source, read.Target = source, target
		return fmt.Errorf("%w: generated columns: %w", state.ErrRows, &read)
	}
	var names []string
	for _, number := range c.source.Columns {
		if number >= len(c.t.Source.Columns) {
			names = append(names, c.t.Source.Generated[number-len(c.t.Source.Columns)].Name)
		}
	}
	return fmt.Errorf("%w: generated columns (%s) have other values in the target for %d rows: their expressions depend on sql_mode, the time zone, "+
		"collations or the server, and were computed in other sessions in the source; correct the expressions, or create the table in the target, "+
		"and list its other columns with option columns, which leaves generated ones uncompared", state.ErrRows, strings.Join(names, ", "), n)
}
