package copier

import (
	"context"
	"fmt"
	"strings"

	"github.com/taredb/tare/move/copier/state"
	"github.com/taredb/tare/move/copier/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// The state records the source by its identity (rowstream.ServerIdentity), so that it is recognized under
// another address, and another server under the same address is detected; over tare:// the reader reports the
// identity. Before form 4 of the state all sources were recorded by address, and for a while after that those
// over tare://. Such records are converted when their table is resumed.
//
// An identity is weak evidence: clones and restored data directories share it, and a failover changes it.
// While changes are followed, the last heartbeat in the log is stronger evidence. Then another identity is
// accepted, and following stops unless that heartbeat is in the log.

// findSource sets the name under which the source is recorded.
func (r *run) findSource(ctx context.Context) (err error) {
	r.source, err = r.from.Identity(ctx)
	return err
}

// isIdentity reports whether a recorded source is an identity rather than an address.
func isIdentity(source string) bool {
	return strings.HasPrefix(source, "mysql ") || strings.HasPrefix(source, "mariadb ")
}

// acceptSource returns an error if the source is not the recorded one. With --restart nothing is resumed, and
// any source is accepted.
func (r *run) acceptSource(ctx context.Context) error {
	for i := range r.o.Tables {
		spec := &r.o.Tables[i]
		var recorded, position string
		_, err := r.to.Query(ctx, "SELECT source, position FROM "+r.state.Tables()+state.RowsOf(spec), func(row mysqlwire.TextRow) error {
			recorded, position = string(row[0]), string(row[1])
			return nil
		})
		if state.Absent(err) || r.o.Restart {
			return nil
		}
		if err == nil && recorded != "" {
			err = r.mayBe(spec, recorded, position)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mayBe returns an error if the source is not the one recorded for a table.
func (r *run) mayBe(spec *tabledef.Spec, recorded, position string) error {
	if recorded == r.source || !isIdentity(recorded) && recorded == r.from.Addr() {
		return nil
	}
	p, err := binlog.ParsePosition(position)
	if err == nil && r.o.Follow && isIdentity(recorded) && p.GTID != "" && p.Heartbeat != "" {
		return nil // following checks that the log continues
	}
	try := "; repeat its command to resume it, or use --restart"
	if isIdentity(r.source) {
		try += fmt.Sprintf("; if it is certain that it is the same server, which has got another identity or address, UPDATE %s SET source = %s%s in the target",
			r.state.Tables(), rowstream.Quote(r.source), state.RowsOf(spec))
	}
	return fmt.Errorf("resume the copy to %s: its rows came from %s, not from %s at %s%s", spec.Target(), recorded, r.source, r.from.Addr(), try)
}

// adoptSource records the current identity of the source in place of the accepted recorded one, and renames
// the records of following these tables accordingly. With --restart the recorded source may be another
// server.
func (r *run) adoptSource(ctx context.Context) error {
	sources := []string{r.from.Addr()}
	if !r.o.Restart {
		recorded, err := r.state.RecordedSources(ctx, r.to, r.o.Tables)
		if err != nil {
			return err
		}
		sources = append(sources, recorded...)
	}
	now := r.state.Followed(r.source, r.o.Tables)
	for _, source := range sources {
		old := now.FormerID(source)
		err := r.state.Lease.Write(ctx, r.to, func() error {
			for _, table := range []string{r.state.Follows(), r.state.Cutovers()} {
				there, err := rowstream.QueryValue(ctx, r.to, "SELECT COUNT(*) FROM "+table+now.Where()+" FOR UPDATE")
				if err == nil && there == "0" {
					err = state.ExecExact(ctx, r.to, "UPDATE "+table+" SET id = "+rowstream.Quote(now.ID)+" WHERE id = "+rowstream.Quote(old), 0, 1)
				}
				if err == nil && source != r.source {
					err = state.ExecExact(ctx, r.to, "UPDATE "+table+" SET source = "+rowstream.Quote(r.source)+" WHERE source = "+rowstream.Quote(source))
				}
				if err != nil && !state.Absent(err) { // absent: nothing was followed
					return err
				}
			}
			return r.adoptRows(ctx, source)
		})
		if err != nil {
			return fmt.Errorf("record the identity of the source in schema %s of the target: %w", r.state.Schema, err)
		}
	}
	return nil
}

// adoptRows records the current identity of the source for the tables whose rows came from source.
func (r *run) adoptRows(ctx context.Context, source string) error {
	if source == r.source {
		return nil
	}
	for i := range r.o.Tables {
		if err := state.ExecExact(ctx, r.to, "UPDATE "+r.state.Tables()+" SET source = "+rowstream.Quote(r.source)+state.RowsOf(&r.o.Tables[i])+" AND source = "+rowstream.Quote(source), 0, 1); err != nil {
			return err
		}
	}
	return nil
}

// swappedFrom reports whether the source recorded in the source is this copy's target.
func (r *run) swappedFrom(ctx context.Context, recorded string) bool {
	if isIdentity(recorded) {
		identity, err := rowstream.ServerIdentity(ctx, r.to)
		return err == nil && identity == recorded
	}
	if recorded == r.o.To.Addr {
		return true
	}
	same, err := rowstream.IsServer(ctx, r.to, r.o.To, recorded)
	return err == nil && same // an unreachable recorded server is not the target
}
