package rowstream

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream/rowpb"
)

// A LastKeyer is a Reader that knows where a table ends in its view.
type LastKeyer interface {
	// LastKey returns the last key of a table in the order of its chunks; nil: the table is empty.
	LastKey(ctx context.Context, t *Table) (mysqlwire.TextRow, error)
}

var (
	_ LastKeyer = (*reader)(nil)
	_ LastKeyer = (*remoteReader)(nil)
)

// LastKey implements LastKeyer.
func (r *reader) LastKey(ctx context.Context, t *Table) (key mysqlwire.TextRow, err error) {
	_, err = r.s.clients[r.worker].Query(ctx, "SELECT "+t.keyExprs()+" FROM "+t.SQLName()+t.forceIndex()+" ORDER BY "+t.order(true)+" LIMIT 1",
		func(row mysqlwire.TextRow) (err error) {
			key, err = cloneKey(row)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("read the last key of %s: %w", t.FullName(), err)
	}
	return key, nil
}

// LastKey implements LastKeyer.
func (r *remoteReader) LastKey(ctx context.Context, t *Table) (mysqlwire.TextRow, error) {
	m, err := r.v.r.rows.LastKey(ctx, &rowpb.LastKeyRequest{Snapshot: r.v.id, Worker: r.worker, Table: tableName(t)})
	if err != nil {
		return nil, errorOf(ctx, r.v.r.Addr(), err)
	}
	key, err := DecodeKey(m.Key, len(t.Key))
	if err != nil {
		return nil, fmt.Errorf("%s: last key of %s: %w", r.v.r.Addr(), t.FullName(), err)
	}
	return key, nil
}

// LastKey implements rowpb.RowsServer.
func (s *Service) LastKey(ctx context.Context, m *rowpb.LastKeyRequest) (*rowpb.LastKeyReply, error) {
	c := s.begin(ctx, "lastkey", m.GetTable())
	key, err := s.serveLastKey(ctx, m)
	if err = c.end(err); err != nil {
		return nil, err
	}
	return &rowpb.LastKeyReply{Key: EncodeKey(key)}, nil
}

func (s *Service) serveLastKey(call context.Context, m *rowpb.LastKeyRequest) (mysqlwire.TextRow, error) {
	v, err := s.snapshot(m.GetSnapshot())
	if err != nil {
		return nil, err
	}
	t, err := v.table(m.GetTable())
	if err != nil {
		return nil, err
	}
	ctx, cancel := v.during(call)
	defer cancel()
	w, err := v.take(ctx, m.GetWorker())
	if err != nil {
		return nil, err
	}
	defer w.release()
	r, ok := w.reader.(LastKeyer)
	if !ok {
		return nil, refuse(codes.Unimplemented, "the server does not report the last key of a table")
	}
	return r.LastKey(ctx, t)
}
