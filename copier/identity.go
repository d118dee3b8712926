package copier

import (
	"context"
	"fmt"
	"strings"

	"github.com/taredb/tare/rowstream"
)

// intoOne refuses tables whose targets differ in case alone where the target does not: they would become one table.
func (r *run) intoOne(ctx context.Context) error {
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
				return nil // nor are the others one
			}
			return fmt.Errorf("copy %s and %s: at %s both would be one table, because names of tables are compared without case there (lower_case_table_names = %s); give one of them another name, as in %s=%s_2",
				b.Source(), a.Source(), r.o.To.Addr, fold, a.Source(), a.Target())
		}
	}
	return nil
}

// ontoItself refuses to copy a table onto itself.
func (r *run) ontoItself(ctx context.Context) error {
	for i := range r.o.Tables {
		t := &r.o.Tables[i]
		if !strings.EqualFold(t.Source(), t.Target()) {
			continue
		}
		if t.Source() != t.Target() { // other tables where names have a case
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
		return nil // nor are the others
	}
	return nil
}
