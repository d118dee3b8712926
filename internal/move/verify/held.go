package verify

import (
	"context"
	"errors"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// longestHeld is how long a view serves for further parts, at most. Taking a view costs a connection, the table's
// definition, and a wait for the target to reach it, which is more than comparing a small part.
const longestHeld = time.Second

// A held is the view of a table of the source in which parts are compared, one after the other. The target has applied
// more and more changes that the view lacks: a part that differs is compared again in a new view, and views are then
// replaced earlier.
type held struct {
	view rowstream.View
	t    *tabledef.Table

	taken    time.Time
	reached  binlog.Position // the target's, before the first part was compared
	compared int             // parts that were compared in it

	life context.Context // done when it has expired
	end  context.CancelFunc
}

// errStale means that a part differs from a view in which others were compared before.
var errStale = errors.New("the part differs in a view that others were compared in before")

// hold ensures that there is a view of a table: a new one, or one that is young enough to be used again.
func (v *Following) hold(ctx context.Context, t *tabledef.Table, fresh bool) error {
	if h := v.held; h != nil && h.t == t && (h.compared == 0 || !fresh && time.Since(h.taken) < v.holds) && h.life.Err() == nil {
		return nil
	}
	if err := v.release(); err != nil {
		return err
	}
	age := v.o.MaxViewAge
	age -= age / 10
	h := &held{t: t, taken: time.Now()}
	h.life, h.end = context.WithTimeoutCause(ctx, age, rowstream.ErrViewExpired)
	var err error
	if h.view, err = v.o.Source.ShortView(h.life, "", t.Source, age); err != nil {
		err = h.explain(err)
		h.end()
		return err
	}
	v.held = h
	return nil
}

// explain adds to an error that the view has expired.
func (h *held) explain(err error) error {
	if err != nil && errors.Is(context.Cause(h.life), rowstream.ErrViewExpired) {
		err = errors.Join(rowstream.ErrViewExpired, err)
	}
	return err
}

// release ends the view, if there is one.
func (v *Following) release() error {
	h := v.held
	if h == nil {
		return nil
	}
	v.held = nil
	defer h.end()
	return h.view.Close()
}

// used records that a part was compared in the view, and sets for how long views serve: half as long as this one after a part that
// differed in it, and up to twice as long after others.
func (v *Following) used(stale bool) {
	age := time.Since(v.held.taken)
	v.held.compared++
	switch {
	case stale:
		v.holds = age / 2
	case 2*age > v.holds:
		v.holds = min(longestHeld, 2*v.holds+time.Millisecond)
	}
}
