package state

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// Turn records the way back of a finished copy whose two tables were swapped: a finished copy of the same chunks to the table back, which
// resumes at a position of the log. text is its RecordedSpec, and d the definition of its source from the position on. No run may
// write to back.
func (s State) Turn(ctx context.Context, c *mysqlconn.Client, finished, back *tabledef.Spec, text, position string, d tabledef.Definition) error {
	described, err := json.Marshal(describedTable{d.Table, d.Layout})
	if err != nil {
		return err
	}
	if err := s.ForgetTable(ctx, c, back); err != nil {
		return err
	}
	target := session.Literal(back.ToSchema) + ", " + session.Literal(back.ToName)
	err = transaction(ctx, c, func() error {
		if err := ExecExact(ctx, c, "INSERT INTO "+s.Tables()+" (target_schema, target_table, version, source, spec, phase, position, indexes, started, finished) SELECT "+target+", "+
			strconv.Itoa(StateVersion)+", source, "+session.Literal(text)+", phase, "+session.Literal(position)+", '', started, finished FROM "+s.Tables()+
			RowsOf(finished)+" AND phase = "+session.Literal(string(tabledef.Finished)), 1); err != nil {
			return err
		}
		if err := ExecExact(ctx, c, "INSERT INTO "+s.chunks()+" (target_schema, target_table, chunk, after_key, upto_key, copied, row_count) SELECT "+target+
			", chunk, after_key, upto_key, copied, row_count FROM "+s.chunks()+RowsOf(finished)); err != nil {
			return err
		}
		return ExecExact(ctx, c, "INSERT INTO "+s.definitions()+" (target_schema, target_table, definition, upto, stopped) VALUES ("+target+", "+
			session.Literal(string(described))+", "+session.Literal(d.Upto.String())+", '')", 1)
	})
	if err != nil {
		return fmt.Errorf("record in schema %s that changes go back to %s: %w", s.Schema, back.Target(), err)
	}
	return nil
}
