package copier

import (
	"context"
	"fmt"
	"strings"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// The state records the source by its identity (session.ServerIdentity), so that it is recognized under
// another address, and another server under the same address is detected; over tare:// the reader reports the
// identity.
//
// An identity is weak evidence: clones and restored data directories share it, and a failover changes it.
// While changes are followed, the last heartbeat in the log is stronger evidence. Then another identity is
// accepted, and following stops unless that heartbeat is in the log.

// A sourceRecord is the source as the state records it.
type sourceRecord struct{ *job }

// isIdentity reports whether a recorded source is an identity rather than an address.
func isIdentity(source string) bool {
	return strings.HasPrefix(source, "mysql ") || strings.HasPrefix(source, "mariadb ")
}

// accept returns an error if the source is not the recorded one. With --restart nothing is resumed, and
// any source is accepted.
func (s *sourceRecord) accept(ctx context.Context) error {
	for i := range s.o.Tables {
		spec := &s.o.Tables[i]
		var recorded, position string
		_, err := s.to.Query(ctx, "SELECT source, position FROM "+s.state.Tables()+state.RowsOf(spec), func(row mysqlwire.TextRow) error {
			recorded, position = string(row[0]), string(row[1])
			return nil
		})
		if state.Absent(err) || s.o.Restart {
			return nil
		}
		if err == nil && recorded != "" {
			err = s.mayBe(spec, recorded, position)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mayBe returns an error if the source is not the one recorded for a table.
func (s *sourceRecord) mayBe(spec *tabledef.Spec, recorded, position string) error {
	if recorded == s.source {
		return nil
	}
	p, err := binlog.ParsePosition(position)
	if err == nil && s.o.Follow && isIdentity(recorded) && p.GTID != "" && p.Heartbeat != "" {
		return nil // following checks that the log continues
	}
	try := "; repeat its command to resume it, or use option restart"
	if isIdentity(s.source) {
		try += fmt.Sprintf("; if it is certain that it is the same server, which has got another identity or address, UPDATE %s SET source = %s%s in the target",
			s.state.Tables(), session.Literal(s.source), state.RowsOf(spec))
	}
	return fmt.Errorf("resume the copy to %s: its rows came from %s, not from %s at %s%s", spec.Target(), recorded, s.source, s.from.Addr(), try)
}

// adopt records the current identity of the source in place of the accepted recorded one. With --restart the
// recorded source may be another server.
func (s *sourceRecord) adopt(ctx context.Context) error {
	if s.o.Restart {
		return nil
	}
	recorded, err := s.state.RecordedSources(ctx, s.to, s.o.Tables)
	if err != nil {
		return err
	}
	for _, source := range recorded {
		if source == s.source {
			continue
		}
		err := s.state.Lease.Write(ctx, s.to, func() error {
			for _, table := range []string{s.state.Follows(), s.state.Cutovers()} {
				err := state.ExecExact(ctx, s.to, "UPDATE "+table+" SET source = "+session.Literal(s.source)+" WHERE source = "+session.Literal(source))
				if err != nil && !state.Absent(err) { // absent: nothing was followed
					return err
				}
			}
			return s.adoptRows(ctx, source)
		})
		if err != nil {
			return fmt.Errorf("record the identity of the source in schema %s of the target: %w", s.state.Schema, err)
		}
	}
	return nil
}

// adoptRows records the current identity of the source for the tables whose rows came from source.
func (s *sourceRecord) adoptRows(ctx context.Context, source string) error {
	for i := range s.o.Tables {
		if err := state.ExecExact(ctx, s.to, "UPDATE "+s.state.Tables()+" SET source = "+session.Literal(s.source)+state.RowsOf(&s.o.Tables[i])+" AND source = "+session.Literal(source), 0, 1); err != nil {
			return err
		}
	}
	return nil
}

// isTarget reports whether the source recorded in the source is this copy's target.
func (s *sourceRecord) isTarget(ctx context.Context, recorded string) bool {
	identity, err := session.ServerIdentity(ctx, s.to)
	return err == nil && identity == recorded
}
