package copier

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// Servers have many names: a host's name, its address, a port that is forwarded. Ids that they tell of themselves
// are copied along with their data. So whether two connections lead to one server is tried: a lock that is taken
// over the one is seen over the other.

// sameServer reports whether a connection and another server are one.
func sameServer(ctx context.Context, c *mysqlconn.Client, other querier) (same bool, err error) {
	name := "tare.same." + rand.Text()
	got := ""
	if _, err := c.Query(ctx, "SELECT GET_LOCK("+state.Literal(name)+", 0)", func(row mysqlwire.TextRow) error {
		got = string(row[0])
		return nil
	}); err != nil {
		return false, fmt.Errorf("find out which server is which: %w", err)
	}
	if got != "1" {
		return false, errors.New("find out which server is which: the server gives no lock")
	}
	defer func() {
		_, releaseErr := c.Query(ctx, "SELECT RELEASE_LOCK("+state.Literal(name)+")", func(mysqlwire.TextRow) error { return nil })
		err = errors.Join(err, releaseErr)
	}()
	if err := other.Query(ctx, "SELECT IS_FREE_LOCK("+state.Literal(name)+")", func(row mysqlwire.TextRow) error {
		same = string(row[0]) != "1"
		return nil
	}); err != nil {
		return false, fmt.Errorf("find out which server is which: %w", err)
	}
	return same, nil
}

// isServer reports whether the server of a connection is the one at an address, with the account that cfg has.
func isServer(ctx context.Context, c *mysqlconn.Client, cfg mysqlconn.Config, addr string) (bool, error) {
	cfg.Addr = addr
	other, err := binlog.OpenDirect(ctx, cfg)
	if err != nil {
		return false, err
	}
	same, err := sameServer(ctx, c, other)
	return same, errors.Join(err, other.Close())
}

// intoOne refuses tables whose targets differ in case alone where the target does not: they would become one table.
func (r *run) intoOne(ctx context.Context) error {
	for i := range r.o.Tables {
		a := &r.o.Tables[i]
		for j := range r.o.Tables[:i] {
			b := &r.o.Tables[j]
			if !strings.EqualFold(a.Target(), b.Target()) {
				continue
			}
			fold, err := state.QueryValue(ctx, r.to, "SELECT @@lower_case_table_names")
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
			exact, err := state.QueryValue(ctx, r.to, "SELECT @@lower_case_table_names")
			if err != nil || exact == "0" {
				return err
			}
		}
		same := r.from.Addr() == r.o.To.Addr
		if other, ok := r.from.(querier); ok && !same {
			var err error
			if same, err = sameServer(ctx, r.to, other); err != nil {
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
