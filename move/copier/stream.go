package copier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/mysql/binlog"
)

// A changeStream is the source's changes as a copy follows them: the position from which they are read, and heartbeats in them.
type changeStream struct {
	*job
	record *state.Following  // nil unless changes are followed
	heart  *follow.Heartbeat // nil: no heartbeats
	mark   string            // the first heartbeat, for the position of the snapshot
}

// startTables sets the position from which each table's changes are applied: after everything that the state
// of any following copy has recorded, and after the snapshot its rows were first read from. A table without
// copied rows gets none.
func (s *changeStream) startTables(ctx context.Context) error {
	sources, err := s.sources(ctx)
	if err != nil {
		return err
	}
	followed, err := s.state.FollowedTables(ctx, s.to, sources)
	if err != nil {
		return err
	}
	for _, t := range s.tables {
		if t.State == nil {
			continue
		}
		copied, err := t.CopiedAt()
		if err != nil {
			return err
		}
		if t.Start, err = state.Latest(append(followed[t.Spec.StateTarget()], copied)...); err != nil {
			return fmt.Errorf("follow the changes of %s: %w", t.Spec.Source(), err)
		}
	}
	return nil
}

// oldest returns the position from which the log is read: the first of the tables' starts. A table that this
// run has started to copy starts at its snapshot.
func (s *changeStream) oldest() (oldest binlog.Position, err error) {
	for _, t := range s.tables {
		if t.State == nil {
			continue
		}
		if t.Start.IsZero() {
			if t.Start, err = t.CopiedAt(); err != nil {
				return oldest, err
			}
		}
		if oldest.IsZero() {
			oldest = t.Start
			continue
		}
		before, known := t.Start.Before(oldest)
		if !known {
			return oldest, fmt.Errorf("follow the changes of %s: its rows are as of %s, those of another table as of %s, and neither is before the other: "+
				"they come from servers that had different transactions; copy the tables again with option restart", t.Spec.Source(), t.Start, oldest)
		}
		if before {
			oldest = t.Start
		}
	}
	return oldest, nil
}

// prepare returns an error, before any row is copied, if the source cannot be followed.
func (s *changeStream) prepare(ctx context.Context) (err error) {
	if !s.o.Follow {
		return nil
	}
	if err := s.state.CreateFollow(ctx, s.to); err != nil {
		return err
	}
	s.record = s.state.Followed(s.source, s.o.Tables)
	if s.o.Restart {
		if err := s.record.Forget(ctx, s.to); err != nil {
			return err
		}
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	for _, t := range s.tables {
		if d := t.Redefined; d != nil && d.Persist {
			if err := s.state.Define(ctx, s.to, t.Spec, d.Definition); err != nil {
				return err
			}
		}
	}
	return s.prepareHeart(ctx)
}

// check sets the positions from which the tables are followed, and returns an error if that is impossible.
// It changes nothing.
func (s *changeStream) check(ctx context.Context) (err error) {
	s.record = s.state.Followed(s.source, s.o.Tables)
	if _, err = s.record.Position(ctx, s.to); err != nil { // waits for a transaction that is being committed
		return err
	}
	if err := s.startTables(ctx); err != nil {
		return err
	}
	from, err := s.oldest()
	if err != nil {
		return err
	}
	startCascades(s.tables)
	return s.from.CheckFollow(ctx, s.present(), from)
}

// prepareHeart writes the first heartbeat and reads it from the log, unless heartbeats are off.
func (s *changeStream) prepareHeart(ctx context.Context) (err error) {
	s.heart = s.newHeart(s.from, s.record.ID+s.o.part.suffix(), s.tables)
	if s.heart == nil || len(s.present()) == 0 { // following stops at the change of their definition
		return nil
	}
	if s.mark, err = s.heart.First(ctx, s.present()); err != nil {
		return fmt.Errorf("prove that the changes of the source arrive: %w", err)
	}
	return nil
}

// marked returns the text of the snapshot's position with the heartbeat before it.
func (s *changeStream) marked(position string) (string, error) {
	p, err := binlog.ParsePosition(position)
	if err != nil || p.IsZero() || s.mark == "" {
		return position, err
	}
	p.Heartbeat = s.mark
	return p.String(), nil
}

// retentionPause is the interval of the check, while rows are copied, that the source still has the log from
// the position where following starts.
const retentionPause = time.Minute

// whileKept executes do, and fails as soon as the changes to follow have been purged from the log.
func (s *changeStream) whileKept(ctx context.Context, fail func(error), do func(context.Context) error) error {
	if !s.o.Follow {
		return do(ctx)
	}
	from, err := s.oldest()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer cancel()
	looking.Go(func() {
		ticker := time.NewTicker(retentionPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := s.from.CheckFollow(ctx, s.present(), from)
			if stopped := new(binlog.StopError); errors.As(err, &stopped) {
				fail(err)
				return
			}
		}
	})
	return do(ctx)
}

// plan does what prepare does, without heartbeats and without changes.
func (s *changeStream) plan(ctx context.Context) error {
	if !s.o.Follow {
		return nil
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	heart := s.newHeart(s.from, s.record.ID+s.o.part.suffix(), s.tables)
	if heart == nil || len(s.present()) == 0 {
		return nil
	}
	if err := heart.Check(ctx); err != nil {
		return fmt.Errorf("prove that the changes of the source arrive: %w", err)
	}
	return nil
}
