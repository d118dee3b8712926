package copier

import (
	"context"
	"fmt"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// Changes by ON DELETE CASCADE and ON DELETE SET NULL are in few servers' logs. Where both tables of a key
// are followed, the log reader derives them from the deletion of the parent row (binlog.Cascaded), and the
// applier executes them as a statement on the child table. doc.go explains why that is exact, and why other
// actions are refused.

// findCascades finds the foreign keys whose changes are derived while following.
func findCascades(tables []*tabledef.Table) error {
	all := make([]*rowstream.Table, len(tables))
	for i, t := range tables {
		all[i] = t.Source
	}
	if err := rowstream.ResolveCascades(all); err != nil {
		return err
	}
	eachCascade(tables, func(t, parent *tabledef.Table, c *rowstream.Cascade) {
		for _, side := range [...]*tabledef.Table{t, parent} {
			switch d := side.Redefined; {
			case side.Plan != nil || side.Spec.Where != "" || len(side.Spec.Columns) > 0:
				c.Refused = fmt.Sprintf("%s is copied in part", side.Spec.Source())
			case d != nil && (d.Past || d.Keys || d.Change != ""):
				c.Refused = fmt.Sprintf("%s was altered while it was followed, and what the key did before is not known; use option restart", side.Spec.Source())
			}
		}
	})
	return nil
}

// eachCascade calls do for each foreign key that is not refused so far and whose parent table is copied.
func eachCascade(tables []*tabledef.Table, do func(t, parent *tabledef.Table, c *rowstream.Cascade)) {
	for _, t := range tables {
		for i := range t.Source.Cascades {
			c := &t.Source.Cascades[i]
			for _, parent := range tables {
				if c.Refused == "" && parent.Source == c.Parent {
					do(t, parent, c)
				}
			}
		}
	}
}

// startCascades refuses to derive changes of a key if its parent table is followed from a later position than
// the child table: the parent rows deleted between the two positions are not read.
func startCascades(tables []*tabledef.Table) {
	eachCascade(tables, func(t, parent *tabledef.Table, c *rowstream.Cascade) {
		if before, known := t.Start.Before(parent.Start); !t.Start.IsZero() && (parent.Start.IsZero() || before || !known) {
			c.Refused = fmt.Sprintf("%s is followed from a later position; use option restart", parent.Spec.Source())
		}
	})
}

// sameCascades returns an error for tables whose foreign keys have changed between their description and the
// snapshot. From the snapshot on, changes of definitions are in the log.
func sameCascades(ctx context.Context, source binlog.Follower, tables []*tabledef.Table) error {
	for _, t := range tables {
		if len(t.Source.Cascades) == 0 || t.Past() {
			continue
		}
		now, err := source.Describe(ctx, t.Spec.Schema, t.Spec.Name)
		if err != nil {
			return err
		}
		if !tabledef.SameForeignKeys(t.Source, now) {
			return fmt.Errorf("table %s is being altered just now: run the same command again", t.Spec.Source())
		}
	}
	return nil
}
