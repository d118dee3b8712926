package binlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A rereadXA is an XA transaction whose commit was read, and whose rows were not kept since it was prepared:
// they are read again from the log, from before its group, over a separate connection. The position to resume
// from stays before that group until all of them are returned.
type rereadXA struct {
	x       *preparedXA
	id      string   // empty: it was committed in one phase
	seconds uint32   // time of its commit
	from    *changes // nil: not connected yet
}

// An onlyXA is the only group that a reader of prepared rows reads, as if it were a plain transaction.
type onlyXA struct {
	id    string // empty: it was committed in one phase, so it is the first group
	found bool   // a group with the identifier was read
	ended bool   // a group was read to its end
}

// close stops reading, if it was started.
func (q *rereadXA) close() error {
	if q == nil || q.from == nil {
		return nil
	}
	return q.from.Close()
}

// readAgain fills the batch with changes of the XA transaction that is read again, and ends its group after
// the last one.
func (c *changes) readAgain(ctx context.Context, b *ChangeBatch) error {
	q := c.r.reread
	if q.from == nil {
		from, err := c.prepared(q)
		if err != nil {
			return err
		}
		q.from = from
	}
	err := q.from.Next(ctx, b)
	b.Idle = false
	if stop := new(StopError); errors.As(err, &stop) {
		return c.r.stop(stop.Reason, stop.Table, fmt.Sprintf("an XA transaction has more rows than are kept in memory, and they cannot be read again from %s: %s", q.x.at, stop.What),
			stop.Try, stop.Err)
	}
	only := q.from.r.only
	switch {
	case err != nil:
		return err
	case !only.ended:
		return nil
	case !only.found && q.id != "":
		return c.r.stop(StopLogGone, "", fmt.Sprintf("the log does not have a prepared XA transaction at %s any more", q.x.at), "copy the tables again (option restart)", nil)
	}
	_ = q.close() // all of it was read
	c.r.reread = nil
	c.r.xas.forget(q.id, q.x)
	c.r.commit(&event{seconds: q.seconds})
	return nil
}

// prepared starts reading a prepared XA transaction's rows. The tables are those of the log so far: each
// change of a definition since then would have stopped the reader.
func (c *changes) prepared(q *rereadXA) (*changes, error) {
	again := &changes{d: c.d, o: c.o, columns: c.columns, r: logReader{
		statementText: statementText{ignore: c.o.Ignore}, names: c.r.names, tables: slices.Clone(c.r.tables), columns: c.columns, only: &onlyXA{id: q.id},
	}}
	again.o.From, again.o.Skip, again.o.ServerID = q.x.at, 0, randomServerID()
	if err := again.startAt(q.x.at); err != nil {
		return nil, fmt.Errorf("read an XA transaction again: %w", err)
	}
	again.r.cascades.keys, again.r.cascades.maps = c.r.cascades.keys, make(map[uint64][]cascadeRef)
	again.r.resetConnection()
	again.life, again.end = context.WithCancel(context.Background())
	return again, nil
}
