package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/alter"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/rowstream"
)

// Alter holds the options of tare alter.
type Alter struct {
	ConfigFile string

	On    ControlURL
	OnTLS mysqlconn.TLSMode
	TLSCA string // file; "" for the system's authorities

	Schema, Table string

	MaxLockWait time.Duration
	LockTries   int
	MaxInplace  Bytes
	Patience    time.Duration

	Diag Diag

	table string
	set   *Set
}

// NewAlter returns the options of tare alter with their defaults.
func NewAlter() *Alter {
	c := &Alter{}
	s := newSet("alter", &c.ConfigFile)
	s.Control(&c.On, "on", "account on the server: mysql://user:password@host:port; required")
	tlsMode(s, &c.OnTLS, "on-tls", "TLS towards --on")
	s.String(&c.TLSCA, "tls-ca", "file", "", "CA certificates to verify the server with (PEM); those of the system when empty")
	s.String(&c.table, "table", "db.t", "", "table to alter; required")
	s.Duration(&c.MaxLockWait, "max-lock-wait", alter.DefaultMaxLockWait.String(), "how long a statement waits for the table's lock, with clients queued behind it, before it is given up and retried: whole seconds, 1s or more")
	s.Int(&c.LockTries, "lock-tries", fmt.Sprint(alter.DefaultLockTries), 1, "attempts to get the lock, with pauses in between, before the command fails")
	s.Bytes(&c.MaxInplace, "max-inplace", Bytes(alter.DefaultMaxInplace).String(), 0, "largest table, with its indexes, that the server may rebuild or index in place, which replicas execute as one statement; 0: none")
	s.Duration(&c.Patience, "patience", "1m", "how long an unreachable server is awaited")
	c.Diag.declare(s)
	c.set = s
	return c
}

// Set returns the section, for flags and printing.
func (c *Alter) Set() *Set { return c.set }

// Load gives every option its value and validates them together.
func (c *Alter) Load(in Input) (warnings []string, err error) {
	warnings, err = c.set.load(in)
	if err == nil {
		err = c.Validate()
	}
	return warnings, err
}

// Validate parses the name of the table and reports options that would have no effect.
func (c *Alter) Validate() error {
	var errs []error
	if c.table != "" {
		var err error
		if c.Schema, c.Table, err = rowstream.ParseTable(c.table); err != nil {
			errs = append(errs, fmt.Errorf("--table: %w", err))
		}
	}
	if c.MaxLockWait < time.Second || c.MaxLockWait%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--max-lock-wait %v: servers count whole seconds; use 1s or more", c.MaxLockWait))
	}
	return errors.Join(errs...)
}

// Ready reports what is missing to alter a table.
func (c *Alter) Ready() error {
	var errs []error
	if c.On.Addr == "" {
		errs = append(errs, errors.New("--on is required, such as --on mysql://app@db1"))
	}
	if c.table == "" {
		errs = append(errs, errors.New("--table is required, such as --table shop.orders"))
	}
	return errors.Join(errs...)
}

// Options are those for package alter, without the server.
func (c *Alter) Options() alter.Options {
	o := alter.Options{
		Schema: c.Schema, Table: c.Table, MaxLockWait: c.MaxLockWait, LockTries: c.LockTries, MaxInplace: int64(c.MaxInplace), Patience: c.Patience,
	}
	if c.MaxInplace == 0 {
		o.MaxInplace = -1
	}
	return o
}
