package wire

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// Layout implements rowpb.RowsServer.
func (s *Service) Layout(ctx context.Context, m *rowpb.LayoutRequest) (*rowpb.TableLayout, error) {
	c := s.startCall(ctx, "layout", m.GetTable())
	layout, err := s.serveLayout(ctx, m.GetTable())
	if err = c.finish(err); err != nil {
		return nil, err
	}
	return layoutMessage(layout), nil
}

func (s *Service) serveLayout(ctx context.Context, m *rowpb.Table) ([]int, error) {
	f, err := s.follower()
	if err != nil {
		return nil, err
	}
	t, err := describedTable(m)
	if err != nil {
		return nil, err
	}
	return f.Layout(ctx, t)
}

// describedTable returns the table of a message as described by the client.
func describedTable(m *rowpb.Table) (*rowstream.Table, error) {
	t, err := tableOf(m)
	if err != nil {
		return nil, refuse(codes.InvalidArgument, "table %s.%s: %w", m.GetSchema(), m.GetName(), err)
	}
	return t, nil
}

// SchemaChanges implements rowpb.RowsServer. It reads the log, like a stream of changes, and counts as one.
func (s *Service) SchemaChanges(ctx context.Context, m *rowpb.SchemaChangesRequest) (*rowpb.SchemaChangesReply, error) {
	c := s.startCall(ctx, "schemachanges", nil)
	c.entry.Table, c.entry.From, c.entry.Upto = tableNames(m.GetTables()), m.GetFrom(), m.GetTo()
	found, err := s.serveSchemaChanges(ctx, m)
	if err = c.finish(err); err != nil {
		return nil, err
	}
	reply := &rowpb.SchemaChangesReply{}
	for i := range found {
		f := &found[i]
		reply.Changes = append(reply.Changes, &rowpb.SchemaChange{Table: int32(f.Table), At: f.At.String(), Sql: f.SQL, Digest: f.Digest, Kind: uint32(f.Kind), Rows: f.Rows})
	}
	return reply, nil
}

func (s *Service) serveSchemaChanges(call context.Context, m *rowpb.SchemaChangesRequest) ([]binlog.SchemaChange, error) {
	f, err := s.follower()
	if err != nil {
		return nil, err
	}
	from, err := positionOf(m.GetFrom())
	if err != nil {
		return nil, err
	}
	to, err := positionOf(m.GetTo())
	if err != nil {
		return nil, err
	}
	var tables []*rowstream.Table
	for _, m := range m.GetTables() {
		t, err := describedTable(m)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	if err := s.admitFollow(); err != nil {
		return nil, err
	}
	defer s.releaseFollow()
	ctx, cancel := context.WithCancelCause(call)
	defer cancel(nil)
	defer context.AfterFunc(s.ending, func() { cancel(context.Cause(s.ending)) })()
	return f.SchemaChanges(ctx, tables, from, to)
}

func layoutMessage(layout []int) *rowpb.TableLayout {
	m := &rowpb.TableLayout{}
	for _, n := range layout {
		m.Columns = append(m.Columns, int32(n))
	}
	return m
}

var errTableLayout = errors.New("a layout that is none of the table's: its columns must be there once each, in their order")

// layoutOf returns the layout of a message, for a table with this number of columns that are not generated.
func layoutOf(m *rowpb.TableLayout, columns int) (layout []int, err error) {
	next := 0
	for _, n := range m.GetColumns() {
		switch {
		case int(n) == next && next < columns:
			next++
		case n != -1:
			return nil, errTableLayout
		}
		layout = append(layout, int(n))
	}
	if next != columns {
		return nil, errTableLayout
	}
	return layout, nil
}

// schemaChangeKindOf returns the kind of a message; an unknown one is treated as ChangeOther.
func schemaChangeKindOf(n uint32) binlog.SchemaChangeKind {
	if n > uint32(binlog.ChangeOther) {
		return binlog.ChangeOther
	}
	return binlog.SchemaChangeKind(n)
}

// followedTables returns the tables of a request and their layouts. A table with a layout is used as
// described; the others must match their current definitions.
func (s *Service) followedTables(ctx context.Context, f binlog.Follower, messages []*rowpb.FollowedTable) (tables []*rowstream.Table, layouts [][]int, err error) {
	if len(messages) == 0 {
		return nil, nil, errNoTables
	}
	for _, m := range messages {
		var t *rowstream.Table
		var layout []int
		if m.GetLayout() == nil {
			t, layout, err = s.presentTable(ctx, f, m.GetTable())
		} else if t, err = describedTable(m.GetTable()); err == nil {
			if layout, err = layoutOf(m.GetLayout(), len(t.Columns)); err != nil {
				err = refuse(codes.InvalidArgument, "table %s: %w", t.FullName(), err)
			}
		}
		if err != nil {
			return nil, nil, err
		}
		tables, layouts = append(tables, t), append(layouts, layout)
	}
	return tables, layouts, nil
}

// presentTable returns a table's current definition, which must be the one that the client was sent, and its
// layout.
func (s *Service) presentTable(ctx context.Context, f binlog.Follower, m *rowpb.Table) (*rowstream.Table, []int, error) {
	tables, err := s.checkTables(ctx, []*rowpb.Table{m})
	if err != nil {
		return nil, nil, err
	}
	layout, err := f.Layout(ctx, tables[0])
	return tables[0], layout, err
}

// firstMessage returns the first message of a stream.
func firstMessage(from string, layouts [][]int) *rowpb.Changes {
	m := &rowpb.Changes{Upto: from}
	for _, l := range layouts {
		m.Layouts = append(m.Layouts, layoutMessage(l))
	}
	return m
}
