package copier

import (
	"context"
	"fmt"
	"strings"

	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
)

// A describer connects to both sides and describes the tables.
type describer struct {
	*job
	monitor *monitor
}

// run connects to both sides and reads the tables' definitions.
func (d *describer) run(ctx context.Context) (err error) {
	if d.from, err = d.connectSource(ctx); err != nil {
		return fmt.Errorf("connect to the source: %w", err)
	}
	if d.source, err = d.from.Identity(ctx); err != nil {
		return err
	}
	// Without checks of foreign keys, a table can be truncated to which others refer.
	if d.to, err = session.Connect(ctx, d.o.To, session.Int("foreign_key_checks", 0)); err != nil {
		return fmt.Errorf("connect to the target: %w", err)
	}
	if err := d.monitor.identify(ctx); err != nil {
		return err
	}
	if d.dialect, err = inventory.TranslatorTo(ctx, vendorOf(d.source), d.to, d.o.Collations); err != nil {
		return err
	}
	if err := d.refuseSameTable(ctx); err != nil {
		return err
	}
	if err := d.refuseSharedTarget(ctx); err != nil {
		return err
	}
	if err := d.loadLookups(ctx); err != nil {
		return err
	}
	for i := range d.o.Tables {
		t, err := d.describeTable(ctx, &d.o.Tables[i])
		if err == nil {
			err = d.mayHaveTriggers(ctx, t)
		}
		if err != nil {
			return err
		}
		d.tables = append(d.tables, t)
	}
	if err := d.o.merge.sameDefinitions(d.from.Addr(), d.tables); err != nil {
		return err
	}
	if d.o.Follow {
		if err := findCascades(d.tables); err != nil {
			return err
		}
	}
	return (&foreignKeys{d.job}).find(ctx)
}

func (d *describer) describeTable(ctx context.Context, spec *tabledef.Spec) (*tabledef.Table, error) {
	if d.o.Follow {
		return (&redefiner{d.job}).describe(ctx, d.from, spec)
	}
	return tabledef.Describe(ctx, d.from, d.to, d.describing(), spec)
}

// mayHaveTriggers returns an error for a target table with triggers, unless its copy is finished and no row is written any more.
func (d *describer) mayHaveTriggers(ctx context.Context, t *tabledef.Table) error {
	if t.Create != "" || len(t.Written.Triggers) == 0 {
		return nil
	}
	phase, _, err := d.state.PhaseOf(ctx, d.to, t.Spec)
	if err == nil && (phase != tabledef.Finished || d.o.Follow || d.o.Restart) {
		err = fmt.Errorf("table %s: %w", t.Spec.Source(), t.TriggersRefused(t.Written))
	}
	return err
}

// refuseSharedTarget returns an error for tables whose target names differ only in case if the target does not
// distinguish case: they would be copied to one table.
func (d *describer) refuseSharedTarget(ctx context.Context) error {
	for i := range d.o.Tables {
		a := &d.o.Tables[i]
		for j := range d.o.Tables[:i] {
			b := &d.o.Tables[j]
			if !strings.EqualFold(a.Target(), b.Target()) {
				continue
			}
			fold, err := session.QueryValue(ctx, d.to, "SELECT @@lower_case_table_names")
			if err != nil {
				return fmt.Errorf("find out whether the target distinguishes names by case: %w", err)
			}
			if fold == "0" {
				return nil // the target distinguishes case for the other names too
			}
			return fmt.Errorf("copy %s and %s: at %s both would be one table, because names of tables are compared without case there (lower_case_table_names = %s); give one of them another name, as in %s=%s_2",
				b.Source(), a.Source(), d.o.To.Addr, fold, a.Source(), a.Target())
		}
	}
	return nil
}

// refuseSameTable returns an error if a table would be copied to itself.
func (d *describer) refuseSameTable(ctx context.Context) error {
	for i := range d.o.Tables {
		t := &d.o.Tables[i]
		if !strings.EqualFold(t.Source(), t.Target()) {
			continue
		}
		if t.Source() != t.Target() { // different tables if names are case-sensitive
			exact, err := session.QueryValue(ctx, d.to, "SELECT @@lower_case_table_names")
			if err != nil || exact == "0" {
				return err
			}
		}
		same := d.from.Addr() == d.o.To.Addr
		if other, ok := d.from.(session.Querier); ok && !same {
			var err error
			if same, err = session.SameServer(ctx, d.to, other); err != nil {
				return err
			}
		}
		if same {
			return fmt.Errorf("table %s would be copied onto itself: %s and %s are one server", t.Source(), d.from.Addr(), d.o.To.Addr)
		}
		return nil // the servers differ for the other tables too
	}
	return nil
}
