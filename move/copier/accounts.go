package copier

import (
	"context"
	"errors"

	"github.com/taredb/tare/internal/move/accounts"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
)

// Accounts and their privileges are created before the rows: what the target refuses is refused before a row moves, and servers check the definers
// of views when other views are created that refer to them. So the privileges on an object are granted as soon as it exists.

var errDumpedUsers = errors.New("a dump has no accounts: copy them from server to server")

// planAccounts plans the accounts of a selection; nil: none are copied.
func (j *job) planAccounts(ctx context.Context, source session.Querier, inv *inventory.Inventory, sel *inventory.Selection) (plan *accounts.Plan, err error) {
	if !sel.Users {
		return nil, nil
	}
	if source == nil {
		return nil, errDumpedUsers
	}
	plan, err = accounts.New(ctx, source, j.to, inv, sel)
	j.o.Accounts = plan
	return plan, err
}

// createAccounts creates the accounts that the target has not, with their privileges on schemas and tables.
func (s *schemaObjects) createAccounts(ctx context.Context) error {
	if s.o.Accounts == nil {
		return nil
	}
	return s.withCreator(ctx, func(c *inventory.Creator) error { return s.o.Accounts.Create(ctx, s.accountCreator(c)) })
}

// grantOn returns the function that grants the privileges on an object that exists; nil: no accounts are copied.
func (s *schemaObjects) grantOn(c *inventory.Creator) func(context.Context, *inventory.Object) error {
	if s.o.Accounts == nil {
		return nil
	}
	creator := s.accountCreator(c)
	return func(ctx context.Context, o *inventory.Object) error { return s.o.Accounts.Grant(ctx, creator, o) }
}

// compareAccounts compares the accounts of the target with those of the source.
func (s *schemaObjects) compareAccounts(ctx context.Context) error {
	if s.o.Accounts == nil {
		return nil
	}
	return s.withCreator(ctx, func(c *inventory.Creator) (err error) {
		s.accounts, err = s.o.Accounts.Report(ctx, c.Conn)
		return err
	})
}

func (s *schemaObjects) accountCreator(c *inventory.Creator) *accounts.Creator {
	return &accounts.Creator{Conn: c.Conn, Check: c.Check, Created: func(text string) {
		s.created++
		s.o.Observe(telemetry.Event{Kind: telemetry.EventObject, Text: text})
	}}
}
