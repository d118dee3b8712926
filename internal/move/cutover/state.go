package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// A record is the row of copy_cutover in the target that has the progress of a copy's cutover.
type record struct {
	*state.Following
}

// recorded is the content of a record.
type recorded struct {
	phase  phase
	source binlog.Position // everything before it was in the target
	target binlog.Position // of the target's log before the first write of a client
	since  time.Duration   // since the switch was recorded
}

// load returns the record of this copy, and the target tables that cutovers of other copies have in common
// with it. It waits for a transaction that is still being committed or rolled back.
func (s *record) load(ctx context.Context, c *mysqlconn.Client) (own recorded, others []string, err error) {
	err = state.RepeatDeadlocked(func() error {
		own, others, err = s.loadOnce(ctx, c)
		return err
	})
	if state.Absent(err) { // no cutover was started
		err = nil
	}
	if err != nil {
		return own, nil, fmt.Errorf("read from schema %s of the target how far the cutover is: %w", s.Schema, err)
	}
	return own, others, nil
}

func (s *record) loadOnce(ctx context.Context, c *mysqlconn.Client) (own recorded, others []string, err error) {
	mine := strings.Split(s.Targets, "\n")
	_, err = c.Query(ctx, "SELECT id, version, targets, phase, source_position, target_position, TIMESTAMPDIFF(MICROSECOND, switched, UTC_TIMESTAMP(6)) FROM "+
		s.Cutovers()+" FOR UPDATE", func(row mysqlwire.TextRow) error {
		if err := state.CheckForm(row[1]); err != nil {
			return err
		}
		if string(row[0]) != s.ID {
			for target := range strings.SplitSeq(string(row[2]), "\n") {
				if slices.Contains(mine, target) {
					others = append(others, target)
				}
			}
			return nil
		}
		own.phase = phase(row[3])
		if row[6] != nil {
			micros, err := strconv.ParseInt(string(row[6]), 10, 64)
			if err != nil {
				return err
			}
			own.since = time.Duration(micros) * time.Microsecond
		}
		var err1, err2 error
		own.source, err1 = binlog.ParsePosition(string(row[4]))
		own.target, err2 = binlog.ParsePosition(string(row[5]))
		return errors.Join(err1, err2)
	})
	return own, others, err
}

// recordCutting records that a switch is about to be requested.
func (s *record) recordCutting(ctx context.Context, c *mysqlconn.Client, source, target binlog.Position) error {
	return s.write(ctx, c, "REPLACE INTO "+s.Cutovers()+" (id, version, source, targets, phase, source_position, target_position, noted) VALUES ("+
		session.Literal(s.ID)+", "+strconv.Itoa(state.StateVersion)+", "+session.Literal(s.Source)+", "+session.Literal(s.Targets)+", "+session.Literal(string(phaseCutting))+", "+
		session.Literal(source.String())+", "+session.Literal(target.String())+", UTC_TIMESTAMP(6))", phaseCutting)
}

// recordPhase records a later phase.
func (s *record) recordPhase(ctx context.Context, c *mysqlconn.Client, p phase) error {
	return s.write(ctx, c, "UPDATE "+s.Cutovers()+" SET phase = "+session.Literal(string(p))+
		", noted = UTC_TIMESTAMP(6), switched = COALESCE(switched, UTC_TIMESTAMP(6))"+s.Where(), p)
}

// forget deletes the record.
func (s *record) forget(ctx context.Context, c *mysqlconn.Client) error {
	return s.write(ctx, c, "DELETE FROM "+s.Cutovers()+s.Where(), phaseNone)
}

// write executes a statement in a transaction that checks the epoch and verifies that the recorded phase is then p.
func (s *record) write(ctx context.Context, c *mysqlconn.Client, sql string, p phase) error {
	err := s.Lease.Write(ctx, c, func() error {
		if err := state.ExecExact(ctx, c, sql); err != nil {
			return err
		}
		return state.MustRead(ctx, c, "SELECT phase FROM "+s.Cutovers()+s.Where()+" FOR UPDATE", string(p))
	})
	if err != nil {
		return fmt.Errorf("note in schema %s of the target how far the cutover is: %w", s.Schema, err)
	}
	return nil
}
