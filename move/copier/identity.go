package copier

import (
	"context"
	"fmt"
	"strings"

	"github.com/taredb/tare/mysql/rowstream"
)

// refuseSharedTarget returns an error for tables whose target names differ only in case if the target does not
// distinguish case: they would be copied to one table.
func (r *run) refuseSharedTarget(ctx context.Context) error {
	for i := range r.o.Tables {
		a := &r.o.Tables[i]
		for j := range r.o.Tables[:i] {
			b := &r.o.Tables[j]
			if !strings.EqualFold(a.Target(), b.Target()) {
				continue
			}
			fold, err := rowstream.QueryValue(ctx, r.to, "SELECT @@lower_case_table_names")
			if err != nil {
				return fmt.Errorf("find out whether the target distinguishes names by case: %w", err)
			}
			if fold == "0" {
				return nil // the target distinguishes case for the other names too
			}
			return fmt.Errorf("copy %s and %s: at %s both would be one table, because names of tables are compared without case there (lower_case_table_names = %s); give one of them another name, as in %s=%s_2",
				b.Source(), a.Source(), r.o.To.Addr, fold, a.Source(), a.Target())
		}
	}
	return nil
}

// refuseSameTable returns an error if a table would be copied to itself.
func (r *run) refuseSameTable(ctx context.Context) error {
	for i := range r.o.Tables {
		t := &r.o.Tables[i]
		if !strings.EqualFold(t.Source(), t.Target()) {
			continue
		}
		if t.Source() != t.Target() { // different tables if names are case-sensitive
			exact, err := rowstream.QueryValue(ctx, r.to, "SELECT @@lower_case_table_names")
			if err != nil || exact == "0" {
				return err
			}
		}
		same := r.from.Addr() == r.o.To.Addr
		if other, ok := r.from.(rowstream.Querier); ok && !same {
			var err error
			if same, err = rowstream.SameServer(ctx, r.to, other); err != nil {
				return err
			}
		}
		if same {
			return fmt.Errorf("table %s would be copied onto itself: %s and %s are one server", t.Source(), r.from.Addr(), r.o.To.Addr)
		}
		return nil // the servers differ for the other tables too
	}
	return nil
}
