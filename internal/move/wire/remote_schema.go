package wire

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// Layout implements Follower.
func (r *Remote) Layout(ctx context.Context, t *rowstream.Table) ([]int, error) {
	m, err := r.rows.Layout(ctx, &rowpb.LayoutRequest{Table: tableMessage(t)})
	if err != nil {
		return nil, errorOf(ctx, r.Addr(), err)
	}
	layout, err := layoutOf(m, len(t.Columns))
	if err != nil {
		return nil, fmt.Errorf("%s: table %s: %w", r.Addr(), t.FullName(), err)
	}
	return layout, nil
}

// SchemaChanges implements Follower.
func (r *Remote) SchemaChanges(ctx context.Context, tables []*rowstream.Table, from, to binlog.Position) ([]binlog.SchemaChange, error) {
	m := &rowpb.SchemaChangesRequest{From: from.String(), To: to.String()}
	for _, t := range tables {
		m.Tables = append(m.Tables, tableMessage(t))
	}
	reply, err := r.rows.SchemaChanges(ctx, m)
	if err != nil {
		return nil, errorOf(ctx, r.Addr(), err)
	}
	var found []binlog.SchemaChange
	for _, c := range reply.GetChanges() {
		at, err := binlog.ParsePosition(c.GetAt())
		if err == nil && (c.GetTable() < 0 || int(c.GetTable()) >= len(tables)) {
			err = fmt.Errorf("there is no table %d", c.GetTable())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: changes of definitions: %w", r.Addr(), err)
		}
		found = append(found, binlog.SchemaChange{Table: int(c.GetTable()), At: at, SQL: c.GetSql(), Digest: c.GetDigest(), Kind: schemaChangeKindOf(c.GetKind()), Rows: c.GetRows()})
	}
	return found, nil
}
