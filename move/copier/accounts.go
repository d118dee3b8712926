package copier

import (
	"context"
	"errors"

	"github.com/taredb/tare/move/copier/inventory"
	"github.com/taredb/tare/move/copier/telemetry"
	"github.com/taredb/tare/move/internal/accounts"
	"github.com/taredb/tare/mysql/rowstream"
)

// Accounts and their privileges are created before the rows: what the target refuses is refused before a row moves, and servers check the definers
// of views when other views are created that refer to them. So the privileges on an object are granted as soon as it exists.

var errDumpedUsers = errors.New("a dump has no accounts: copy them from server to server")

// planAccounts plans the accounts of a selection; nil: none are copied.
func (r *run) planAccounts(ctx context.Context, source rowstream.Querier, inv *inventory.Inventory, sel *inventory.Selection) (plan *accounts.Plan, err error) {
	if !sel.Users {
		return nil, nil
	}
	if source == nil {
		return nil, errDumpedUsers
	}
	plan, err = accounts.New(ctx, source, r.to, inv, sel)
	r.o.Accounts = plan
	return plan, err
}

// createAccounts creates the accounts that the target has not, with their privileges on schemas and tables.
func (r *run) createAccounts(ctx context.Context) error {
	if r.o.Accounts == nil {
		return nil
	}
	return r.withCreator(ctx, func(c *inventory.Creator) error { return r.o.Accounts.Create(ctx, r.accountCreator(c)) })
}

// grantOn returns the function that grants the privileges on an object that exists; nil: no accounts are copied.
func (r *run) grantOn(c *inventory.Creator) func(context.Context, *inventory.Object) error {
	if r.o.Accounts == nil {
		return nil
	}
	creator := r.accountCreator(c)
	return func(ctx context.Context, o *inventory.Object) error { return r.o.Accounts.Grant(ctx, creator, o) }
}

// compareAccounts compares the accounts of the target with those of the source.
func (r *run) compareAccounts(ctx context.Context) error {
	if r.o.Accounts == nil {
		return nil
	}
	return r.withCreator(ctx, func(c *inventory.Creator) (err error) {
		r.accounts, err = r.o.Accounts.Report(ctx, c.Conn)
		return err
	})
}

func (r *run) accountCreator(c *inventory.Creator) *accounts.Creator {
	return &accounts.Creator{Conn: c.Conn, Check: c.Check, Created: func(text string) {
		r.objects++
		r.o.Observe(telemetry.Event{Kind: telemetry.EventObject, Text: text})
	}}
}
