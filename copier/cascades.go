package copier

import (
	"context"
	"fmt"
	"reflect"

	"github.com/taredb/tare/rowstream"
)

// Changes by ON DELETE CASCADE and ON DELETE SET NULL are in few servers' logs. Where both tables of a key are followed, the reader
// of the log derives it from the deletion of the row that they refer to (binlog.Cascaded), and the applier executes it as a
// statement on the table of the key. doc.go has the reasons why that is exact, and why other actions are refused.

// findCascades finds the foreign keys whose changes are derived while following.
func (r *run) findCascades() error {
	if !r.o.Follow {
		return nil
	}
	all := make([]*rowstream.Table, len(r.tables))
	for i, t := range r.tables {
		all[i] = t.source
	}
	if err := rowstream.ResolveCascades(all); err != nil {
		return err
	}
	r.eachCascade(func(t, parent *table, c *rowstream.Cascade) {
		for _, side := range [...]*table{t, parent} {
			switch d := side.redefined; {
			case side.plan != nil || side.spec.Where != "" || len(side.spec.Columns) > 0:
				c.Refused = fmt.Sprintf("%s is copied in part", side.spec.source())
			case d != nil && (d.past || d.keys || d.change != ""):
				c.Refused = fmt.Sprintf("%s was altered while it was followed, and what the key did before is not known; use --restart", side.spec.source())
			}
		}
	})
	return nil
}

// eachCascade calls do for each foreign key whose changes can be derived so far.
func (r *run) eachCascade(do func(t, parent *table, c *rowstream.Cascade)) {
	for _, t := range r.tables {
		for i := range t.source.Cascades {
			c := &t.source.Cascades[i]
			for _, parent := range r.tables {
				if c.Refused == "" && parent.source == c.Parent {
					do(t, parent, c)
				}
			}
		}
	}
}

// startCascades refuses to derive changes of a key where the table that it refers to is followed from a later position than its own: the
// rows that were deleted between them are not read.
func (r *run) startCascades() {
	r.eachCascade(func(t, parent *table, c *rowstream.Cascade) {
		if before, known := t.start.Before(parent.start); !t.start.IsZero() && (parent.start.IsZero() || before || !known) {
			c.Refused = fmt.Sprintf("%s is followed from a later position; use --restart", parent.spec.source())
		}
	})
}

// sameCascades refuses, once the snapshot is taken, tables whose foreign keys are others than they were when they were described: from
// the snapshot on, changes of definitions are in the log.
func (r *run) sameCascades(ctx context.Context) error {
	if !r.o.Follow {
		return nil
	}
	for _, t := range r.tables {
		if len(t.source.Cascades) == 0 || t.past() {
			continue
		}
		now, err := r.from.Describe(ctx, t.spec.Schema, t.spec.Name)
		if err != nil {
			return err
		}
		if !sameForeignKeys(t.source, now) {
			return fmt.Errorf("table %s is being altered just now: run the same command again", t.spec.source())
		}
	}
	return nil
}

// sameForeignKeys reports whether two descriptions of a table have the same foreign keys.
func sameForeignKeys(a, b *rowstream.Table) bool {
	keys, _, err := rowstream.CreateForeignKeys(a.Create)
	others, _, errOther := rowstream.CreateForeignKeys(b.Create)
	return err == nil && errOther == nil && reflect.DeepEqual(keys, others)
}

// cascadeSQL returns the statements of the actions of the table's foreign keys, by the number of the Cascade; nil when nothing is
// derived.
func (t *table) cascadeSQL() (all []*rowstream.RowSQL, err error) {
	for i := range t.source.Cascades {
		if c := &t.source.Cascades[i]; c.Refused != "" || !c.OnDelete() {
			continue
		}
		if all == nil {
			all = make([]*rowstream.RowSQL, len(t.source.Cascades))
		}
		if all[i], err = rowstream.NewCascadeSQL(t.spec.targetSQL(), t.source, i); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.spec.target(), err)
		}
	}
	return all, nil
}
