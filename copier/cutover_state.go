package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A cutState is the row of copy_cutover in the target that says how far a copy's cutover is.
type cutState struct {
	*followState
}

// A cutNoted is what such a row says.
type cutNoted struct {
	phase  cutPhase
	target binlog.Position // of the target's log when clients had written nothing there
	since  time.Duration   // since the switch was noted
}

func (s state) cutovers() string { return rowstream.Ident(s.schema) + ".copy_cutover" }

// createCutover makes the table if it is missing.
func (s state) createCutover(ctx context.Context, c *mysqlconn.Client) error {
	return s.createTables(ctx, c, "CREATE TABLE IF NOT EXISTS "+s.cutovers()+` (
  id              varbinary(64) NOT NULL COMMENT 'as in copy_follow',
  version         int NOT NULL COMMENT 'form of this row',
  source          blob NOT NULL COMMENT 'identity of the server that clients come from',
  targets         longblob NOT NULL COMMENT 'target tables, a line each',
  phase           varbinary(16) NOT NULL COMMENT 'cutting, cut, reversing or done',
  source_position longblob NOT NULL COMMENT 'of its binary log: all before it was in the target at the switch',
  target_position longblob NOT NULL COMMENT 'of the binary log here: what clients write comes after it',
  noted           datetime(6) NOT NULL,
  switched        datetime(6) DEFAULT NULL COMMENT 'when the switch was noted',
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='where the clients of a tare copy --cutover are'`)
}

// load reads what is noted, of this copy and of others that have a target table in common with it.
// It waits for a transaction that is still being committed or rolled back.
func (s *cutState) load(ctx context.Context, c *mysqlconn.Client, sources []string) (own cutNoted, others []string, err error) {
	mine := strings.Split(s.targets, "\n")
	var former []string // ids, in older forms
	for _, source := range sources {
		former = append(former, s.formerID(source))
	}
	_, err = c.Query(ctx, "SELECT id, version, targets, phase, target_position, TIMESTAMPDIFF(MICROSECOND, switched, UTC_TIMESTAMP(6)) FROM "+
		s.cutovers()+" FOR UPDATE", func(row mysqlwire.TextRow) error {
		if version, err := strconv.Atoi(string(row[1])); err != nil || version > StateVersion {
			return errors.Join(err, fmt.Errorf("it was written by a later version of Tare (form %s, this one supports %d): use that version", row[1], StateVersion))
		}
		if string(row[0]) != s.id && !slices.Contains(former, string(row[0])) {
			for target := range strings.SplitSeq(string(row[2]), "\n") {
				if slices.Contains(mine, target) {
					others = append(others, target)
				}
			}
			return nil
		}
		own.phase = cutPhase(row[3])
		if row[5] != nil {
			micros, err := strconv.ParseInt(string(row[5]), 10, 64)
			if err != nil {
				return err
			}
			own.since = time.Duration(micros) * time.Microsecond
		}
		p, err := binlog.ParsePosition(string(row[4]))
		own.target = p
		return err
	})
	if absent(err) { // no cutover was started
		err = nil
	}
	if err != nil {
		return own, nil, fmt.Errorf("read from schema %s of the target how far the cutover is: %w", s.schema, err)
	}
	return own, others, nil
}

// note says that a switch is about to be asked for.
func (s *cutState) note(ctx context.Context, c *mysqlconn.Client, source, target binlog.Position) error {
	return s.write(ctx, c, "REPLACE INTO "+s.cutovers()+" (id, version, source, targets, phase, source_position, target_position, noted) VALUES ("+
		literal(s.id)+", "+strconv.Itoa(StateVersion)+", "+literal(s.source)+", "+literal(s.targets)+", "+literal(string(cutCutting))+", "+
		literal(source.String())+", "+literal(target.String())+", UTC_TIMESTAMP(6))", cutCutting)
}

// enter notes a later phase.
func (s *cutState) enter(ctx context.Context, c *mysqlconn.Client, p cutPhase) error {
	return s.write(ctx, c, "UPDATE "+s.cutovers()+" SET phase = "+literal(string(p))+
		", noted = UTC_TIMESTAMP(6), switched = COALESCE(switched, UTC_TIMESTAMP(6))"+s.where(), p)
}

// forget takes the note back.
func (s *cutState) forget(ctx context.Context, c *mysqlconn.Client) error {
	return s.write(ctx, c, "DELETE FROM "+s.cutovers()+s.where(), cutNone)
}

// write executes a statement in a transaction that checks the epoch, and reads back that the phase is p.
func (s *cutState) write(ctx context.Context, c *mysqlconn.Client, sql string, p cutPhase) error {
	err := s.lease.write(ctx, c, func() error {
		if err := change(ctx, c, sql); err != nil {
			return err
		}
		return mustRead(ctx, c, "SELECT phase FROM "+s.cutovers()+s.where()+" FOR UPDATE", string(p))
	})
	if err != nil {
		return fmt.Errorf("note in schema %s of the target how far the cutover is: %w", s.schema, err)
	}
	return nil
}
